/* The walk: what passes has exactly one meaning; what does not is named.  D-5. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/util.h"
#include "common/walk.h"

static size_t
unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	while (*hex != '\0') {
		if (*hex == ' ') {
			hex++;
			continue;
		}
		ck_assert_int_eq(sscanf(hex, "%2x", &byte), 1);
		out[n++] = (uint8_t)byte;
		hex += 2;
	}
	return n;
}

static const char *
rule_of(const uint8_t *p, size_t n)
{
	/* A copy of exact size: the sanitizer sees a byte too many. */
	uint8_t *copy = malloc(n > 0 ? n : 1);
	struct fault fault = { 0 };
	int r;

	memcpy(copy, p, n);
	r = walk_value(copy, n, &fault);
	free(copy);
	if (r == 0)
		return NULL;
	ck_assert_int_eq(r, -EPROTO);
	ck_assert_ptr_nonnull(fault.rule);
	ck_assert_uint_le(fault.offset, n);
	return fault.rule;
}

static const struct {
	const char *hex, *rule; /* NULL: passes */
} cases[] = {
	{ "c0", NULL },
	{ "c2", NULL },
	{ "c3", NULL },
	{ "00", NULL },
	{ "7f", NULL },
	{ "e0", NULL },
	{ "ff", NULL },
	{ "cc80", NULL },
	{ "ccff", NULL },
	{ "cd0100", NULL },
	{ "ce00010000", NULL },
	{ "cf0000000100000000", NULL },
	{ "cfffffffffffffffff", NULL },
	{ "d0df", NULL },
	{ "d080", NULL },
	{ "d1ff7f", NULL },
	{ "d2ffff7fff", NULL },
	{ "d3ffffffff7fffffff", NULL },
	{ "d38000000000000000", NULL },
	{ "cb3ff0000000000000", NULL },
	{ "cb8000000000000000", NULL },
	{ "a0", NULL },
	{ "a161", NULL },
	{ "c400", NULL },
	{ "90", NULL },
	{ "80", NULL },
	{ "82 a161 01 a162 82 a161 02 a162 03", NULL },
	{ "81a0c0", NULL },
	{ "", "truncated value" },
	{ "cc", "truncated value" },
	{ "cd01", "truncated value" },
	{ "ce000100", "truncated value" },
	{ "cf00000001000000", "truncated value" },
	{ "d0", "truncated value" },
	{ "cb3ff00000000000", "truncated value" },
	{ "a261", "truncated value" },
	{ "d9", "truncated value" },
	{ "d920", "truncated value" },
	{ "c402ff", "truncated value" },
	{ "91", "truncated value" },
	{ "81a161", "truncated value" },
	{ "dc00", "truncated value" },
	/* Five bytes that ask for gigabytes. */
	{ "dd10000000", "truncated value" },
	{ "ddffffffff", "truncated value" },
	{ "df10000000", "truncated value" },
	{ "dfffffffff", "truncated value" },
	{ "c6ffffffff", "truncated value" },
	{ "dbffffffff", "truncated value" },
	{ "deffff", "truncated value" },
	{ "93 ddffffffff 00 00", "truncated value" },
	{ "c0c0", "bytes left over" },
	{ "9000", "bytes left over" },
	{ "8000", "bytes left over" },
	{ "c1", "byte c1" },
	{ "91c1", "byte c1" },
	{ "d40000", "extension type" },
	{ "d5000000", "extension type" },
	{ "d60000000000", "extension type" },
	{ "d7ff0000000000000000", "extension type" },
	{ "d80000000000000000000000000000000000", "extension type" },
	{ "c70000", "extension type" },
	{ "c8000000", "extension type" },
	{ "c90000000000", "extension type" },
	{ "81a161c70000", "extension type" },
	{ "ca3f800000", "float is not 64 bits wide" },
	{ "cb7ff0000000000000", "float is not finite" },
	{ "cbfff0000000000000", "float is not finite" },
	{ "cb7ff8000000000000", "float is not finite" },
	{ "cc7f", "integer is not in its shortest form" },
	{ "cd00ff", "integer is not in its shortest form" },
	{ "ce0000ffff", "integer is not in its shortest form" },
	{ "cf00000000ffffffff", "integer is not in its shortest form" },
	{ "d000", "integer is not in its shortest form" },
	{ "d07f", "integer is not in its shortest form" },
	{ "d0e0", "integer is not in its shortest form" },
	{ "d10080", "integer is not in its shortest form" },
	{ "d1ff80", "integer is not in its shortest form" },
	{ "d200010000", "integer is not in its shortest form" },
	{ "d2ffff8000", "integer is not in its shortest form" },
	{ "d30000000100000000", "integer is not in its shortest form" },
	{ "d3ffffffff80000000", "integer is not in its shortest form" },
	{ "d900", "length is not in its shortest form" },
	{ "d91f", "length is not in its shortest form" },
	{ "da00ff", "length is not in its shortest form" },
	{ "db0000ffff", "length is not in its shortest form" },
	{ "c500ff", "length is not in its shortest form" },
	{ "c60000ffff", "length is not in its shortest form" },
	{ "dc000f", "length is not in its shortest form" },
	{ "dd0000ffff", "length is not in its shortest form" },
	{ "de000f", "length is not in its shortest form" },
	{ "df0000ffff", "length is not in its shortest form" },
	{ "81 01 01", "key is not a string" },
	{ "81 c0 01", "key is not a string" },
	{ "81 c40161 01", "key is not a string" },
	{ "81 90 01", "key is not a string" },
	{ "91 81 80 01", "key is not a string" },
	{ "82 a161 01 a161 01", "duplicate key" },
	{ "82 a0 01 a0 01", "duplicate key" },
	{ "83 a161 01 a162 01 a161 02", "duplicate key" },
	{ "81 a161 82 a162 01 a162 01", "duplicate key" },
	{ "91 82 a161 80 a161 80", "duplicate key" },
	/* UTF-8. */
	{ "a27f80", "invalid UTF-8" },
	{ "a180", "invalid UTF-8" },
	{ "a1c3", "invalid UTF-8" },
	{ "a2c328", "invalid UTF-8" },
	{ "a2c080", "invalid UTF-8" },
	{ "a2c1bf", "invalid UTF-8" },
	{ "a3e08080", "invalid UTF-8" },
	{ "a3e09fbf", "invalid UTF-8" },
	{ "a3eda080", "invalid UTF-8" },
	{ "a3edbfbf", "invalid UTF-8" },
	{ "a4f0808080", "invalid UTF-8" },
	{ "a4f08fbfbf", "invalid UTF-8" },
	{ "a4f4908080", "invalid UTF-8" },
	{ "a5f888808080", "invalid UTF-8" },
	{ "a1ff", "invalid UTF-8" },
	{ "81a1ff00", "invalid UTF-8" },
	{ "a2c3a9", NULL },
	{ "a3ed9fbf", NULL },
	{ "a3ee8080", NULL },
	{ "a4f48fbfbf", NULL },
	{ "a100", NULL },
};

