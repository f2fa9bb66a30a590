/* HTTP/1.1 requests out of bytes: what is taken, and everything that is not (RFC 9110, 9112).
 * */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "gateway/http.h"

#define HEAD_MAX 1024
#define BODY_MAX 64

static const struct http_limits limits = { HEAD_MAX, BODY_MAX };

/* A parser's answer to bytes in a block of their own size, so that a sanitizer sees its end. */
struct outcome {
	int r;
	uint8_t *bytes;
	size_t used;
	struct request request;
	struct http_fault fault;
};

static struct outcome
parse_bytes(const void *p, size_t n)
{
	struct outcome o = { .bytes = malloc(n + !n) };
	struct http_scan s = { 0 };

	ck_assert_ptr_nonnull(o.bytes);
	memcpy(o.bytes, p, n);
	o.r = http_measure(&s, &limits, o.bytes, n, &o.fault);
	o.used = s.head_bytes + s.body_bytes;
	if (o.r > 0 && http_read(&s, o.bytes, &o.request, &o.fault) < 0)
		o.r = -EPROTO;
	return o;
}

static struct outcome
parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

#define H "Host: a\r\n"
#define E "\r\n"
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n" E

/* ---- what is refused -------------------------------------------------------------------- */

static const struct {
	const char *text;
	unsigned status;
	const char *why;
} refused[] = {
	{ "GET / HTTP/1.1\n", 400, "a bare LF" },
	{ "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400, "a bare LF between headers" },
	{ "GET / HTTP/1.1\r\n" H "X: a\rb\r\n" E, 400, "a bare CR in a value" },
	{ "GET /\r HTTP/1.1\r\n" H E, 400, "a bare CR in the target" },
	{ "\r\n\r\n", 400, "two empty lines before the request" },
	{ "\n", 400, "an empty line that is a bare LF" },
	{ "GET /\r\n" H E, 400, "HTTP/0.9" },
	{ "GET  / HTTP/1.1\r\n" H E, 400, "two spaces" },
	{ "GET /  HTTP/1.1\r\n" H E, 400, "two spaces behind the target" },
	{ "GET\t/ HTTP/1.1\r\n" H E, 400, "a tab" },
	{ " GET / HTTP/1.1\r\n" H E, 400, "a space before the method" },
	{ "GET / HTTP/1.1 \r\n" H E, 400, "a space behind the version" },
	{ "GET / http/1.1\r\n" H E, 400, "the version in small letters" },
	{ "GET / HTTP/1.2\r\n" H E, 505, "a version that there is not" },
	{ "GET / HTTP/2.0\r\n" H E, 505, "a version that is not spoken" },
	{ "GET / HTTP/01.1\r\n" H E, 400, "a version with a zero" },
	{ "PRI * HTTP/2.0\r\n\r\n", 0, "the preface of HTTP/2: no answer" },
	{ "get / HTTP/1.1\r\n" H E, 501, "a method in small letters is another method" },
	{ "TRACE / HTTP/1.1\r\n" H E, 501, "TRACE" },
	{ "CONNECT a:1 HTTP/1.1\r\n" H E, 501, "CONNECT" },
	{ "G(T / HTTP/1.1\r\n" H E, 400, "a method that is no token" },
	{ "GET * HTTP/1.1\r\n" H E, 400, "the asterisk" },
	{ "GET a HTTP/1.1\r\n" H E, 400, "a target without slash" },
	{ "GET ?a HTTP/1.1\r\n" H E, 400, "a query alone" },
	{ "GET /a#b HTTP/1.1\r\n" H E, 400, "a fragment" },
	{ "GET /\x80 HTTP/1.1\r\n" H E, 400, "a byte beyond ASCII" },
	{ "GET /\x7f HTTP/1.1\r\n" H E, 400, "DEL" },
	{ "GET /a\\b HTTP/1.1\r\n" H E, 400, "a backslash" },
	{ "GET http://b/ HTTP/1.1\r\n" H E, 400, "an absolute target of another host" },
	{ "GET http://a HTTP/1.1\r\n" H E, 400, "an absolute target without path" },
	{ "GET ftp://a/ HTTP/1.1\r\n" H E, 400, "an absolute target of another scheme" },
	{ "GET /% HTTP/1.1\r\n" H E, 400, "a bad escape" },
	{ "GET /%4 HTTP/1.1\r\n" H E, 400, "half an escape" },
	{ "GET /%4g HTTP/1.1\r\n" H E, 400, "no digit" },
	{ "GET /%4/1 HTTP/1.1\r\n" H E, 400, "an escape over a slash" },
	{ "GET /a%00b HTTP/1.1\r\n" H E, 400, "NUL" },
	{ "GET /a%2fb HTTP/1.1\r\n" H E, 400, "an encoded slash" },
	{ "GET /a%2Fb HTTP/1.1\r\n" H E, 400, "an encoded slash" },
	{ "GET /a%5cb HTTP/1.1\r\n" H E, 400, "an encoded backslash" },
	{ "GET /a%0ab HTTP/1.1\r\n" H E, 400, "an encoded LF" },
	{ "GET /%ff HTTP/1.1\r\n" H E, 400, "no UTF-8" },
	{ "GET /%c0%af HTTP/1.1\r\n" H E, 400, "an overlong slash" },
	{ "GET /%ed%a0%80 HTTP/1.1\r\n" H E, 400, "a surrogate" },
	{ "GET /a/../b HTTP/1.1\r\n" H E, 400, "a dot segment" },
	{ "GET /a/. HTTP/1.1\r\n" H E, 400, "a dot segment" },
	{ "GET /a/%2e%2E/b HTTP/1.1\r\n" H E, 400, "an encoded dot segment" },
	{ "GET /1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7 HTTP/1.1\r\n" H E, 404, "17 segments" },
	{ "GET /?a=%00 HTTP/1.1\r\n" H E, 400, "NUL in the query" },
	{ "GET /?a=%fg HTTP/1.1\r\n" H E, 400, "a bad escape in the query" },
	{ "GET /?%ff HTTP/1.1\r\n" H E, 400, "no UTF-8 in the query" },
	{ "GET /?1&2&3&4&5&6&7&8&9&0&1&2&3&4&5&6&7 HTTP/1.1\r\n" H E, 400, "17 members" },
	{ "GET / HTTP/1.1\r\n" E, 400, "no host" },
	{ "GET / HTTP/1.1\r\n" H H E, 400, "two hosts" },
	{ "GET / HTTP/1.1\r\nHost: a,b\r\n" E, 400, "two hosts in one" },
	{ "GET / HTTP/1.1\r\nHost: a b\r\n" E, 400, "a host with a space" },
	{ "GET / HTTP/1.1\r\nHost: u@a\r\n" E, 400, "a host with a user" },
	{ "GET / HTTP/1.1\r\nHost: a/b\r\n" E, 400, "a host with a path" },
	{ "GET / HTTP/1.1\r\n Host: a\r\n" E, 400, "the first header is folded" },
	{ "GET / HTTP/1.1\r\n" H " b\r\n" E, 400, "a header is folded" },
	{ "GET / HTTP/1.1\r\n" H "\tb\r\n" E, 400, "a header is folded with a tab" },
	{ "GET / HTTP/1.1\r\n" H "X : y\r\n" E, 400, "a space before the colon" },
	{ "GET / HTTP/1.1\r\n" H ": y\r\n" E, 400, "no name" },
	{ "GET / HTTP/1.1\r\n" H "X\r\n" E, 400, "no colon" },
	{ "GET / HTTP/1.1\r\n" H "X(: y\r\n" E, 400, "a name that is no token" },
	{ "GET / HTTP/1.1\r\n" H "X: a\x01z\r\n" E, 400, "a control character" },
	{ CHUNKED "0x1\r\na\r\n0\r\n\r\n", 400, "a size with a prefix" },
	{ CHUNKED "+1\r\na\r\n0\r\n\r\n", 400, "a size with a sign" },
	{ CHUNKED " 1\r\na\r\n0\r\n\r\n", 400, "a space before a size" },
	{ CHUNKED "1 \r\na\r\n0\r\n\r\n", 400, "a space behind a size" },
	{ CHUNKED "1 ;x\r\na\r\n0\r\n\r\n", 400, "a space before an extension" },
	{ CHUNKED "\r\na\r\n0\r\n\r\n", 400, "no size" },
	{ CHUNKED ";x\r\na\r\n0\r\n\r\n", 400, "an extension without a size" },
	{ CHUNKED "g\r\n", 400, "a size that is none" },
	{ CHUNKED "000000001\r\na\r\n0\r\n\r\n", 400, "nine digits" },
	{ CHUNKED "100000000\r\n", 400, "2^32" },
	{ CHUNKED "10000000000000001\r\n", 400, "2^64+1" },
	{ CHUNKED "1\na\r\n0\r\n\r\n", 400, "a size that ends with a bare LF" },
	{ CHUNKED "1;a\nb\r\na\r\n0\r\n\r\n", 400, "a bare LF in an extension" },
	{ CHUNKED "1;a\rb\r\na\r\n0\r\n\r\n", 400, "a bare CR in an extension" },
	{ CHUNKED "1\r\r\na\r\n0\r\n\r\n", 400, "two CR" },
	{ CHUNKED "1\r\nab\r\n0\r\n\r\n", 400, "a chunk that is longer than its size" },
	{ CHUNKED "2\r\na\r\n0\r\n\r\n", 400, "a chunk that is shorter" },
	{ CHUNKED "1\r\na\n0\r\n\r\n", 400, "a chunk that ends with a bare LF" },
	{ CHUNKED "1\r\na\rx", 400, "a chunk that ends with a bare CR" },
	{ CHUNKED "0\r\nX\r\n\r\n", 400, "a trailer without a colon" },
	{ CHUNKED "0\r\nX : y\r\n\r\n", 400, "a space before a trailer's colon" },
	{ CHUNKED "0\r\n: y\r\n\r\n", 400, "a trailer without a name" },
	{ CHUNKED "0\r\nX: a\r\n b\r\n\r\n", 400, "a trailer is folded" },
	{ CHUNKED "0\r\nX: a\n\r\n", 400, "a trailer with a bare LF" },
	{ CHUNKED "0\r\n\n", 400, "an end with a bare LF" },
	{ CHUNKED "41\r\n", 413, "over the bound" },
	{ CHUNKED "ffffffff\r\n", 413, "far over the bound" },
	{ CHUNKED "1\r\na\r\n40\r\n", 413, "over the bound together" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n" E, 501, "another" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n" E, 501, "twice" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;q=1\r\n" E, 501, "a parameter" },
	{ "POST / HTTP/1.1\r\n" H
	  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E,
	    400, "twice in two" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n" E, 501, "any encoding" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n" E, 501, "an empty one" },
	{ "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n" E, 400, "of HTTP/1.0" },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n" E, 400,
	    "two lengths" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-encoding: chunked\r\n" E, 400,
	    "two lengths" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n" E, 400, "twice" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n" E, 400, "twice in one" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n" E, 400, "a sign" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n" E, 400, "a sign" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n" E, 400, "not decimal" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 1 1\r\n" E, 400, "a space" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length:\r\n" E, 400, "empty" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n" E, 400, "2^64+1" },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 65\r\n" E, 413, "over the bound" },
	{ "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\n" E, 417, "another expectation" },
	{ "GET / HTTP/1.1\r\n" H "Authorization: a\r\nauthorization: b\r\n" E, 400,
	    "two proofs" },
	{ "GET / HTTP/1.1\r\n" H "Origin: a\r\nORIGIN: b\r\n" E, 400, "two origins" },
	{ "GET / HTTP/1.1\r\n" H "Idempotency-Key: a\r\nIdempotency-Key: a\r\n" E, 400,
	    "two keys" },
	{ "\x16", 400, "the first byte of a TLS hello" },
};

START_TEST(what_has_two_readings_is_refused)
{
	struct outcome o = parse(refused[_i].text);

	ck_assert_msg(o.r == -EPROTO, "%s: %d", refused[_i].why, o.r);
	ck_assert_msg(o.fault.status == refused[_i].status, "%s: %u, not %u", refused[_i].why,
	    o.fault.status, refused[_i].status);
	ck_assert(strpbrk(o.fault.message, "\"\\") == NULL);
	free(o.bytes);
}
END_TEST

START_TEST(a_nul_is_refused_wherever_it_stands)
{
	static const char text[] = "GET /a?b=c HTTP/1.1\r\nHost: a\r\nX: yz\r\n\r\n";

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		char bytes[sizeof(text)];
		struct outcome o;

		memcpy(bytes, text, sizeof(text));
		bytes[i] = '\0';
		o = parse_bytes(bytes, sizeof(text) - 1);
		ck_assert_msg(o.r <= 0, "at %zu", i);
		free(o.bytes);
	}
}
END_TEST

