#include "common/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/utf8.h"
#include "common/walk.h"

static void
add_text(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

static inline void
add_byte(struct buf *out, char c)
{
	uint8_t *p = buf_room(out, 1);

	if (p != NULL)
		*p = (uint8_t)c;
}

static void
write_escape(struct buf *out, uint32_t c)
{
	static const char letters[] = { ['\b'] = 'b',
		['\t'] = 't',
		['\n'] = 'n',
		['\f'] = 'f',
		['\r'] = 'r',
		['"'] = '"',
		['\\'] = '\\' };
	char text[16];

	if (c < sizeof(letters) && letters[c] != '\0')
		snprintf(text, sizeof(text), "\\%c", letters[c]);
	else if (c > 0xffff)
		snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
		    0xdc00 + ((c - 0x10000) & 0x3ff));
	else
		snprintf(text, sizeof(text), "\\u%04x", c);
	add_text(out, text);
}

/* Stands for itself, whatever reads it. */
static bool
is_plain(uint8_t c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Most strings are plain, and one piece. */
static bool
write_plain(struct slice s, struct buf *out)
{
	size_t n = 0;
	uint8_t *p;

	while (n < s.n && is_plain(s.p[n]))
		n++;
	if (n < s.n || s.n == 0)
		return false;
	p = buf_room(out, s.n + 2);
	if (p == NULL)
		return true;
	p[0] = p[s.n + 1] = '"';
	memcpy(p + 1, s.p, s.n);
	return true;
}

void
json_write_string(struct slice s, struct buf *out)
{
	size_t at = 0, plain = 0;
	uint32_t c = 0;
	int len;

	if (write_plain(s, out))
		return;
	buf_add(out, "\"", 1);
	while (at < s.n) {
		if (is_plain(s.p[at])) {
			at++;
			continue;
		}
		len = utf8_next(s.p + at, s.n - at, &c);
		if (len <=
		    0) { /* a walk lets none of these pass; never emit them all the same */
			c = 0xfffd;
			len = 1;
		} else if (c > 0x7f && !utf8_is_control(c)) {
			at += (size_t)len;
			continue;
		}
		buf_add(out, s.p + plain, at - plain);
		write_escape(out, c);
		at += (size_t)len;
		plain = at;
	}
	if (s.n > 0)
		buf_add(out, s.p + plain, at - plain);
	buf_add(out, "\"", 1);
}

void
json_write_base64(struct slice s, struct buf *out)
{
	size_t n = base64_size(s.n);
	uint8_t *p = buf_room(out, n + 2);

	if (p == NULL)
		return;
	p[0] = p[n + 1] = '"';
	base64_encode(s.p, s.n, (char *)p + 1);
}

/* Numbers stand in every event: printf() would take longer than all else in one. */
void
json_write_number(uint64_t v, struct buf *out)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	buf_add(out, p, (size_t)(text + sizeof(text) - p));
}

static void
write_real(double v, struct buf *out)
{
	char text[40];
	/* 15 digits are always kept, fewer stand without zeroes; but for the smallest. */
	int digits = fabs(v) < DBL_MIN ? 1 : 15;

	for (; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	add_text(out, text);
	/* A real stays one: 1.0 is not the integer 1. */
	if (strpbrk(text, ".e") == NULL)
		add_text(out, ".0");
}

struct writer {
	struct buf *out;
	bool pretty;
	unsigned depth;
};

static void
write_break(struct writer *w)
{
	unsigned i;

	if (!w->pretty)
		return;
	buf_add(w->out, "\n", 1);
	for (i = 0; i < w->depth; i++)
		buf_add(w->out, "  ", 2);
}

static void write_value(struct writer *w, struct slice *s);

/* Recursion is as deep as VALUE_DEPTH_MAX, which the walk has checked. */
static void
write_container(struct writer *w, const struct value *v, struct slice *s)
{
	bool map = v->type == VALUE_MAP;
	uint32_t i;

	add_byte(w->out, map ? '{' : '[');
	w->depth++;
	for (i = 0; i < v->count; i++) {
		if (i > 0)
			add_byte(w->out, ',');
		write_break(w);
		if (map) {
			json_write_string(value_open(s).bytes, w->out);
			add_byte(w->out, ':');
			if (w->pretty)
				add_byte(w->out, ' ');
		}
		write_value(w, s);
	}
	w->depth--;
	if (v->count > 0)
		write_break(w);
	add_byte(w->out, map ? '}' : ']');
}

static void
write_value(struct writer *w, struct slice *s)
{
	struct value v = value_open(s);

	switch (v.type) {
	case VALUE_NIL: add_text(w->out, "null"); break;
	case VALUE_BOOL: add_text(w->out, v.boolean ? "true" : "false"); break;
	case VALUE_UINT: json_write_number(v.uint, w->out); break;
	case VALUE_INT: /* always below zero: others are VALUE_UINT */
		buf_add(w->out, "-", 1);
		json_write_number(-(uint64_t)v.sint, w->out);
		break;
	case VALUE_FLOAT: write_real(v.real, w->out); break;
	case VALUE_STR: json_write_string(v.bytes, w->out); break;
	case VALUE_BIN: json_write_base64(v.bytes, w->out); break;
	case VALUE_ARRAY:
	case VALUE_MAP: write_container(w, &v, s); break;
	}
}

void
json_write(struct slice value, struct buf *out)
{
	struct writer w = { out, false, 0 };

	write_value(&w, &value);
}

void
json_write_pretty(struct slice value, struct buf *out)
{
	struct writer w = { out, true, 0 };

	write_value(&w, &value);
}

void
json_write_page(const char *name, struct slice list, struct slice next, struct buf *out)
{
	buf_add(out, "{", 1);
	json_write_string(slice_of(name), out);
	buf_add(out, ":", 1);
	json_write(list, out);
	if (next.n > 0) {
		buf_add(out, ",\"next\":", 8);
		json_write_string(next, out);
	}
	buf_add(out, "}", 1);
}