START_TEST(each_rule_refuses_what_it_names)
{
	uint8_t bytes[256];
	size_t n = unhex(cases[_i].hex, bytes);
	const char *rule = rule_of(bytes, n);

	if (cases[_i].rule == NULL)
		ck_assert_msg(rule == NULL, "%s: %s", cases[_i].hex, rule);
	else
		ck_assert_msg(rule != NULL && strcmp(rule, cases[_i].rule) == 0,
		    "%s: %s, not %s", cases[_i].hex, rule != NULL ? rule : "passes",
		    cases[_i].rule);
}
END_TEST

START_TEST(what_passes_does_not_pass_shortened_or_with_more)
{
	uint8_t bytes[256];
	size_t n = unhex(cases[_i].hex, bytes), cut;

	if (cases[_i].rule != NULL)
		return;
	for (cut = 0; cut < n; cut++)
		ck_assert_str_eq(rule_of(bytes, cut), "truncated value");
	bytes[n] = 0xc0;
	ck_assert_str_eq(rule_of(bytes, n + 1), "bytes left over");
}
END_TEST

START_TEST(every_code_point_and_no_other_passes)
{
	uint8_t s[4];
	uint32_t c;

	for (c = 0; c < 0x200000; c++) {
		bool valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
		size_t n;

		if (c < 0x80)
			s[0] = (uint8_t)c, n = 1;
		else if (c < 0x800)
			s[0] = (uint8_t)(0xc0 | c >> 6), n = 2;
		else if (c < 0x10000)
			s[0] = (uint8_t)(0xe0 | c >> 12), n = 3;
		else
			s[0] = (uint8_t)(0xf0 | c >> 18), n = 4;
		for (size_t i = 1; i < n; i++)
			s[i] = (uint8_t)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
		if (utf8_valid(s, n) != valid)
			ck_abort_msg("U+%04X", c);
	}
}
END_TEST

