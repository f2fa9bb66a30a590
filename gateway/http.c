#include "gateway/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/utf8.h"
#include "common/util.h"
#include "gateway/http_body.h"

static const char *const methods[] = { [HTTP_GET] = "GET", [HTTP_HEAD] = "HEAD",
	[HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_PATCH] = "PATCH",
	[HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS" };

/* A second one would be a second meaning. */
static const char *const singles[] = { "host", "content-length", "transfer-encoding",
	"content-type", "authorization", "origin", "expect", "range", "upgrade",
	"idempotency-key", "traceparent", "sec-websocket-key", "sec-websocket-version" };

static const struct {
	unsigned status;
	const char *reason;
} reasons[] = {
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 304, "Not Modified" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 426, "Upgrade Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
};

const char *
http_reason(unsigned status)
{
	for (size_t i = 0; i < countof(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

const char *
http_method_name(enum http_method method)
{
	return methods[method];
}

int
http_refuse(struct http_fault *fault, unsigned status, const char *code, const char *message)
{
	*fault = (struct http_fault){ status, code, message };
	return -EPROTO;
}

int
http_bad(struct http_fault *fault, const char *message)
{
	return http_refuse(fault, 400, "invalid_argument", message);
}

/* ---- characters ------------------------------------------------------------------------ */

/* RFC 9110, 5.6.2 */
bool
http_is_token(struct slice s)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t b = s.p[i];
		bool alnum = (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z');

		if (!alnum && (b == 0 || strchr("!#$%&'*+-.^_`|~", b) == NULL))
			return false;
	}
	return s.n > 0;
}

static bool
is_space(uint8_t b)
{
	return b == ' ' || b == '\t';
}

static struct slice
trim(struct slice s)
{
	while (s.n > 0 && is_space(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* No control characters but tab; bytes beyond ASCII pass as what they are: opaque. */
bool
http_is_field_value(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7f)
			return false;
	return true;
}

/* What may stand in a target, encoded or not (RFC 3986); no fragment. */
static bool
is_target(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= 0x20 || s.p[i] >= 0x7f || strchr("\"#<>\\^`{|}", s.p[i]) != NULL)
			return false;
	return true;
}

static bool
is_host(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= 0x20 || s.p[i] >= 0x7f ||
		    strchr("\"#/<>?@\\^`{|},", s.p[i]) != NULL)
			return false;
	return true;
}

bool
http_is(struct slice s, const char *text)
{
	return strlen(text) == s.n && strncasecmp((const char *)s.p, text, s.n) == 0;
}

/* Takes what stands before `mark` off the front of `s`, and the mark; all, if there is none. */
static bool
split(struct slice *s, char mark, struct slice *ret)
{
	const uint8_t *at = s->n > 0 ? memchr(s->p, mark, s->n) : NULL;

	*ret = (struct slice){ s->p, at != NULL ? (size_t)(at - s->p) : s->n };
	s->p += ret->n + (at != NULL);
	s->n -= ret->n + (at != NULL);
	return at != NULL;
}

/* ---- headers --------------------------------------------------------------------------- */

bool
http_header(const struct request *r, const char *name, struct slice *ret)
{
	for (unsigned i = 0; i < r->nheaders; i++) {
		if (!http_is(r->headers[i].name, name))
			continue;
		*ret = r->headers[i].value;
		return true;
	}
	return false;
}

unsigned
http_header_count(const struct request *r, const char *name)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->nheaders; i++)
		n += http_is(r->headers[i].name, name);
	return n;
}

bool
http_param(const struct request *r, const char *name, struct slice *ret)
{
	for (unsigned i = 0; i < r->nparams; i++) {
		if (!slice_is(r->params[i].name, name))
			continue;
		*ret = r->params[i].value;
		return true;
	}
	return false;
}

bool
http_list_next(struct slice *list, struct slice *ret)
{
	while (list->n > 0) {
		split(list, ',', ret);
		*ret = trim(*ret);
		if (ret->n > 0)
			return true;
	}
	return false;
}

static bool
has_option(const struct request *r, const char *name, const char *option)
{
	struct slice list, one;

	for (unsigned i = 0; i < r->nheaders; i++) {
		list = r->headers[i].value;
		if (!http_is(r->headers[i].name, name))
			continue;
		while (http_list_next(&list, &one))
			if (http_is(one, option))
				return true;
	}
	return false;
}

static int
read_header(struct request *r, struct slice line, struct http_fault *fault)
{
	struct http_pair *h = &r->headers[r->nheaders];

	if (is_space(*line.p))
		return http_bad(fault, "a header is folded");
	if (r->nheaders == HTTP_HEADERS_MAX)
		return http_refuse(fault, 431, "resource_exhausted", "too many headers");
	if (!split(&line, ':', &h->name) || !http_is_token(h->name))
		return http_bad(fault, "a header has no sound name");
	h->value = trim(line);
	if (!http_is_field_value(h->value))
		return http_bad(fault, "a header has a control character in it");
	r->nheaders++;
	return 0;
}

static int
check_singles(const struct request *r, struct http_fault *fault)
{
	for (size_t i = 0; i < countof(singles); i++)
		if (http_header_count(r, singles[i]) > 1)
			return http_bad(
			    fault, "a header stands twice of which there can be one");
	return 0;
}

/* ---- the request line -------------------------------------------------------------------- */

static int
read_version(struct request *r, struct slice version, struct http_fault *fault)
{
	if (slice_is(version, "HTTP/1.1"))
		r->minor = 1;
	else if (slice_is(version, "HTTP/1.0"))
		r->minor = 0;
	else if (version.n == 8 && memcmp(version.p, "HTTP/", 5) == 0)
		return http_refuse(fault, 505, "invalid_argument", "HTTP/1.1 is spoken here");
	else
		return http_bad(fault, "the request line is not one of HTTP");
	return 0;
}

static int
read_method(struct request *r, struct slice method, struct http_fault *fault)
{
	if (!http_is_token(method))
		return http_bad(fault, "the request line is not one of HTTP");
	for (size_t i = 0; i < countof(methods); i++) {
		if (!slice_is(method, methods[i]))
			continue;
		r->method = (enum http_method)i;
		return 0;
	}
	return http_refuse(fault, 501, "invalid_argument", "no such method");
}

static int
read_request_line(
    struct request *r, struct slice line, struct slice *ret_target, struct http_fault *fault)
{
	struct slice method;

	if (slice_is(line, "PRI * HTTP/2.0"))
		return http_refuse(fault, 0, "invalid_argument", "HTTP/1.1 is spoken here");
	if (!split(&line, ' ', &method) || !split(&line, ' ', ret_target))
		return http_bad(fault, "the request line is not one of HTTP");
	if (read_version(r, line, fault) < 0 || read_method(r, method, fault) < 0)
		return -EPROTO;
	if (ret_target->n == 0 || !is_target(*ret_target))
		return http_bad(fault, "the target is none");
	return 0;
}

/* "http://host/path" is what a proxy is sent; the same host must be meant (RFC 9112, 3.2.2). */
static int
read_target(const struct request *r, struct slice *target, struct http_fault *fault)
{
	static const char *const schemes[] = { "http://", "https://" };
	struct slice host = { NULL, 0 };

	for (size_t i = 0; i < countof(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (target->n <= n || !http_is((struct slice){ target->p, n }, schemes[i]))
			continue;
		host = (struct slice){ target->p + n, 0 };
		while (host.n < target->n - n && strchr("/?", host.p[host.n]) == NULL)
			host.n++;
		target->p += n + host.n;
		target->n -= n + host.n;
		if (!slice_equal(host, r->host))
			return http_bad(fault, "the target names another host than the header");
	}
	if (target->n == 0 || *target->p != '/')
		return http_bad(fault, "the target does not begin with a slash");
	return 0;
}

/* ---- the head --------------------------------------------------------------------------- */

static int
read_options(struct request *r, struct http_fault *fault)
{
	struct slice s;
	bool close = has_option(r, "connection", "close");

	r->upgrade = r->minor == 1 && has_option(r, "connection", "upgrade") &&
	    http_header(r, "upgrade", &s);
	/* HTTP/1.0 is served, and ended.  So is who asks for a WebSocket and gets none: a proxy
	 * that takes no notice of the refusal passes on as frames what would be requests here.
	 * */
	r->keep_alive = !close && r->minor == 1 &&
	    !(r->upgrade && has_option(r, "upgrade", "websocket"));
	if (!http_header(r, "expect", &s) || r->minor == 0)
		return 0;
	r->expects_continue = http_is(s, "100-continue");
	if (!r->expects_continue)
		return http_refuse(
		    fault, 417, "invalid_argument", "only 100-continue can be expected");
	return 0;
}

static int
read_host(struct request *r, struct http_fault *fault)
{
	if (!http_header(r, "host", &r->host)) {
		r->host = (struct slice){ NULL, 0 };
		return r->minor == 0 ? 0 : http_bad(fault, "there is no Host header");
	}
	return is_host(r->host) ? 0 : http_bad(fault, "the Host header names no host");
}

/* `n` bytes that end with an empty line, each line with CR LF (http_measure() has seen it). */
static int
read_head(const uint8_t *p, size_t n, struct request *r, struct slice *ret_target,
    struct http_fault *fault)
{
	struct slice rest = { p, n }, line;
	bool first = true;

	*r = (struct request){ 0 };
	*ret_target = (struct slice){ NULL, 0 };
	while (split(&rest, '\n', &line)) {
		line.n--;
		if (line.n == 0 && first)
			continue; /* one empty line before it is allowed */
		if (line.n == 0)
			break;
		if (first ? read_request_line(r, line, ret_target, fault) < 0 :
			    read_header(r, line, fault) < 0)
			return -EPROTO;
		first = false;
	}
	if (check_singles(r, fault) < 0 || read_host(r, fault) < 0 ||
	    read_target(r, ret_target, fault) < 0)
		return -EPROTO;
	return read_options(r, fault);
}

/* ---- measuring --------------------------------------------------------------------------- */

/* Finds the end of the head; every line ends with CR LF, and nothing else looks like an end. */
static int
find_head(struct http_scan *s, const uint8_t *p, size_t n, struct http_fault *fault)
{
	const uint8_t *lf;
	size_t at;

	/* Said at once to who speaks something else, TLS perhaps, and would wait for an answer.
	 * */
	if (n > 0 && *p != '\r' && ((*p | 0x20) < 'a' || (*p | 0x20) > 'z'))
		return http_bad(fault, "this is not HTTP");
	while (s->scanned < n) {
		lf = memchr(p + s->scanned, '\n', n - s->scanned);
		if (lf == NULL) {
			s->scanned = n;
			return 0;
		}
		at = (size_t)(lf - p);
		if (at == 0 || p[at - 1] != '\r')
			return http_bad(fault, "a line ends without CR LF");
		s->scanned = at + 1;
		if (at == 1)
			continue; /* the one empty line before a request */
		if (at >= 3 && p[at - 2] == '\n') {
			if (at == 3)
				return http_bad(fault, "there is no request line");
			s->head_bytes = at + 1;
			return 1;
		}
	}
	return 0;
}

static int
too_long(const uint8_t *p, size_t n, struct http_fault *fault)
{
	if (memchr(p + 2, '\n', n - 2) == NULL)
		return http_refuse(
		    fault, 414, "invalid_argument", "the request line is too long");
	return http_refuse(fault, 431, "resource_exhausted", "the headers are too large");
}

int
http_measure(struct http_scan *s, const struct http_limits *limits, const uint8_t *p, size_t n,
    struct http_fault *ret_fault)
{
	struct slice target;
	struct request r;

	if (s->head_bytes == 0) {
		size_t most = n < limits->head_bytes ? n : limits->head_bytes;
		int found = find_head(s, p, most, ret_fault);

		if (found < 0)
			return found;
		if (found == 0)
			return n < limits->head_bytes || n <= 2 ? 0 :
			    too_long(p, most, ret_fault);
		if (read_head(p, s->head_bytes, &r, &target, ret_fault) < 0 ||
		    http_body_begin(s, &r, limits, ret_fault) < 0)
			return -EPROTO;
		s->expects_continue = r.expects_continue;
	}
	return http_body_measure(s, limits, p + s->head_bytes, n - s->head_bytes, ret_fault);
}

/* ---- reading ----------------------------------------------------------------------------- */

int
http_hex_digit(uint8_t b)
{
	if (b >= '0' && b <= '9')
		return b - '0';
	b |= 0x20;
	return b >= 'a' && b <= 'f' ? b - 'a' + 10 : -1;
}

/* Percent-decodes `n` bytes in place, once; `plus`: '+' is a space.  Returns the new length, or
 * -EPROTO for a bad escape, NUL, or bytes that are not UTF-8. */
static ssize_t
unescape_bytes(uint8_t *p, size_t n, bool plus)
{
	size_t to = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t b = p[i];

		if (b == '%') {
			int high = n - i > 2 ? http_hex_digit(p[i + 1]) : -1;

			if (high < 0 || http_hex_digit(p[i + 2]) < 0)
				return -EPROTO;
			b = (uint8_t)(high << 4 | http_hex_digit(p[i + 2]));
			i += 2;
		} else if (b == '+' && plus) {
			b = ' ';
		}
		if (b == 0)
			return -EPROTO;
		p[to++] = b;
	}
	return utf8_valid(p, to) ? (ssize_t)to : -EPROTO;
}

/* Our own bytes (http_read() has them to change). */
static ssize_t
unescape(struct slice *s, bool plus)
{
	ssize_t n = unescape_bytes((uint8_t *)(uintptr_t)s->p, s->n, plus);

	if (n >= 0)
		s->n = (size_t)n;
	return n;
}

static bool
is_segment(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] == 0x7f || s.p[i] == '/' || s.p[i] == '\\')
			return false;
	return !slice_is(s, ".") && !slice_is(s, "..");
}

