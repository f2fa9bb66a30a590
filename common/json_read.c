/*
 * The reader of json.h: recursive descent, as deep as its bounds allow.
 *
 * How many elements an array or map has is known at its end: its header, of one byte until
 * then, is made longer if it must be.  Keys are kept by place, and compared when their object
 * ends.
 */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/put.h"
#include "common/utf8.h"
#include "common/walk.h"

#define NUMBER_MAX 1100 /* bytes: the exact form of every double has fewer */

const struct json_bounds json_payload = { ARGUMENTS_MAX, PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX };

struct key {
	size_t at, n; /* of its bytes in `out` */
	size_t end;   /* of its text */
};

struct reader {
	const uint8_t *text, *at, *end;
	const struct json_bounds *bounds;
	struct buf *out;
	struct buf scratch; /* a string with an escape in it */
	struct buf keys;    /* struct key, of all objects that are open */
	unsigned depth;
	uint32_t values;
	char *err;
};

/* `at` is behind the last character that was looked at. */
static int
fail_at(struct reader *r, const uint8_t *at, const char *rule)
{
	unsigned line = 1, column = 0;
	const uint8_t *p;

	for (p = r->text; p < at; p++) {
		if (p > r->text && p[-1] == '\n') {
			line++;
			column = 0;
		}
		column += (*p & 0xc0) != 0x80;
	}
	snprintf(r->err, JSON_ERROR_MAX, "line %u, column %u: %s", line, column, rule);
	return -EINVAL;
}

/* What stands here should not. */
static int
fail_here(struct reader *r, const char *rule)
{
	if (r->at == r->end)
		return fail_at(r, r->end, "ends too early");
	return fail_at(r, r->at + 1, rule);
}

static int
fail_bound(struct reader *r, const char *format, unsigned long bound)
{
	snprintf(r->err, JSON_ERROR_MAX, format, bound);
	return -EINVAL;
}

static void
skip_blanks(struct reader *r)
{
	while (r->at < r->end &&
	       (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
}

static bool
take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != (uint8_t)c)
		return false;
	r->at++;
	return true;
}

static int
count_value(struct reader *r)
{
	if (r->values++ == r->bounds->values)
		return fail_bound(r, "more than %lu values", r->bounds->values);
	if (r->out->failed)
		return -ENOMEM;
	if (r->out->n > r->bounds->bytes)
		return fail_bound(r, "more than %lu bytes when packed", r->bounds->bytes);
	return 0;
}

/* ---- strings ------------------------------------------------------------------------- */

static int
read_hex4(struct reader *r, uint32_t *ret)
{
	uint32_t v = 0;
	unsigned i;

	for (i = 0; i < 4; i++, r->at++) {
		uint8_t c = r->at < r->end ? *r->at : 0;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return fail_here(r, "four hexadecimal digits follow \\u");
	}
	*ret = v;
	return 0;
}

static void
add_character(struct buf *b, uint32_t c)
{
	uint8_t bytes[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
	bytes[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xf0) | c);
	buf_add(b, bytes, n);
}