/* ---- what is taken ----------------------------------------------------------------------- */

static void
ck_slice(struct slice s, const char *want)
{
	ck_assert_msg(slice_is(s, want), "\"%.*s\", not \"%s\"", (int)s.n, (const char *)s.p,
	    want);
}

START_TEST(a_request_is_read_with_all_its_parts)
{
	struct outcome o = parse("\r\nPOST /v1/a%20b/%C3%A9/x:ws?limit=5&q=a+b%2B%26&flag&=e&& "
				 "HTTP/1.1\r\nhOST:  example.org:80 \r\nContent-Length: 4\r\n"
				 "X-Empty:\r\nConnection: Upgrade, keep-alive\r\n"
				 "Upgrade: websocket\r\n\r\nbodyGET");
	struct slice value;

	ck_assert_int_eq(o.r, 1);
	ck_assert_int_eq(o.request.method, HTTP_POST);
	ck_assert_uint_eq(o.request.minor, 1);
	ck_assert_uint_eq(o.request.nsegments, 4);
	ck_slice(o.request.segments[0], "v1");
	ck_slice(o.request.segments[1], "a b");
	ck_slice(o.request.segments[2], "\xc3\xa9");
	ck_slice(o.request.segments[3], "x:ws");
	ck_assert_uint_eq(o.request.nparams, 4);
	ck_assert(http_param(&o.request, "q", &value));
	ck_slice(value, "a b+&");
	ck_assert(http_param(&o.request, "flag", &value));
	ck_slice(value, "");
	ck_assert(!http_param(&o.request, "LIMIT", &value));
	ck_slice(o.request.host, "example.org:80");
	ck_assert(http_header(&o.request, "x-empty", &value));
	ck_slice(value, "");
	ck_assert(!http_header(&o.request, "x", &value));
	ck_slice(o.request.body, "body");
	ck_assert(!o.request.keep_alive && o.request.upgrade);
	ck_assert_uint_eq(o.used, (size_t)(o.request.body.p - o.bytes) + 4);
	free(o.bytes);
}
END_TEST