START_TEST(an_invalid_byte_is_found_wherever_it_stands)
{
	uint8_t text[200];
	size_t n, at;

	for (n = 1; n <= sizeof text; n++)
		for (at = 0; at < n; at++) {
			memset(text, 'x', n);
			ck_assert(utf8_valid(text, n));
			text[at] = 0xff;
			if (utf8_valid(text, n))
				ck_abort_msg("byte %zu of %zu", at, n);
		}
}
END_TEST

static const char *
nested(unsigned depth, uint8_t container)
{
	uint8_t bytes[256];
	size_t n = 0;

	while (depth-- > 1) {
		bytes[n++] = container;
		if (container == 0x81) {
			bytes[n++] = 0xa1;
			bytes[n++] = 'k';
		}
	}
	bytes[n++] = container & 0xf0;
	return rule_of(bytes, n);
}

START_TEST(depth_is_bounded)
{
	ck_assert_ptr_null(nested(VALUE_DEPTH_MAX, 0x91));
	ck_assert_ptr_null(nested(VALUE_DEPTH_MAX, 0x81));
	ck_assert_str_eq(nested(VALUE_DEPTH_MAX + 1, 0x91), "nested too deep");
	ck_assert_str_eq(nested(VALUE_DEPTH_MAX + 1, 0x81), "nested too deep");
}
END_TEST

START_TEST(the_number_of_values_is_bounded)
{
	struct buf b = { 0 };
	uint32_t i;

	/* One array and its elements. */
	pack_array(&b, VALUE_NODES_MAX - 1);
	for (i = 0; i < VALUE_NODES_MAX - 1; i++)
		pack_nil(&b);
	ck_assert_ptr_null(rule_of(b.p, b.n));
	b.n = 0;
	pack_array(&b, VALUE_NODES_MAX);
	for (i = 0; i < VALUE_NODES_MAX; i++)
		pack_nil(&b);
	ck_assert_str_eq(rule_of(b.p, b.n), "too many values");
	/* Spread over many small ones. */
	b.n = 0;
	pack_array(&b, VALUE_NODES_MAX / 2);
	for (i = 0; i < VALUE_NODES_MAX / 2; i++) {
		pack_array(&b, 1);
		pack_nil(&b);
	}
	ck_assert_str_eq(rule_of(b.p, b.n), "too many values");
	buf_finish(&b);
}
END_TEST

/* A map of `n` different keys of 24 bytes that begin alike, then `extra`. */
static void
wide_map(struct buf *b, uint32_t n, const char *extra)
{
	char key[32];
	uint32_t i;

	pack_map(b, n + (extra != NULL));
	for (i = 0; i < n; i++) {
		snprintf(key, sizeof key, "key-with-a-prefix-%06u", i * 7919 % n);
		pack_str(b, key);
		pack_nil(b);
	}
	if (extra != NULL) {
		pack_str(b, extra);
		pack_nil(b);
	}
}

START_TEST(duplicate_keys_are_found_in_maps_of_every_size)
{
	static const uint32_t sizes[] = { 1, 2, 15, 16, 17, 95, 96, 97, 400, 5000, 32000 };
	struct buf b = { 0 };
	size_t i;

	for (i = 0; i < countof(sizes); i++) {
		b.n = 0;
		wide_map(&b, sizes[i], NULL);
		ck_assert_ptr_null(rule_of(b.p, b.n));
		b.n = 0;
		wide_map(&b, sizes[i], "key-with-a-prefix-");
		ck_assert_ptr_null(rule_of(b.p, b.n));
		b.n = 0;
		wide_map(&b, sizes[i], "key-with-a-prefix-000000");
		ck_assert_str_eq(rule_of(b.p, b.n), "duplicate key");
	}
	buf_finish(&b);
}
END_TEST

START_TEST(keys_of_maps_inside_maps_are_kept_apart)
{
	struct buf b = { 0 };
	int i;

	/* The same 40 keys at every level, the next level between them. */
	for (i = 0; i < 20; i++) {
		wide_map(&b, 40, NULL);
		b.n--; /* the last nil: the next map stands there */
	}
	pack_nil(&b);
	ck_assert_ptr_null(rule_of(b.p, b.n));
	b.n--;
	wide_map(&b, 40, "key-with-a-prefix-000001");
	ck_assert_str_eq(rule_of(b.p, b.n), "duplicate key");
	buf_finish(&b);
}
END_TEST