static int
read_unicode(struct reader *r)
{
	uint32_t c, low;
	int rc = read_hex4(r, &c);

	if (rc < 0)
		return rc;
	if (c >= 0xd800 && c <= 0xdbff && take(r, '\\') && take(r, 'u')) {
		rc = read_hex4(r, &low);
		if (rc < 0)
			return rc;
		if (low < 0xdc00 || low > 0xdfff)
			return fail_at(r, r->at, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c >= 0xd800 && c <= 0xdfff)
		return fail_at(r, r->at, "half of a surrogate pair");
	add_character(&r->scratch, c);
	return 0;
}

static int
read_escape(struct reader *r)
{
	static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *name;

	if (take(r, 'u'))
		return read_unicode(r);
	name = r->at < r->end && *r->at != '\0' ? strchr(names, *r->at) : NULL;
	if (name == NULL)
		return fail_here(r, "no such escape");
	buf_add(&r->scratch, &bytes[name - names], 1);
	r->at++;
	return 0;
}

/* Up to a quote, a backslash or the end. */
static int
read_plain(struct reader *r, struct slice *ret)
{
	const uint8_t *from = r->at;
	uint32_t c;
	int n;

	while (r->at < r->end && *r->at != '"' && *r->at != '\\') {
		if (*r->at < 0x20)
			return fail_here(r, "a control character stands as an escape");
		r->at++;
	}
	*ret = (struct slice){ from, (size_t)(r->at - from) };
	if (utf8_valid(from, ret->n))
		return 0;
	while (from < r->at && (n = utf8_next(from, (size_t)(r->at - from), &c)) > 0)
		from += n;
	return fail_at(r, from + 1, "not UTF-8");
}

/* Behind its opening quote.  `*ret` lives until the next string is read. */
static int
read_text(struct reader *r, struct slice *ret)
{
	bool escaped = false;
	int rc;

	r->scratch.n = 0;
	for (;;) {
		rc = read_plain(r, ret);
		if (rc < 0)
			return rc;
		if (escaped || (r->at < r->end && *r->at == '\\'))
			buf_add(&r->scratch, ret->p, ret->n);
		if (take(r, '"'))
			break;
		if (!take(r, '\\'))
			return fail_here(r, "");
		escaped = true;
		rc = read_escape(r);
		if (rc < 0)
			return rc;
	}
	if (escaped)
		*ret = buf_slice(&r->scratch);
	return r->scratch.failed ? -ENOMEM : 0;
}

static int
read_string(struct reader *r)
{
	struct slice s;
	int rc = read_text(r, &s);

	if (rc == 0)
		pack_str_n(r->out, s.p, s.n);
	return rc;
}

/* ---- numbers and words ----------------------------------------------------------------- */

static bool
take_digits(struct reader *r)
{
	const uint8_t *from = r->at;

	while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
		r->at++;
	return r->at > from;
}

static int
pack_integer(struct reader *r, const uint8_t *from)
{
	bool negative = *from == '-';
	uint64_t v = 0, max = negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;

	for (from += negative; from < r->at; from++) {
		uint64_t digit = (uint64_t)(*from - '0');

		if (v > (max - digit) / 10)
			return fail_at(r, r->at, "too big integer");
		v = v * 10 + digit;
	}
	if (negative && v > 0)
		pack_int(r->out, -(int64_t)(v - 1) - 1);
	else
		pack_uint(r->out, v);
	return 0;
}

static int
pack_number(struct reader *r, const uint8_t *from)
{
	char text[NUMBER_MAX + 1];
	size_t n = (size_t)(r->at - from);
	double v;

	if (n > NUMBER_MAX)
		return fail_at(r, r->at, "a number of too many digits");
	memcpy(text, from, n);
	text[n] = '\0';
	v = strtod(text, NULL);
	if (!isfinite(v))
		return fail_at(r, r->at, "real number overflow");
	pack_real(r->out, v);
	return 0;
}

static int
read_number(struct reader *r)
{
	const uint8_t *from = r->at;
	bool real = false;

	take(r, '-');
	if (!take(r, '0') && !take_digits(r))
		return fail_here(r, "no value begins so");
	if (take(r, '.')) {
		real = true;
		if (!take_digits(r))
			return fail_here(r, "a digit follows the dot");
	}
	if (take(r, 'e') || take(r, 'E')) {
		real = true;
		if (!take(r, '+'))
			take(r, '-');
		if (!take_digits(r))
			return fail_here(r, "a digit follows the exponent's sign");
	}
	return real ? pack_number(r, from) : pack_integer(r, from);
}

static int
read_word(struct reader *r, const char *word)
{
	for (; *word != '\0'; word++)
		if (!take(r, *word))
			return fail_here(r, "no value begins so");
	return 0;
}

/* ---- arrays and objects ------------------------------------------------------------------ */

static int read_value(struct reader *r);

static int
compare_keys(const void *a, const void *b, void *arg)
{
	const struct key *x = a, *y = b;
	const uint8_t *out = arg;

	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return memcmp(out + x->at, out + y->at, x->n);
}

/* Of the object whose keys begin `from` bytes into r->keys; they are dropped. */
static int
check_keys(struct reader *r, size_t from)
{
	struct key *key;
	size_t i, n = (r->keys.n - from) / sizeof(*key), twice = 0;

	if (r->keys.failed || r->out->failed)
		return -ENOMEM;
	if (n < 2) {
		r->keys.n = from;
		return 0;
	}
	key = (struct key *)(void *)(r->keys.p + from);
	qsort_r(key, n, sizeof(*key), compare_keys, r->out->p);
	r->keys.n = from;
	for (i = 1; i < n; i++) {
		if (compare_keys(&key[i - 1], &key[i], r->out->p) != 0)
			continue;
		twice = key[i - 1].end > key[i].end ? key[i - 1].end : key[i].end;
		return fail_at(r, r->text + twice, "duplicate object key");
	}
	return 0;
}

static int
read_key(struct reader *r)
{
	struct key key;
	struct slice s;
	int rc;

	skip_blanks(r);
	if (!take(r, '"'))
		return fail_here(r, "a key in quotes is expected");
	rc = read_text(r, &s);
	if (rc == 0)
		rc = count_value(r);
	if (rc < 0)
		return rc;
	if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL)
		return fail_at(r, r->at, "NUL in an object key");
	pack_str_n(r->out, s.p, s.n);
	key = (struct key){ r->out->n - s.n, s.n, (size_t)(r->at - r->text) };
	buf_add(&r->keys, &key, sizeof(key));
	skip_blanks(r);
	return take(r, ':') ? 0 : fail_here(r, "a colon is expected");
}

