/*
 * Any bytes, as frames of a client's.  Cut anywhere they are the same frames, messages and
 * fault; what is delivered is UTF-8 and within its bound.
 */
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"
#include "common/utf8.h"
#include "gateway/websocket.h"
#include "gateway/wsframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define MAX 256 /* bytes of a message: fragments meet it */

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* What became of the bytes: every message and close, hashed in a row, and the fault. */
struct outcome {
	uint8_t digest[SHA256_BYTES];
	unsigned code;
	size_t used;
};

static int
take(struct outcome *o, struct wsmessage *m, const struct wsframe *f)
{
	struct slice text;
	bool fault;
	int r = 0;

	if (f->type == WSHEAD_CLOSE) {
		o->code = wsframe_close_code(f->payload, &fault);
		must(o->code >= 1000 && o->code <= 4999);
		return -1;
	}
	if (f->type >= WSHEAD_CLOSE) {
		must(f->last && f->payload.n <= WSHEAD_CONTROL_MAX);
		return 0;
	}
	r = wsmessage_add(m, f, MAX, &text, &o->code);
	if (r > 0) {
		must(text.n <= MAX && utf8_valid(text.p, text.n));
		sha256((struct slice){ o->digest, sizeof(o->digest) }, text, o->digest);
		wsmessage_finish(m);
	}
	return r < 0 ? -1 : 0;
}

/* At most `step` more bytes each time. */
static struct outcome
run(const uint8_t *p, size_t n, size_t step)
{
	struct outcome o = { .code = 0 };
	struct wsmessage m = { 0 };
	uint8_t *bytes = calloc(n + !n, 1);
	size_t there = 0, used;
	struct wsframe f;
	int r = 0;

	must(bytes != NULL);
	if (n > 0)
		memcpy(bytes, p, n);
	while (r >= 0 && there < n) {
		there = n - there < step ? n : there + step;
		while (r >= 0 && (r = wsframe_read(bytes + o.used, there - o.used, MAX, &f, &used,
				      &o.code)) > 0) {
			must(used <= there - o.used && f.payload.n <= used);
			o.used += used;
			r = take(&o, &m, &f);
		}
	}
	must(r >= 0 || o.code != 0);
	wsmessage_finish(&m);
	free(bytes);
	return o;
}

static bool
is_same(const struct outcome *a, const struct outcome *b)
{
	return memcmp(a->digest, b->digest, sizeof(a->digest)) == 0 && a->code == b->code &&
	    a->used == b->used;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct outcome whole = run(p, n, n + 1), bytes = run(p, n, 1), some = run(p, n, 7);

	must(is_same(&whole, &bytes) && is_same(&whole, &some));
	return 0;
}