static const struct {
	const char *text;
	unsigned segments;
	bool keep_alive;
} taken[] = {
	{ "GET / HTTP/1.1\r\n" H E, 0, true },
	{ "GET /a HTTP/1.1\r\n" H E, 1, true },
	{ "GET /a/ HTTP/1.1\r\n" H E, 2, true },
	{ "GET //a HTTP/1.1\r\n" H E, 2, true },
	{ "GET /... HTTP/1.1\r\n" H E, 1, true },
	{ "GET /%25 HTTP/1.1\r\n" H E, 1, true },
	{ "GET /?a=/../b HTTP/1.1\r\n" H E, 0, true },
	{ "GET /1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6 HTTP/1.1\r\n" H E, 16, true },
	{ "GET http://a/x HTTP/1.1\r\n" H E, 1, true },
	{ "GET HTTPS://a/?x HTTP/1.1\r\n" H E, 0, true },
	{ "GET / HTTP/1.1\r\nHost:\r\n" E, 0, true },
	{ "GET / HTTP/1.1\r\n" H "Connection: x, Close\r\n" E, 0, false },
	{ "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n" E, 0, true },
	{ "GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n" E, 0, true },
	{ "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: a, WebSocket\r\n" E, 0,
	    false },
	{ "GET / HTTP/1.0\r\n" E, 0, false },
	{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n" E, 0, false },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n" E, 0, true },
	{ "GET / HTTP/1.1\r\n" H "X: \xff\t(\r\nX: again\r\n" E, 0, true },
};