/* Its header, `start` bytes into what is written, had one byte of room. */
static int
end_container(struct reader *r, size_t start, bool map, uint32_t count)
{
	uint8_t head[PUT_MAX + 1];
	size_t n = (size_t)((map ? put_map(head, count) : put_array(head, count)) - head);

	buf_room(r->out, n - 1);
	if (r->out->failed)
		return -ENOMEM;
	memmove(r->out->p + start + n, r->out->p + start + 1, r->out->n - start - n);
	memcpy(r->out->p + start, head, n);
	r->depth--;
	return 0;
}

static int
read_container(struct reader *r, bool map)
{
	size_t start = r->out->n, keys = r->keys.n;
	char close = map ? '}' : ']';
	uint32_t count = 0;
	int rc = 0;

	if (r->depth++ == r->bounds->depth)
		return fail_bound(r, "nested more than %lu deep", r->bounds->depth);
	buf_add(r->out, "", 1);
	skip_blanks(r);
	if (take(r, close))
		return end_container(r, start, map, 0);
	for (;; count++) {
		if (map)
			rc = read_key(r);
		if (rc == 0)
			rc = read_value(r);
		if (rc < 0)
			return rc;
		skip_blanks(r);
		if (take(r, close))
			break;
		if (!take(r, ','))
			return fail_here(r, "a comma is expected, or the end");
	}
	if (map)
		rc = check_keys(r, keys);
	return rc < 0 ? rc : end_container(r, start, map, count + 1);
}

static int
read_value(struct reader *r)
{
	int rc = count_value(r);

	if (rc < 0)
		return rc;
	skip_blanks(r);
	if (take(r, '{'))
		return read_container(r, true);
	if (take(r, '['))
		return read_container(r, false);
	if (take(r, '"'))
		return read_string(r);
	if (r->at == r->end || (*r->at != 'n' && *r->at != 't' && *r->at != 'f'))
		return read_number(r);
	if (*r->at == 'n') {
		pack_nil(r->out);
		return read_word(r, "null");
	}
	pack_bool(r->out, *r->at == 't');
	return read_word(r, *r->at == 't' ? "true" : "false");
}

static int
read_whole(struct reader *r)
{
	size_t start = r->out->n;
	struct fault fault;
	int rc = read_value(r);

	if (rc < 0)
		return rc;
	skip_blanks(r);
	if (r->at < r->end)
		return fail_here(r, "only one value is expected");
	if (r->out->failed)
		return -ENOMEM;
	if (r->out->n - start > r->bounds->bytes)
		return fail_bound(r, "more than %lu bytes when packed", r->bounds->bytes);
	rc = walk_value(r->out->p + start, r->out->n - start, &fault);
	if (rc == -EPROTO)
		snprintf(r->err, JSON_ERROR_MAX, "%s", fault.rule);
	return rc == -EPROTO ? -EINVAL : rc;
}

int
json_read_bounded(struct slice text, const struct json_bounds *bounds, struct buf *out,
    char err[JSON_ERROR_MAX])
{
	static const uint8_t empty[1];
	const uint8_t *p = text.p != NULL ? text.p : empty;
	struct reader r = {
		.text = p, .at = p, .end = p + text.n, .bounds = bounds, .out = out, .err = err
	};
	int rc = read_whole(&r);

	buf_finish(&r.scratch);
	buf_finish(&r.keys);
	return rc;
}

int
json_read(const char *text, struct buf *out, char err[JSON_ERROR_MAX])
{
	return json_read_bounded(slice_of(text), &json_payload, out, err);
}
