/*
 * Any bytes as a JSON text at the gateway's edge: what is read passes a walk, stays within its
 * bounds, is written and read back the same, and is what another implementation (jansson) takes
 * for valid.  As a frame of the WebSocket it becomes a request that can be encoded, or the fault
 * is said.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/json.h"
#include "common/utf8.h"
#include "common/walk.h"
#include "gateway/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static void
try_round(struct slice value, const struct json_bounds *bounds)
{
	struct buf text = { 0 }, again = { 0 };
	char err[JSON_ERROR_MAX];

	json_write(value, &text);
	must(!text.failed);
	must(json_read_bounded(buf_slice(&text), bounds, &again, err) == 0);
	must(again.n == value.n && memcmp(again.p, value.p, value.n) == 0);
	buf_finish(&text);
	buf_finish(&again);
}

/* It refuses integers over 2^63-1, passes over NUL bytes between tokens, and knows no bounds. */
static void
try_other(const uint8_t *p, size_t n, int r, const char *err)
{
	json_error_t error;
	json_t *v = json_loadb((const char *)p, n,
	    JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

	if (r == 0)
		must(v != NULL || strstr(error.text, "too big integer") != NULL ||
		     strstr(error.text, "too big negative integer") != NULL);
	else
		must(v == NULL || (n > 0 && memchr(p, '\0', n) != NULL) ||
		     strncmp(err, "more than", 9) == 0 || strncmp(err, "nested", 6) == 0 ||
		     strstr(err, "too many digits") != NULL);
	json_decref(v);
}

static void
try_value(const uint8_t *p, size_t n)
{
	static const struct json_bounds small = { 4096, 8, 256 };
	struct buf out = { 0 };
	char err[JSON_ERROR_MAX];
	struct fault fault;
	unsigned depth;
	uint32_t values;
	int r;

	r = json_read_bounded((struct slice){ p, n }, &small, &out, err);
	must(r == 0 || r == -EINVAL);
	try_other(p, n, r, err);
	if (r == 0) {
		must(out.n <= small.bytes && walk_value(out.p, out.n, &fault) == 0);
		value_measure(buf_slice(&out), &depth, &values);
		must(depth <= small.depth && values <= small.values);
		try_round(buf_slice(&out), &small);
	}
	buf_finish(&out);
}

/* As the broker reads it: a request that is packed is one that it takes for well-formed. */
static void
try_request(struct frame *f)
{
	struct message m;
	struct fault fault;
	struct buf out = { 0 };
	int r;

	f->submit.has_session = true;
	f->submit.session = slice_of("s-1");
	r = protocol_request(&out, MSG_operation_submit, 1, &f->submit);
	must(r == 0 || r == -ERANGE);
	if (r == 0)
		must(protocol_decode(out.p + 4, out.n - 4, ROLE_CLIENT, ROLE_BROKER, LINK_READY,
			 NULL, NULL, &m, &fault) == 0);
	buf_finish(&out);
}

static void
try_frame(const uint8_t *p, size_t n)
{
	struct frame f = { .type = FRAME_SEND };
	struct json_fault fault = { { 0 } };
	struct buf out = { 0 };
	int r = frame_read((struct slice){ p, n }, 1 << 20, &f, &fault);

	must(r == 0 || (r == -EINVAL && fault.text[0] != '\0'));
	must(utf8_valid((const uint8_t *)fault.text, strlen(fault.text)));
	if (r == 0 && f.type == FRAME_SEND)
		try_request(&f);
	else if (r == 0)
		must(f.type == FRAME_HEARTBEAT || (f.has_operation && f.operation.n > 0));
	frame_write_error(&out, slice_of("invalid_argument"), slice_of(fault.text));
	must(!out.failed && utf8_valid(out.p, out.n));
	buf_finish(&out);
	frame_finish(&f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	try_value(p, n);
	try_frame(p, n);
	return 0;
}
