/*
 * Any bytes as a JSON text at the gateway's edge: what is read passes a walk, stays within its
 * bounds, is written and read back the same, and is what another implementation (jansson) takes
 * for valid.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/json.h"
#include "common/walk.h"

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

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
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
	return 0;
}