START_TEST(sound_requests_are_taken)
{
	struct outcome o = parse(taken[_i].text);

	ck_assert_msg(o.r == 1, "%s: %s", taken[_i].text, o.fault.message);
	ck_assert_uint_eq(o.request.nsegments, taken[_i].segments);
	ck_assert_uint_eq(o.request.keep_alive, taken[_i].keep_alive);
	ck_assert_uint_eq(o.used, strlen(taken[_i].text));
	free(o.bytes);
}
END_TEST

static const struct {
	const char *chunks, *body;
} chunked[] = {
	{ "0\r\n\r\n", "" },
	{ "00000000\r\n\r\n", "" },
	{ "1\r\na\r\n0\r\n\r\n", "a" },
	{ "1\r\na\r\n02\r\nbc\r\n0\r\n\r\n", "abc" },
	{ "A\r\n0123456789\r\na;x=\"y;\"\r\n0123456789\r\n0;last\r\n\r\n",
	    "01234567890123456789" },
	{ "5\r\n\r\n0\r\n\r\n0\r\n\r\n", "\r\n0\r\n" },
	{ "1\r\na\r\n0\r\nHost: b\r\nContent-Length: 7\r\n\r\n", "a" },
	{ "40\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n0\r\n\r\n",
	    "0123456789012345678901234567890123456789012345678901234567890123" },
};