static int
read_segments(struct request *r, struct slice path, struct http_fault *fault)
{
	bool more = path.n > 1;

	path.p++; /* the first slash */
	path.n--;
	while (more) {
		struct slice *s = &r->segments[r->nsegments];

		if (r->nsegments == HTTP_SEGMENTS_MAX)
			return http_refuse(
			    fault, 404, "not_found", "there is nothing at this path");
		more = split(&path, '/', s);
		if (unescape(s, false) < 0 || !is_segment(*s))
			return http_bad(fault, "the path is not sound");
		r->nsegments++;
	}
	return 0;
}

static int
read_params(struct request *r, struct slice query, struct http_fault *fault)
{
	struct slice pair;

	while (query.n > 0) {
		struct http_pair *m = &r->params[r->nparams];

		split(&query, '&', &pair);
		if (pair.n == 0)
			continue;
		if (r->nparams == HTTP_PARAMS_MAX)
			return http_bad(fault, "the query has too many members");
		split(&pair, '=', &m->name);
		m->value = pair;
		if (unescape(&m->name, true) < 0 || unescape(&m->value, true) < 0)
			return http_bad(fault, "the query is not sound");
		r->nparams++;
	}
	return 0;
}

int
http_read(
    const struct http_scan *s, uint8_t *p, struct request *ret, struct http_fault *ret_fault)
{
	struct slice query, path;

	if (read_head(p, s->head_bytes, ret, &query, ret_fault) < 0)
		return -EPROTO;
	ret->body = http_body_read(s, p + s->head_bytes);
	split(&query, '?', &path);
	if (read_segments(ret, path, ret_fault) < 0)
		return -EPROTO;
	return read_params(ret, query, ret_fault);
}
