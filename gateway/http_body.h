/*
 * http_body: a request's body, of a length that is said or in chunks (RFC 9112, 6 and 7.1), for
 * http.c.  Pure.
 */
#ifndef GATEWAY_HTTP_BODY_H
#define GATEWAY_HTTP_BODY_H

#include "gateway/http.h"

/* Which of the two it is, out of a head that has been read.  Returns 0, or -EPROTO. */
int http_body_begin(struct http_scan *s, const struct request *r,
    const struct http_limits *limits, struct http_fault *fault);
/*
 * Looks at the `n` bytes behind the head.  Returns 1: the first s->body_bytes are the body; 0:
 * it is not whole; -EPROTO.
 */
int http_body_measure(struct http_scan *s, const struct http_limits *limits, const uint8_t *p,
    size_t n, struct http_fault *fault);
/* The data of what http_body_measure() found to be whole, put together at `p`. */
struct slice http_body_read(const struct http_scan *s, uint8_t *p);

/* http.c */
bool http_is_token(struct slice s);
bool http_is_field_value(struct slice s);
int http_hex_digit(uint8_t b); /* -1: none */
int http_refuse(
    struct http_fault *fault, unsigned status, const char *code, const char *message);
int http_bad(struct http_fault *fault, const char *message); /* 400; both are -EPROTO */

#endif /* GATEWAY_HTTP_BODY_H */