static const int64_t edges[] = { 0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296,
	INT64_MAX, -1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649,
	INT64_MIN };

START_TEST(writers_are_canonical_and_read_back)
{
	struct buf b = { 0 };
	struct slice s;
	struct value v;

	pack_int(&b, edges[_i]);
	ck_assert_ptr_null(rule_of(b.p, b.n));
	s = (struct slice) { b.p, b.n };
	v = value_next(&s);
	ck_assert_uint_eq(s.n, 0);
	ck_assert_uint_eq(v.raw.n, b.n);
	ck_assert_int_eq(v.type, edges[_i] >= 0 ? VALUE_UINT : VALUE_INT);
	ck_assert_int_eq(v.sint, edges[_i]);
	buf_finish(&b);
}
END_TEST

START_TEST(lengths_at_the_edges_of_their_forms_read_back)
{
	static const size_t sizes[] = { 0, 1, 31, 32, 255, 256, 65535, 65536, 100000 };
	char *text = calloc(1, 100000);
	struct buf b = { 0 };
	size_t i;

	for (i = 0; i < countof(sizes); i++) {
		struct slice s;
		struct value v;

		b.n = 0;
		pack_array(&b, 2);
		pack_str_n(&b, text, sizes[i]);
		pack_bin(&b, text, sizes[i]);
		ck_assert_ptr_null(rule_of(b.p, b.n));
		s = (struct slice) { b.p, b.n };
		v = value_next(&s);
		ck_assert_int_eq(v.type, VALUE_ARRAY);
		ck_assert_uint_eq(v.count, 2);
		ck_assert_uint_eq(v.raw.n, b.n);
		v = value_next(&s);
		ck_assert_int_eq(v.type, VALUE_STR);
		ck_assert_uint_eq(v.bytes.n, sizes[i]);
		v = value_skip(&s);
		ck_assert_int_eq(v.type, VALUE_BIN);
		ck_assert_uint_eq(v.bytes.n, sizes[i]);
		ck_assert_uint_eq(s.n, 0);
	}
	free(text);
	buf_finish(&b);
}
END_TEST

START_TEST(values_are_skipped_whole_and_found_by_key)
{
	struct buf b = { 0 };
	struct slice s;
	struct value v;

	pack_map(&b, 3);
	pack_str(&b, "deep");
	pack_map(&b, 1);
	pack_str(&b, "a");
	pack_array(&b, 2);
	pack_real(&b, 1.5);
	pack_bool(&b, true);
	pack_str(&b, "");
	pack_nil(&b);
	pack_str(&b, "b");
	pack_int(&b, -7);
	ck_assert_ptr_null(rule_of(b.p, b.n));
	s = (struct slice) { b.p, b.n };
	ck_assert(value_get(s, "b", &v));
	ck_assert_int_eq(v.sint, -7);
	ck_assert(value_get(s, "", &v));
	ck_assert_int_eq(v.type, VALUE_NIL);
	ck_assert(!value_get(s, "a", &v));
	ck_assert(!value_get(s, "dee", &v));
	ck_assert(value_get(s, "deep", &v));
	ck_assert_int_eq(v.type, VALUE_MAP);
	ck_assert(value_get(v.raw, "a", &v));
	s = v.raw;
	v = value_open(&s);
	ck_assert_int_eq(v.type, VALUE_ARRAY);
	ck_assert_uint_eq(v.raw.n, 1);
	ck_assert(value_next(&s).real == 1.5);
	ck_assert(value_next(&s).boolean);
	ck_assert_uint_eq(s.n, 0);
	s = (struct slice) { b.p, b.n };
	ck_assert_uint_eq(value_skip(&s).raw.n, b.n);
	ck_assert_uint_eq(s.n, 0);
	buf_finish(&b);
}
END_TEST

START_TEST(the_canonical_form_sorts_keys_at_every_depth)
{
	uint8_t in[64], want[64];
	size_t n =
	    unhex("83 a162 82 a17a 01 a161 02 a2 6161 91 82 a162 c0 a0 c0 a161 cc80", in);
	size_t m =
	    unhex("83 a161 cc80 a2 6161 91 82 a0 c0 a162 c0 a162 82 a161 02 a17a 01", want);
	struct buf b = { 0 };

	ck_assert_ptr_null(rule_of(in, n));
	ck_assert_int_eq(value_canonical((struct slice) { in, n }, &b), 0);
	ck_assert_uint_eq(b.n, m);
	ck_assert_mem_eq(b.p, want, m);
	ck_assert(!value_is_canonical((struct slice) { in, n }));
	ck_assert(value_is_canonical((struct slice) { want, m }));
	b.n = 0;
	ck_assert_int_eq(value_canonical((struct slice) { want, m }, &b), 0);
	ck_assert_mem_eq(b.p, want, m);
	buf_finish(&b);
}
END_TEST

