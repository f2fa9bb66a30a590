#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/lib/wire.h"
#include "common/util.h"

/* Answers of a gateway: HTTP/1.1, with a length, no encoding.  Whoever answers otherwise is no
 * gateway, or one that is not to be trusted to mean one thing. */

#define HEAD_MAX (32u << 10)
#define BODY_MAX (2u << 20)

struct header {
	struct slice name, value;
};

static bool
is_named(const struct header *h, const char *name)
{
	return h->name.n == strlen(name) &&
	    strncasecmp((const char *)h->name.p, name, h->name.n) == 0;
}

static bool
value_is(const struct header *h, const char *text)
{
	return h->value.n == strlen(text) &&
	    strncasecmp((const char *)h->value.p, text, h->value.n) == 0;
}

/* The line without its end at the front of `rest`, which moves past it. */
static struct slice
take_line(struct slice *rest)
{
	const uint8_t *end = memmem(rest->p, rest->n, "\r\n", 2);
	struct slice line = { rest->p, (size_t)(end - rest->p) };

	rest->p = end + 2;
	rest->n -= line.n + 2;
	return line;
}

static bool
parse_header(struct slice line, struct header *ret)
{
	const uint8_t *colon = memchr(line.p, ':', line.n);

	if (colon == NULL || colon == line.p || isspace(line.p[0]))
		return false;
	ret->name = (struct slice){ line.p, (size_t)(colon - line.p) };
	ret->value = (struct slice){ colon + 1, line.n - ret->name.n - 1 };
	while (ret->value.n > 0 && (ret->value.p[0] == ' ' || ret->value.p[0] == '\t'))
		ret->value.p++, ret->value.n--;
	while (ret->value.n > 0 && isspace(ret->value.p[ret->value.n - 1]))
		ret->value.n--;
	return memchr(line.p, '\0', line.n) == NULL && memchr(line.p, '\r', line.n) == NULL;
}

static bool
parse_length(struct slice value, size_t *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < value.n; i++) {
		if (!isdigit(value.p[i]))
			return false;
		n = n * 10 + (size_t)(value.p[i] - '0');
		if (n > BODY_MAX)
			return false;
	}
	*ret = n;
	return value.n > 0;
}

static int
bad(struct caisson_error *error, const char *why)
{
	return error_set(error, "protocol", "this is no answer of a gateway: %s", why);
}

static bool
parse_status(struct slice line, unsigned *ret)
{
	char text[16];

	if (line.n < 12 || memcmp(line.p, "HTTP/1.1 ", 9) != 0 || (line.n > 12 && line.p[12] != ' '))
		return false;
	snprintf(text, sizeof text, "%.3s", (const char *)line.p + 9);
	return strspn(text, "0123456789") == 3 && sscanf(text, "%u", ret) == 1 && *ret >= 100;
}

int
wire_parse_response(struct slice in, struct wire_response *ret, struct caisson_error *error)
{
	const uint8_t *end = in.n > 0 ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;
	struct slice rest, line;
	bool has_length = false;
	struct header h;

	*ret = (struct wire_response){ 0 };
	if (end == NULL)
		return in.n > HEAD_MAX ? bad(error, "its head has no end") : 0;
	ret->head_bytes = (size_t)(end - in.p) + 4;
	rest = (struct slice){ in.p, ret->head_bytes - 2 };
	if (!parse_status(take_line(&rest), &ret->status))
		return bad(error, "it does not begin with HTTP/1.1 and a status");
	while (rest.n > 0) {
		line = take_line(&rest);
		if (!parse_header(line, &h))
			return bad(error, "a header without name or with a line break");
		if (is_named(&h, "Transfer-Encoding"))
			return bad(error, "it is encoded");
		if (is_named(&h, "Content-Length")) {
			if (has_length || !parse_length(h.value, &ret->body_bytes))
				return bad(error, "its length is not one number within the bound");
			has_length = true;
		}
		if (is_named(&h, "Connection") && value_is(&h, "close"))
			ret->close = true;
		if (is_named(&h, "Sec-WebSocket-Accept"))
			snprintf(ret->accept, sizeof ret->accept, "%.*s", (int)h.value.n,
			    (const char *)h.value.p);
	}
	if (!has_length && ret->status != 101 && ret->status != 204)
		return bad(error, "it has no length");
	return 1;
}

void
wire_encode(struct buf *out, const char *text)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	char code[4];

	for (; *text != '\0'; text++) {
		if (strchr(plain, *text) != NULL) {
			buf_add(out, text, 1);
			continue;
		}
		snprintf(code, sizeof code, "%%%02X", (unsigned char)*text);
		buf_add(out, code, 3);
	}
}