START_TEST(chunks_are_put_together_and_what_is_behind_them_is_another_request)
{
	struct buf text = { 0 };
	struct outcome o;
	size_t used;

	buf_add(&text, CHUNKED, strlen(CHUNKED));
	buf_add(&text, chunked[_i].chunks, strlen(chunked[_i].chunks));
	used = text.n;
	buf_add(&text, "GET", 3);
	o = parse_bytes(text.p, text.n);
	ck_assert_msg(o.r == 1, "%s: %s", chunked[_i].chunks, o.fault.message);
	ck_assert_uint_eq(o.used, used);
	ck_slice(o.request.body, chunked[_i].body);
	/* Trailers are no headers. */
	ck_assert_uint_eq(http_header_count(&o.request, "host"), 1);
	ck_assert_uint_eq(http_header_count(&o.request, "content-length"), 0);
	free(o.bytes);
	buf_finish(&text);
}
END_TEST

START_TEST(chunks_may_come_byte_by_byte)
{
	static const char text[] = CHUNKED "2;x\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n";
	struct http_scan s = { 0 };
	struct http_fault fault;

	for (size_t n = 0; n < sizeof(text); n++) {
		cleanup_free uint8_t *p = malloc(n + 1);

		memcpy(p, text, n);
		ck_assert_int_eq(
		    http_measure(&s, &limits, p, n, &fault), n == sizeof(text) - 1);
	}
	ck_assert_uint_eq(s.head_bytes + s.body_bytes, sizeof(text) - 1);
	ck_assert_uint_eq(s.chunk_bytes, 3);
}
END_TEST

START_TEST(byte_by_byte_it_is_whole_at_its_last_byte_only)
{
	static const char text[] = "\r\nPOST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
				   "Expect: 100-continue\r\n\r\nabc";
	struct http_scan s = { 0 };
	struct http_fault fault;
	size_t head = sizeof(text) - 1 - 3;

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		cleanup_free uint8_t *p = malloc(n + 1);

		memcpy(p, text, n);
		ck_assert_int_eq(http_measure(&s, &limits, p, n, &fault), 0);
		ck_assert_uint_eq(s.expects_continue, n >= head);
	}
	ck_assert_int_eq(
	    http_measure(&s, &limits, (const uint8_t *)text, sizeof(text) - 1, &fault), 1);
	ck_assert_uint_eq(s.head_bytes, head);
	ck_assert_uint_eq(s.body_bytes, 3);
}
END_TEST

/* ---- bounds ------------------------------------------------------------------------------ */

static unsigned
status_of_size(const char *before, char fill, size_t n, const char *behind)
{
	struct buf b = { 0 };
	struct outcome o;
	unsigned status;

	buf_add(&b, before, strlen(before));
	for (size_t i = 0; i < n; i++)
		buf_add(&b, &fill, 1);
	buf_add(&b, behind, strlen(behind));
	o = parse_bytes(b.p, b.n);
	status = o.r < 0 ? o.fault.status : (unsigned)o.r;
	free(o.bytes);
	buf_finish(&b);
	return status;
}

