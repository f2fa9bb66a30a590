/*
 * fields: what single header fields and query members say.  Pure.
 */
#ifndef GATEWAY_FIELDS_H
#define GATEWAY_FIELDS_H

#include "gateway/http.h"

/* What a client shows for who it is.  Slices point into the request. */
struct proof {
	bool has_token, has_certificate;
	struct slice token;
	const uint8_t *certificate; /* SHA-256 of its DER */
};

/*
 * Takes it from `Authorization: Bearer`, from a subprotocol `caisson.bearer.TOKEN` if `socket`,
 * or from the connection's certificate, in that order.  Returns 0; -ENOENT: there is none;
 * -EINVAL: another scheme, a token of other characters than RFC 6750's, two headers.
 */
int fields_proof(const struct request *r, bool socket, struct proof *ret);

/* Does a browser's page of the same origin, or no page at all, ask for this (OP-19)?  False if
 * the request has an Origin that is not scheme://Host. */
bool fields_origin_is_ours(const struct request *r);

/*
 * Is the Host header localhost or an address, with a port or without, or absent?  A name would
 * be that of a browser's page, whose owner may have pointed it here since (DNS rebinding): it
 * may read nothing for which no proof is asked.
 */
bool fields_host_is_bound(const struct request *r);

/* The trace id, 32 hexadecimal digits, out of a W3C traceparent.  False if it is none. */
bool fields_traceparent(struct slice value, struct slice *ret_trace);
/* The same of the request's header: 1; 0: it has none; -EINVAL: it is none, or stands twice. */
int fields_trace(const struct request *r, struct slice *ret_trace);
/* Of the request's Idempotency-Key: 1; 0: it has none; -EINVAL: not of its form, or twice. */
int fields_key(const struct request *r, struct slice *ret_key);

/* Decimal digits only, without a leading zero.  False if it is none, or over `max`. */
bool fields_number(struct slice text, uint64_t max, uint64_t *ret);

/* A single range of bytes (RFC 9110, 14.1.2). */
struct range {
	bool suffix; /* the last `first` bytes */
	uint64_t first;
	uint64_t last; /* UINT64_MAX: to the end */
};
/* False if the request has none that is a single one of bytes: it gets the whole. */
bool fields_range(const struct request *r, struct range *ret);

#endif /* GATEWAY_FIELDS_H */
