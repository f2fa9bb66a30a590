/*
 * Any bytes, as a client's.  Read in one piece or byte by byte they are the same request or the
 * same refusal; a request holds what its bytes hold, and behind its decoding nothing that could
 * be taken for structure.
 */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "gateway/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct http_limits limits = { 4096, 4096 };

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static void
check_slice(struct slice s, const uint8_t *p, size_t n)
{
	must(s.n == 0 || (s.p >= p && s.p + s.n <= p + n));
}

static void
check_request(const struct request *r, const uint8_t *p, size_t n)
{
	must(r->nsegments <= HTTP_SEGMENTS_MAX && r->nparams <= HTTP_PARAMS_MAX &&
	    r->nheaders <= HTTP_HEADERS_MAX && r->minor <= 1);
	for (unsigned i = 0; i < r->nsegments; i++) {
		struct slice s = r->segments[i];

		check_slice(s, p, n);
		must(utf8_valid(s.p, s.n) && !slice_is(s, ".") && !slice_is(s, ".."));
		must(s.n == 0 || (memchr(s.p, '/', s.n) == NULL && memchr(s.p, 0, s.n) == NULL));
	}
	for (unsigned i = 0; i < r->nparams; i++) {
		check_slice(r->params[i].name, p, n);
		check_slice(r->params[i].value, p, n);
		must(utf8_valid(r->params[i].value.p, r->params[i].value.n));
	}
	for (unsigned i = 0; i < r->nheaders; i++) {
		check_slice(r->headers[i].name, p, n);
		check_slice(r->headers[i].value, p, n);
		must(r->headers[i].name.n > 0);
		must(r->headers[i].value.n == 0 ||
		    memchr(r->headers[i].value.p, '\r', r->headers[i].value.n) == NULL);
	}
	must(r->minor == 0 || http_header_count(r, "host") == 1);
	must(http_header_count(r, "transfer-encoding") +
		http_header_count(r, "content-length") <= 1);
	must(r->body.n <= limits.body_bytes);
	check_slice(r->body, p, n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct http_scan whole = { 0 }, slow = { 0 };
	struct http_fault fault = { 0 }, slow_fault = { 0 };
	struct request r;
	uint8_t *bytes = calloc(n + !n, 1);
	int result, at_once, slowly = 0;

	must(bytes != NULL);
	if (n > 0)
		memcpy(bytes, p, n);
	at_once = http_measure(&whole, &limits, bytes, n, &fault);
	for (size_t i = 1; i <= n && slowly == 0; i++)
		slowly = http_measure(&slow, &limits, bytes, i, &slow_fault);
	must(at_once == slowly);
	must(at_once >= 0 || fault.status == slow_fault.status);
	if (at_once > 0) {
		size_t used = whole.head_bytes + whole.body_bytes;

		must(used == slow.head_bytes + slow.body_bytes && used <= n);
		must(whole.chunk_bytes == slow.chunk_bytes && whole.chunked == slow.chunked);
		result = http_read(&whole, bytes, &r, &fault);
		if (result == 0)
			check_request(&r, bytes, used);
		else
			must(fault.status == 400 || fault.status == 404);
		must(result < 0 || !whole.chunked || r.body.n == whole.chunk_bytes);
	}
	free(bytes);
	return 0;
}
