#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/walk.h"
#include "supervisor/config.h"

/* Plain scalars mean what YAML 1.2's core schema says; what is in quotes is text. */
static bool
is_integer(const char *s)
{
	if (*s == '-' || *s == '+')
		s++;
	return *s && s[strspn(s, "0123456789")] == '\0';
}

static int
pack_plain(const struct node *node, struct buf *out, const char *file, char *err)
{
	const char *s = node->text;
	double real;
	char *end;

	if (node_is_nothing(node)) {
		pack_nil(out);
	} else if (!strcmp(s, "true") || !strcmp(s, "false")) {
		pack_bool(out, *s == 't');
	} else if (is_integer(s)) {
		errno = 0;
		if (*s == '-')
			pack_int(out, strtoll(s, NULL, 10));
		else
			pack_uint(out, strtoull(s, NULL, 10));
		if (errno)
			return conf_refuse(
			    err, file, node->at, "%.40s: does not fit 64 bits", s);
	} else if (strspn(s, "+-.0123456789eE") == strlen(s) &&
		   (real = strtod(s, &end), end != s && *end == '\0')) {
		if (!isfinite(real))
			return conf_refuse(err, file, node->at, "%.40s: is too large", s);
		pack_real(out, real);
	} else {
		pack_str_n(out, s, node->n);
	}
	return 0;
}

int
conf_pack_value(
    const struct node *node, struct buf *out, const char *file, char err[CONF_ERROR_MAX])
{
	size_t i, n = node->kind == NODE_MAP ? 2 * node->n : node->n;
	int r = 0;

	if (node->kind == NODE_TEXT) {
		if (node->plain)
			r = pack_plain(node, out, file, err);
		else
			pack_str_n(out, node->text, node->n);
	} else if (node->kind == NODE_LIST) {
		pack_array(out, (uint32_t)node->n);
	} else {
		pack_map(out, (uint32_t)node->n);
	}
	for (i = 0; r == 0 && node->kind != NODE_TEXT && i < n; i++) {
		/* A key is text, whatever it looks like. */
		if (node->kind == NODE_MAP && i % 2 == 0)
			pack_str_n(out, node->items[i]->text, node->items[i]->n);
		else
			r = conf_pack_value(node->items[i], out, file, err);
	}
	if (r == 0 && out->failed)
		r = conf_refuse(err, file, node->at, "out of memory");
	return r;
}
