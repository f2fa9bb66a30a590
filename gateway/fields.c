#include "gateway/fields.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/request_key.h"
#include "gateway/websocket.h"

#define SUBPROTOCOL_PREFIX "caisson.bearer."
#define TOKEN_MAX	   4096 /* bytes: of principal.prove */
#define HOST_MAX	   512	/* bytes of an origin that could be ours */

/* ---- who it is ----------------------------------------------------------------------- */

static bool
is_alphanumeric(uint8_t c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* b64token of RFC 6750. */
static bool
token_is_valid(struct slice s)
{
	size_t i = 0;

	while (i < s.n && (is_alphanumeric(s.p[i]) || memchr("-._~+/", s.p[i], 6) != NULL))
		i++;
	if (i == 0 || s.n > TOKEN_MAX)
		return false;
	while (i < s.n && s.p[i] == '=')
		i++;
	return i == s.n;
}

static int
take_token(struct slice token, struct proof *ret)
{
	if (!token_is_valid(token))
		return -EINVAL;
	ret->has_token = true;
	ret->token = token;
	return 0;
}

static int
take_authorization(struct slice value, struct proof *ret)
{
	struct slice scheme = { value.p, 0 };

	while (scheme.n < value.n && value.p[scheme.n] != ' ')
		scheme.n++;
	if (!http_is(scheme, "bearer"))
		return -EINVAL;
	value = (struct slice){ value.p + scheme.n, value.n - scheme.n };
	while (value.n > 0 && *value.p == ' ')
		value = (struct slice){ value.p + 1, value.n - 1 };
	return take_token(value, ret);
}

static int
take_subprotocol(const struct request *r, struct proof *ret)
{
	const size_t n = strlen(SUBPROTOCOL_PREFIX);
	struct ws_offers offers = { 0 };
	struct slice one;
	int rc = -ENOENT;

	while (ws_offer_next(r, &offers, &one)) {
		if (one.n <= n || memcmp(one.p, SUBPROTOCOL_PREFIX, n) != 0)
			continue;
		/* of two it is not ours to choose one */
		rc = ret->has_token ? -EINVAL
				    : take_token((struct slice){ one.p + n, one.n - n }, ret);
		if (rc < 0)
			break;
	}
	ret->has_token = rc == 0;
	return rc;
}

int
fields_proof(const struct request *r, bool socket, struct proof *ret)
{
	struct slice value;
	int rc;

	*ret = (struct proof){ 0 };
	if (http_header_count(r, "authorization") > 1)
		return -EINVAL;
	if (http_header(r, "authorization", &value))
		return take_authorization(value, ret);
	rc = socket ? take_subprotocol(r, ret) : -ENOENT;
	if (rc != -ENOENT || !r->has_certificate)
		return rc;
	ret->has_certificate = true;
	ret->certificate = r->certificate;
	return 0;
}

bool
fields_origin_is_ours(const struct request *r)
{
	char ours[HOST_MAX];
	struct slice origin;

	if (!http_header(r, "origin", &origin))
		return true;
	if (http_header_count(r, "origin") > 1 || r->host.n == 0 || r->host.n > HOST_MAX - 16)
		return false;
	snprintf(ours, sizeof(ours), "%s://%.*s", r->secure ? "https" : "http", (int)r->host.n,
	    (const char *)r->host.p);
	return http_is(origin, ours);
}

/* Takes ":PORT" off the end, if it is there. */
static struct slice
without_port(struct slice host)
{
	size_t n = host.n;

	while (n > 0 && host.p[n - 1] >= '0' && host.p[n - 1] <= '9')
		n--;
	if (n > 0 && n < host.n && host.p[n - 1] == ':')
		host.n = n - 1;
	return host;
}

bool
fields_host_is_bound(const struct request *r)
{
	char text[INET6_ADDRSTRLEN];
	struct slice host = without_port(r->host);
	struct in6_addr address;
	int family = AF_INET;

	if (r->host.n == 0 || http_is(host, "localhost"))
		return true;
	if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']') {
		family = AF_INET6;
		host = (struct slice){ host.p + 1, host.n - 2 };
	}
	if (host.n >= sizeof(text))
		return false;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	return inet_pton(family, text, &address) == 1;
}

/* ---- keys and traces -------------------------------------------------------------------- */

/* Lower-case hexadecimal digits, of which one is no zero. */
static bool
is_id(const uint8_t *p, size_t n)
{
	bool some = false;

	for (size_t i = 0; i < n; i++) {
		if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'f'))
			return false;
		some |= p[i] != '0';
	}
	return some;
}

static bool
is_hex2(const uint8_t *p)
{
	return (p[0] == '0' && p[1] == '0') || is_id(p, 2);
}

bool
fields_traceparent(struct slice value, struct slice *ret_trace)
{
	const uint8_t *p = value.p;

	/* version-trace-parent-flags; a later version may say more behind these */
	if (value.n < 55 || !is_hex2(p) || (p[0] == 'f' && p[1] == 'f') || p[2] != '-' ||
	    p[35] != '-' || p[52] != '-' || !is_id(p + 3, 32) || !is_id(p + 36, 16) ||
	    !is_hex2(p + 53))
		return false;
	if (value.n > 55 && ((p[0] == '0' && p[1] == '0') || p[55] != '-'))
		return false;
	*ret_trace = (struct slice){ p + 3, 32 };
	return true;
}

int
fields_trace(const struct request *r, struct slice *ret_trace)
{
	struct slice value;

	if (!http_header(r, "traceparent", &value))
		return 0;
	if (http_header_count(r, "traceparent") > 1 || !fields_traceparent(value, ret_trace))
		return -EINVAL;
	return 1;
}

int
fields_key(const struct request *r, struct slice *ret_key)
{
	struct slice value;

	if (!http_header(r, "idempotency-key", &value))
		return 0;
	if (http_header_count(r, "idempotency-key") > 1 || !request_key_is_valid(value))
		return -EINVAL;
	*ret_key = value;
	return 1;
}

/* ---- numbers ----------------------------------------------------------------------------- */

bool
fields_number(struct slice text, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (text.n == 0 || (text.n > 1 && text.p[0] == '0'))
		return false;
	for (size_t i = 0; i < text.n; i++) {
		uint64_t digit = (uint64_t)text.p[i] - '0';

		if (digit > 9 || digit > max || v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*ret = v;
	return true;
}

bool
fields_range(const struct request *r, struct range *ret)
{
	struct slice value, first, last;
	const uint8_t *dash;
	uint64_t from, to = UINT64_MAX;

	if (r->method != HTTP_GET || http_header_count(r, "range") != 1 ||
	    !http_header(r, "range", &value) || value.n < 7 ||
	    !http_is((struct slice){ value.p, 6 }, "bytes="))
		return false;
	value = (struct slice){ value.p + 6, value.n - 6 };
	dash = memchr(value.p, '-', value.n);
	if (dash == NULL)
		return false;
	first = (struct slice){ value.p, (size_t)(dash - value.p) };
	last = (struct slice){ dash + 1, value.n - first.n - 1 };
	if (last.n > 0 && !fields_number(last, UINT64_MAX - 1, &to))
		return false;
	if (first.n == 0) {
		*ret = (struct range){ .suffix = true, .first = to };
		return last.n > 0;
	}
	if (!fields_number(first, UINT64_MAX - 1, &from) || to < from)
		return false;
	*ret = (struct range){ .first = from, .last = to };
	return true;
}