START_TEST(the_head_has_a_bound)
{
	static const char line[] = "GET / HTTP/1.1\r\nHost: a\r\nX: ", end[] = "\r\n\r\n";
	size_t room = HEAD_MAX - strlen(line) - strlen(end);

	ck_assert_uint_eq(status_of_size(line, 'x', room, end), 1);
	ck_assert_uint_eq(status_of_size(line, 'x', room + 1, end), 431);
	ck_assert_uint_eq(status_of_size(line, 'x', HEAD_MAX, ""), 431);
	ck_assert_uint_eq(status_of_size("GET /", 'x', HEAD_MAX, ""), 414);
	ck_assert_uint_eq(status_of_size("", 'x', HEAD_MAX, ""), 414);
}
END_TEST

/* Of a head's size, whether it is one long line, many trailers, or many small chunks. */
START_TEST(the_framing_of_chunks_has_a_bound)
{
	static const char one[] = CHUNKED "1;", behind[] = "\r\na\r\n0\r\n\r\n";
	struct buf b = { 0 };
	struct outcome o;

	ck_assert_uint_eq(status_of_size(one, 'x', HEAD_MAX - 32, behind), 1);
	ck_assert_uint_eq(status_of_size(one, 'x', HEAD_MAX, behind), 400);
	ck_assert_uint_eq(status_of_size(one, 'x', 2 * HEAD_MAX, ""), 400);
	for (unsigned n = 64; n <= 256; n *= 4) {
		b.n = 0;
		buf_add(&b, CHUNKED "0\r\n", strlen(CHUNKED) + 3);
		for (unsigned i = 0; i < n; i++)
			buf_add(&b, "X: y\r\n", 6);
		buf_add(&b, E, 2);
		o = parse_bytes(b.p, b.n);
		ck_assert_int_eq(o.r, n == 64 ? 1 : -EPROTO);
		if (o.r < 0)
			ck_assert_uint_eq(o.fault.status, 413);
		free(o.bytes);
	}
	buf_finish(&b);
}
END_TEST

START_TEST(headers_are_counted)
{
	struct buf b = { 0 };
	struct outcome o;

	for (unsigned extra = 0; extra < 2; extra++) {
		b.n = 0;
		buf_add(&b, "GET / HTTP/1.1\r\n" H, 16 + 9);
		for (unsigned i = 1; i < HTTP_HEADERS_MAX + extra; i++)
			buf_add(&b, "X:\r\n", 4);
		buf_add(&b, E, 2);
		o = parse_bytes(b.p, b.n);
		ck_assert_int_eq(o.r, extra == 0 ? 1 : -EPROTO);
		free(o.bytes);
	}
	ck_assert_uint_eq(o.fault.status, 431);
	buf_finish(&b);
}
END_TEST

START_TEST(a_list_gives_its_elements)
{
	struct slice list = slice_of(" , a,b ,,\tc"), one;

	ck_assert(http_list_next(&list, &one));
	ck_slice(one, "a");
	ck_assert(http_list_next(&list, &one));
	ck_slice(one, "b");
	ck_assert(http_list_next(&list, &one));
	ck_slice(one, "c");
	ck_assert(!http_list_next(&list, &one));
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("http");
	TCase *tc = tcase_create("parse");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, what_has_two_readings_is_refused, 0, countof(refused));
	tcase_add_test(tc, a_nul_is_refused_wherever_it_stands);
	tcase_add_test(tc, a_request_is_read_with_all_its_parts);
	tcase_add_loop_test(tc, sound_requests_are_taken, 0, countof(taken));
	tcase_add_test(tc, byte_by_byte_it_is_whole_at_its_last_byte_only);
	tcase_add_loop_test(tc,
	    chunks_are_put_together_and_what_is_behind_them_is_another_request, 0,
	    (int)countof(chunked));
	tcase_add_test(tc, chunks_may_come_byte_by_byte);
	tcase_add_test(tc, the_framing_of_chunks_has_a_bound);
	tcase_add_test(tc, the_head_has_a_bound);
	tcase_add_test(tc, headers_are_counted);
	tcase_add_test(tc, a_list_gives_its_elements);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
