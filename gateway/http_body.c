#include "gateway/http_body.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES 1024 /* of a chunk's size with its extensions, or a trailer */
#define SIZE_DIGITS    8

/* ---- which one it is ------------------------------------------------------------------ */

static int
too_large(struct http_fault *fault)
{
	return http_refuse(fault, 413, "invalid_argument", "the body is too large");
}

static int
read_coding(const struct request *r, struct slice coding, struct http_fault *fault)
{
	if (r->minor == 0 || http_header_count(r, "content-length") > 0)
		return http_bad(fault, "a body has two lengths");
	if (!http_is(coding, "chunked"))
		return http_refuse(fault, 501, "invalid_argument",
		    "a body has a Content-Length, or comes in chunks and nothing else");
	return 0;
}

int
http_body_begin(struct http_scan *s, const struct request *r, const struct http_limits *limits,
    struct http_fault *fault)
{
	struct slice value;
	uint64_t n = 0;

	s->chunked = http_header(r, "transfer-encoding", &value);
	if (s->chunked)
		return read_coding(r, value, fault);
	if (!http_header(r, "content-length", &value))
		return 0;
	if (value.n == 0 || value.n > 18)
		return http_bad(fault, "Content-Length is no number");
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] < '0' || value.p[i] > '9')
			return http_bad(fault, "Content-Length is no number");
		n = n * 10 + (value.p[i] - '0');
	}
	if (n > limits->body_bytes)
		return too_large(fault);
	s->body_bytes = n;
	return 0;
}

/* ---- chunks --------------------------------------------------------------------------- */

/* Takes a line, without its CR LF.  Returns 1; 0: it is not whole; -EPROTO. */
static int
take_line(struct http_scan *s, const uint8_t *p, size_t n, struct slice *ret,
    struct http_fault *fault)
{
	const uint8_t *from = p + s->body_bytes, *lf;
	size_t left = n - s->body_bytes, most = left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES;

	lf = most > 0 ? memchr(from, '\n', most) : NULL;
	if (lf == NULL && most < LINE_MAX_BYTES)
		return 0;
	if (lf == NULL)
		return http_bad(fault, "a line between chunks is too long");
	if (lf == from || lf[-1] != '\r')
		return http_bad(fault, "a line ends without CR LF");
	*ret = (struct slice){ from, (size_t)(lf - from) - 1 };
	if (!http_is_field_value(*ret))
		return http_bad(fault, "a line between chunks has a control character in it");
	s->body_bytes += ret->n + 2;
	return 1;
}

/* Digits, and behind a semicolon whatever it is. */
static int
read_size(struct slice line, size_t *ret, struct http_fault *fault)
{
	size_t i = 0, size = 0;

	while (i < line.n && i < SIZE_DIGITS && http_hex_digit(line.p[i]) >= 0)
		size = size << 4 | (size_t)http_hex_digit(line.p[i++]);
	if (i == 0 || (i < line.n && line.p[i] != ';'))
		return http_bad(fault, "a chunk's size is no hexadecimal number");
	*ret = size;
	return 0;
}

/* One chunk with the line before it, which stays where it is until all of it is there. */
static int
take_chunk(struct http_scan *s, const struct http_limits *limits, const uint8_t *p, size_t n,
    struct http_fault *fault)
{
	size_t start = s->body_bytes, size, end;
	struct slice line;
	int r = take_line(s, p, n, &line, fault);

	if (r <= 0)
		return r;
	if (read_size(line, &size, fault) < 0)
		return -EPROTO;
	if (size > limits->body_bytes - s->chunk_bytes)
		return too_large(fault);
	s->trailing = size == 0;
	if (size == 0)
		return 1;
	end = s->body_bytes + size;
	if ((n > end && p[end] != '\r') || (n > end + 1 && p[end + 1] != '\n'))
		return http_bad(fault, "a chunk ends without CR LF");
	if (n < end + 2) {
		s->body_bytes = start;
		return 0;
	}
	s->body_bytes = end + 2;
	s->chunk_bytes += size;
	return 1;
}

/* What comes so late was not there when it was decided what the request is: it is dropped. */
static int
take_trailer(struct http_scan *s, const uint8_t *p, size_t n, struct http_fault *fault)
{
	struct slice line, name;
	const uint8_t *colon;
	int r = take_line(s, p, n, &line, fault);

	if (r <= 0)
		return r;
	s->whole = line.n == 0;
	if (s->whole)
		return 1;
	colon = memchr(line.p, ':', line.n);
	name = (struct slice){ line.p, colon != NULL ? (size_t)(colon - line.p) : 0 };
	return http_is_token(name) ? 1 : http_bad(fault, "a trailer has no sound name");
}

int
http_body_measure(struct http_scan *s, const struct http_limits *limits, const uint8_t *p,
    size_t n, struct http_fault *fault)
{
	int r = 1;

	if (!s->chunked)
		return n >= s->body_bytes;
	while (r > 0 && !s->whole) {
		r = s->trailing ? take_trailer(s, p, n, fault) :
				  take_chunk(s, limits, p, n, fault);
		/* Chunks of a byte each are six times their data. */
		if (r > 0 && s->body_bytes - s->chunk_bytes > limits->head_bytes)
			return too_large(fault);
	}
	return r;
}

struct slice
http_body_read(const struct http_scan *s, uint8_t *p)
{
	size_t at = 0, to = 0, size;
	struct http_fault none;
	struct slice line;
	uint8_t *lf;

	if (!s->chunked)
		return (struct slice){ p, s->body_bytes };
	while (to < s->chunk_bytes) {
		lf = memchr(p + at, '\n', s->body_bytes - at);
		assert(lf != NULL);
		line = (struct slice){ p + at, (size_t)(lf - p) - 1 - at };
		if (read_size(line, &size, &none) < 0)
			assert(false);
		at = (size_t)(lf - p) + 1;
		memmove(p + to, p + at, size);
		to += size;
		at += size + 2;
	}
	return (struct slice){ p, to };
}
