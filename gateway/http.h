/*
 * http: HTTP/1.1 requests out of bytes (RFC 9110, 9112), strictly.  Pure: no I/O, no
 * allocation.
 *
 * What has two readings is refused, so that no proxy before us and no code behind us sees
 * another request than this one: bare CR or LF, folded lines, white space around a name, a
 * header of ours that stands twice, Content-Length beside Transfer-Encoding, absolute targets
 * of another host, encoded slashes and NULs, dot segments, chunks that are framed otherwise
 * than by hexadecimal digits and CR LF.  Extensions of chunks and trailers are checked, and
 * dropped.
 */
#ifndef GATEWAY_HTTP_H
#define GATEWAY_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol.h"

#define HTTP_HEADERS_MAX  64
#define HTTP_SEGMENTS_MAX 16
#define HTTP_PARAMS_MAX	  16

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_OPTIONS,
};

struct http_pair {
	struct slice name, value;
};

/* One whole request.  Slices point into the bytes it was read from. */
struct request {
	enum http_method method;
	unsigned minor; /* HTTP/1.minor: 0 or 1 */
	/* of the path, between its slashes, each percent-decoded once: UTF-8 without control
	 * characters, '/' and '\\', and neither "." nor "..".  "/" has none; "/a/" has "a", ""
	 * */
	struct slice segments[HTTP_SEGMENTS_MAX];
	unsigned nsegments;
	/* of the query: name=value, percent-decoded once, '+' is a space; UTF-8 without NUL */
	struct http_pair params[HTTP_PARAMS_MAX];
	unsigned nparams;
	struct http_pair headers[HTTP_HEADERS_MAX]; /* names as they came; values trimmed */
	unsigned nheaders;
	struct slice host; /* of the Host header; empty if an HTTP/1.0 request has none */
	struct slice body;
	/* the client can go on with this connection; of an upgrade: unless it is refused */
	bool keep_alive;
	bool upgrade; /* Connection: upgrade, with an Upgrade header */
	bool expects_continue; /* waits for 100 before it sends the body */

	/* of the connection (conn.c) */
	bool secure; /* came through TLS */
	bool has_certificate; /* the client has proven to hold the key of this one: */
	uint8_t certificate[32]; /* SHA-256 of its DER */
	unsigned listener; /* index of its config.listener */
};

struct http_limits {
	size_t head_bytes; /* of request line and headers */
	size_t body_bytes;
};

/* Why a request is refused. */
struct http_fault {
	unsigned status; /* of the answer; 0: no answer, only the end (an HTTP/2 preface) */
	const char *code; /* canonical name, e.g. "invalid_argument" */
	const char *message; /* static ASCII text, without quotes */
};

/* How far one request has been read.  Starts as zeroes, and is zeroed for the next. */
struct http_scan {
	size_t scanned; /* bytes of the head, whose end is not among them */
	size_t head_bytes; /* 0: not whole yet */
	/* behind the head: all of the body; of chunks, those that were looked at, framing and
	 * trailers included */
	size_t body_bytes;
	size_t chunk_bytes; /* the data in them */
	bool chunked;
	bool trailing; /* the last chunk has come */
	bool whole; /* what is behind it, too */
	bool expects_continue; /* with the head */
};

/*
 * Looks at all `n` bytes at `p` that were read since the last request, and changes none.
 * Returns 1: the first s->head_bytes + s->body_bytes of them are a request; 0: it is not whole;
 * -EPROTO: `ret_fault` says why, and the connection is of no more use.
 */
int http_measure(struct http_scan *s, const struct http_limits *limits, const uint8_t *p,
    size_t n, struct http_fault *ret_fault);
/*
 * Reads the request that http_measure() found, whose bytes are at `p`, and decodes within them.
 * Returns 0; -EPROTO with `ret_fault` set: the target is at fault.
 */
int http_read(
    const struct http_scan *s, uint8_t *p, struct request *ret, struct http_fault *ret_fault);

/* The first header of that name, in whatever case; false if there is none.  Those of which one
 * is allowed have no second (http.c). */
bool http_header(const struct request *r, const char *name, struct slice *ret);
/* How many headers have that name. */
unsigned http_header_count(const struct request *r, const char *name);
/* The first query member of that name. */
bool http_param(const struct request *r, const char *name, struct slice *ret);
/*
 * Takes the next element of a comma-separated list of tokens off the front of `list`; white
 * space around it and empty elements are dropped.  False at the end.
 */
bool http_list_next(struct slice *list, struct slice *ret);
/* Compares without case. */
bool http_is(struct slice s, const char *text);

const char *http_method_name(enum http_method method);
/* "Not Found"; "" for a number we do not use. */
const char *http_reason(unsigned status);

#endif /* GATEWAY_HTTP_H */