START_TEST(the_canonical_form_of_a_wide_map_does_not_depend_on_order)
{
	struct buf a = { 0 }, b = { 0 }, x = { 0 }, y = { 0 };
	char key[16];
	int i;

	pack_map(&a, 1000);
	pack_map(&b, 1000);
	for (i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "%d", i);
		pack_str(&a, key);
		pack_int(&a, i);
		snprintf(key, sizeof key, "%d", 999 - i);
		pack_str(&b, key);
		pack_int(&b, 999 - i);
	}
	ck_assert_int_eq(value_canonical((struct slice) { a.p, a.n }, &x), 0);
	ck_assert_int_eq(value_canonical((struct slice) { b.p, b.n }, &y), 0);
	ck_assert_uint_eq(x.n, y.n);
	ck_assert_mem_eq(x.p, y.p, x.n);
	ck_assert(value_is_canonical((struct slice) { x.p, x.n }));
	ck_assert(!value_is_canonical((struct slice) { a.p, a.n }));
	ck_assert_ptr_null(rule_of(x.p, x.n));
	buf_finish(&a);
	buf_finish(&b);
	buf_finish(&x);
	buf_finish(&y);
}
END_TEST

START_TEST(a_buffer_that_failed_stays_failed)
{
	struct buf b = { 0 };

	pack_str(&b, "text");
	b.failed = true;
	pack_str(&b, "more");
	ck_assert_uint_eq(b.n, 5);
	ck_assert_ptr_null(buf_room(&b, 1));
	buf_finish(&b);
	ck_assert_ptr_null(b.p);
	buf_finish(NULL);
}
END_TEST

START_TEST(slices_compare_and_copy)
{
	static const uint8_t with_nul[] = { 'a', 0, 'b' };
	char *copy;

	ck_assert(slice_is(slice_of("abc"), "abc"));
	ck_assert(!slice_is(slice_of("ab"), "abc"));
	ck_assert(!slice_is(slice_of("abcd"), "abc"));
	ck_assert(slice_is((struct slice) { NULL, 0 }, ""));
	ck_assert(slice_equal((struct slice) { NULL, 0 }, slice_of("")));
	ck_assert(!slice_equal(slice_of("a"), slice_of("b")));
	copy = slice_dup(slice_of("abc"));
	ck_assert_str_eq(copy, "abc");
	free(copy);
	ck_assert_ptr_null(slice_dup((struct slice) { with_nul, 3 }));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("walk");
	TCase *rules = tcase_create("rules"), *bounds = tcase_create("bounds");
	TCase *values = tcase_create("values");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(rules, each_rule_refuses_what_it_names, 0, (int)countof(cases));
	tcase_add_loop_test(
	    rules, what_passes_does_not_pass_shortened_or_with_more, 0, (int)countof(cases));
	tcase_add_test(rules, every_code_point_and_no_other_passes);
	tcase_add_test(rules, an_invalid_byte_is_found_wherever_it_stands);
	tcase_add_test(bounds, depth_is_bounded);
	tcase_add_test(bounds, the_number_of_values_is_bounded);
	tcase_add_test(bounds, duplicate_keys_are_found_in_maps_of_every_size);
	tcase_add_test(bounds, keys_of_maps_inside_maps_are_kept_apart);
	tcase_add_loop_test(
	    values, writers_are_canonical_and_read_back, 0, (int)countof(edges));
	tcase_add_test(values, lengths_at_the_edges_of_their_forms_read_back);
	tcase_add_test(values, values_are_skipped_whole_and_found_by_key);
	tcase_add_test(values, the_canonical_form_sorts_keys_at_every_depth);
	tcase_add_test(values, the_canonical_form_of_a_wide_map_does_not_depend_on_order);
	tcase_add_test(values, a_buffer_that_failed_stays_failed);
	tcase_add_test(values, slices_compare_and_copy);
	tcase_set_timeout(rules, 60);
	tcase_set_timeout(bounds, 60);
	suite_add_tcase(s, rules);
	suite_add_tcase(s, bounds);
	suite_add_tcase(s, values);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
