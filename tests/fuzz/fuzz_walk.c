/*
 * Any bytes.  What the walk passes can be read, and has exactly one form: written again
 * value by value it gives the same bytes, and its canonical form is stable.
 */
#include <stdlib.h>
#include <string.h>

#include "common/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static void
write_again(struct buf *out, struct slice s)
{
	while (s.n > 0) {
		struct value v = value_open(&s);

		switch (v.type) {
		case VALUE_NIL: pack_nil(out); break;
		case VALUE_BOOL: pack_bool(out, v.boolean); break;
		case VALUE_UINT: pack_uint(out, v.uint); break;
		case VALUE_INT: pack_int(out, v.sint); break;
		case VALUE_FLOAT: pack_real(out, v.real); break;
		case VALUE_STR: pack_str_n(out, v.bytes.p, v.bytes.n); break;
		case VALUE_BIN: pack_bin(out, v.bytes.p, v.bytes.n); break;
		case VALUE_ARRAY: pack_array(out, v.count); break;
		case VALUE_MAP: pack_map(out, v.count); break;
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct slice all = { p, n }, s = all;
	struct buf again = { 0 }, canonical = { 0 }, twice = { 0 };
	struct fault fault = { 0 };
	struct value v;

	if (walk_value(p, n, &fault) < 0) {
		must(fault.rule != NULL && fault.offset <= n);
		return 0;
	}
	v = value_skip(&s);
	must(s.n == 0 && v.raw.p == p && v.raw.n == n);
	write_again(&again, all);
	must(again.n == n && memcmp(again.p, p, n) == 0);
	must(value_canonical(all, &canonical) == 0 && canonical.n == n);
	must(walk_value(canonical.p, canonical.n, &fault) == 0);
	must(value_canonical((struct slice) { canonical.p, canonical.n }, &twice) == 0);
	must(twice.n == n && memcmp(twice.p, canonical.p, n) == 0);
	must(value_is_canonical((struct slice) { canonical.p, canonical.n }));
	must(value_is_canonical(all) == (memcmp(p, canonical.p, n) == 0));
	buf_finish(&again);
	buf_finish(&canonical);
	buf_finish(&twice);
	return 0;
}
