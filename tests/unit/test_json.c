/* json, json_read and json_members: texts and values, both ways. */
#include "common/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "common/json_members.h"
#include "common/util.h"
#include "common/walk.h"

static struct buf out;

static void
setup(void)
{
	memset(&out, 0, sizeof(out));
}

static void
teardown(void)
{
	buf_finish(&out);
}

/* `out` as a string; what stood there before is dropped by reset(). */
static const char *
text(void)
{
	static const char nul;
	size_t n = out.n;

	buf_add(&out, &nul, 1);
	ck_assert(!out.failed);
	out.n = n;
	return (const char *)out.p;
}

static void
reset(void)
{
	out.n = 0;
}

/* ---- writing and reading ------------------------------------------------------------ */

static void
check_json(const struct buf *b, const char *want)
{
	struct fault fault;

	ck_assert_int_eq(walk_value(b->p, b->n, &fault), 0);
	reset();
	json_write((struct slice){ b->p, b->n }, &out);
	ck_assert_str_eq(text(), want);
}

static const struct {
	double v;
	const char *text;
} reals[] = {
	{ 0.1, "0.1" },
	{ 1, "1.0" },
	{ -0.0, "-0.0" },
	{ 1e300, "1e+300" },
	{ 5e-324, "5e-324" },
	{ 0.1 + 0.2, "0.30000000000000004" },
	{ 1.0 / 3, "0.3333333333333333" },
	{ 9007199254740993.0, "9007199254740992.0" },
};

START_TEST(reals_read_back_as_they_were)
{
	struct buf b = { 0 };

	pack_real(&b, reals[_i].v);
	check_json(&b, reals[_i].text);
	ck_assert(strtod(text(), NULL) == reals[_i].v);
	buf_finish(&b);
}
END_TEST

START_TEST(integers_are_exact)
{
	struct buf b = { 0 };

	pack_array(&b, 4);
	pack_uint(&b, UINT64_MAX);
	pack_int(&b, INT64_MIN);
	pack_uint(&b, 9007199254740993ull);
	pack_uint(&b, 0);
	check_json(&b, "[18446744073709551615,-9223372036854775808,9007199254740993,0]");
	buf_finish(&b);
}
END_TEST

START_TEST(binary_is_base64)
{
	static const char *const want[] = { "\"\"", "\"AA==\"", "\"AAE=\"", "\"AAEC\"",
		"\"AAECAw==\"" };
	static const uint8_t bytes[] = { 0, 1, 2, 3 };
	struct buf b = { 0 };
	size_t n;

	for (n = 0; n <= sizeof(bytes); n++) {
		b.n = 0;
		pack_bin(&b, bytes, n);
		check_json(&b, want[n]);
	}
	buf_finish(&b);
}
END_TEST

START_TEST(long_binary_is_base64_without_a_break)
{
	uint8_t bytes[3000];
	size_t i;

	memset(bytes, 0xff, sizeof(bytes));
	json_write_base64((struct slice){ bytes, sizeof(bytes) }, &out);
	ck_assert_uint_eq(out.n, 4002);
	for (i = 1; i < 4001; i++)
		ck_assert_int_eq(out.p[i], '/');
}
END_TEST

START_TEST(strings_pass_but_for_what_a_terminal_obeys)
{
	struct buf b = { 0 };

	pack_str(&b, "\xc3\xbc\xf0\x9f\x98\x80\"\\/"
		     "\b\f\n\r\t\x01\x7f\xc2\x85\xe2\x80\xae\xf3\xa0\x81\x81");
	check_json(&b, "\"\xc3\xbc\xf0\x9f\x98\x80\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f\\u0085"
		       "\\u202e\\udb40\\udc41\"");
	b.n = 0;
	pack_str_n(&b, "a\0b", 3);
	check_json(&b, "\"a\\u0000b\"");
	buf_finish(&b);
}
END_TEST

static const char *const round_trips[] = {
	"{}",
	"[]",
	"null",
	"true",
	"\"x\"",
	"-1",
	"[1,[2,{\"a\":[false,null]}]]",
	"{\"b\":1,\"a\":{\"c\":-9223372036854775808,\"d\":9223372036854775807}}",
	"[0.5,1.0,1e+20]",
	"\"\\u0000\"",
	"[18446744073709551615,-9223372036854775808]",
	"{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"g\":6,\"h\":7,\"i\":8,"
	"\"j\":9,\"k\":10,\"l\":11,\"m\":12,\"n\":13,\"o\":14,\"p\":15,\"q\":[16]}",
};

START_TEST(what_is_read_is_written_the_same)
{
	char err[JSON_ERROR_MAX];
	struct buf b = { 0 };

	ck_assert_int_eq(json_read(round_trips[_i], &b, err), 0);
	check_json(&b, round_trips[_i]);
	buf_finish(&b);
}
END_TEST

static const struct {
	const char *json;
	const char *said;
} bad_json[] = {
	{ "", "line 1, column 0: " },
	{ "{", "line 1, column 1: " },
	{ "{\"a\":1,\n \"a\":2}", "line 2, column 4: duplicate object key" },
	{ "{} x", "line 1, column 4: " },
	{ "{'a':1}", "line 1, column " },
	{ "[1,]", "line 1, column 4: " },
	{ "NaN", "line 1, column " },
	{ "01", "line 1, column " },
	{ "1e999", "line 1, column 5: real number overflow" },
	{ "18446744073709551616", "line 1, column 20: too big integer" },
	{ "\"\xff\"", "line 1, column " },
	{ "\"\\ud800\"", "line 1, column " },
	{ "\"a\nb\"", "line 1, column " },
	{ "{\"\\u0000\":1}", "line 1, column " },
	{ "-9223372036854775809", "line 1, column 20: too big integer" },
	{ "{\"a\":{\"a\":1},\"b\":[{\"a\":2},{\"a\":3}],\"a\":4}",
	    "line 1, column 38: duplicate object key" },
	{ "{\"a\":1,\"\\u0061\":2}", "line 1, column 15: duplicate object key" },
	{ "\"\xed\xa0\x80\"", "line 1, column 2: not UTF-8" },
	{ "\"\xc3\"", "line 1, column 2: not UTF-8" },
	{ "\"\\udc00\"", "line 1, column 7: half of a surrogate pair" },
	{ "\"\\ud800\\u0061\"", "line 1, column 13: half of a surrogate pair" },
	{ "\"\\x\"", "line 1, column 3: no such escape" },
	{ "\"\\u12g4\"", "line 1, column 6: four hexadecimal digits" },
	{ "\"a", "line 1, column 2: ends too early" },
	{ "\xef\xbb\xbf{}", "line 1, column 1: no value begins so" },
	{ "+1", "line 1, column 1: no value begins so" },
	{ "1.", "line 1, column 2: ends too early" },
	{ "1.x", "line 1, column 3: a digit follows" },
	{ "1e", "line 1, column 2: ends too early" },
	{ ".5", "line 1, column 1: no value begins so" },
	{ "-", "line 1, column 1: ends too early" },
	{ "0x1", "line 1, column 2: only one value" },
	{ "True", "line 1, column 1: no value begins so" },
	{ "nul", "line 1, column 3: ends too early" },
	{ "[1 2]", "line 1, column 4: a comma" },
	{ "{\"a\" 1}", "line 1, column 6: a colon" },
	{ "{\"a\":1,}", "line 1, column 8: a key" },
	{ "{1:2}", "line 1, column 2: a key" },
	{ "[1]/*x*/", "line 1, column 4: only one value" },
	{ "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
	    "nested more than 24 deep" },
};

START_TEST(bad_json_is_refused_with_its_position)
{
	char err[JSON_ERROR_MAX];
	struct buf b = { 0 };

	ck_assert_int_eq(json_read(bad_json[_i].json, &b, err), -EINVAL);
	ck_assert_msg(
	    strncmp(err, bad_json[_i].said, strlen(bad_json[_i].said)) == 0, "%s", err);
	buf_finish(&b);
}
END_TEST

START_TEST(pretty_is_the_same_value_on_lines)
{
	char err[JSON_ERROR_MAX];
	struct buf b = { 0 };

	ck_assert_int_eq(json_read("{\"a\":[1,{}],\"b\":[]}", &b, err), 0);
	json_write_pretty((struct slice){ b.p, b.n }, &out);
	ck_assert_str_eq(text(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
	buf_finish(&b);
}
END_TEST

/* ---- reading within bounds ------------------------------------------------------------ */

static int
read_within(struct slice s, struct json_bounds bounds, char err[JSON_ERROR_MAX])
{
	reset();
	return json_read_bounded(s, &bounds, &out, err);
}

START_TEST(bounds_hold_while_it_is_read)
{
	static const struct json_bounds wide = { 4096, 8, 64 };
	struct json_bounds b = wide;
	struct slice s = slice_of("[[[1,2],\"abc\"],{\"k\":[]}]");
	char err[JSON_ERROR_MAX];

	ck_assert_int_eq(read_within(s, b, err), 0);
	b.depth = 3;
	ck_assert_int_eq(read_within(s, b, err), 0);
	b.depth = 2;
	ck_assert_int_eq(read_within(s, b, err), -EINVAL);
	ck_assert_str_eq(err, "nested more than 2 deep");
	b = wide;
	b.values = 9;
	ck_assert_int_eq(read_within(s, b, err), 0);
	b.values = 8;
	ck_assert_int_eq(read_within(s, b, err), -EINVAL);
	ck_assert_str_eq(err, "more than 8 values");
	b = wide;
	b.bytes = 13;
	ck_assert_int_eq(read_within(s, b, err), 0);
	ck_assert_uint_eq(out.n, 13);
	b.bytes = 12;
	ck_assert_int_eq(read_within(s, b, err), -EINVAL);
	ck_assert_str_eq(err, "more than 12 bytes when packed");
}
END_TEST

START_TEST(a_nul_byte_is_no_end)
{
	char err[JSON_ERROR_MAX];

	ck_assert_int_eq(
	    read_within((struct slice){ (const uint8_t *)"1\0", 2 }, json_payload, err),
	    -EINVAL);
	ck_assert_str_eq(err, "line 1, column 2: only one value is expected");
	ck_assert_int_eq(
	    read_within((struct slice){ (const uint8_t *)"\"\0\"", 3 }, json_payload, err),
	    -EINVAL);
	ck_assert_str_eq(err, "line 1, column 2: a control character stands as an escape");
	ck_assert_int_eq(read_within((struct slice){ NULL, 0 }, json_payload, err), -EINVAL);
}
END_TEST

START_TEST(what_is_cut_anywhere_is_refused)
{
	static const char whole[] = " {\"a\":[1,-2.5e3,\"x\\u00fc\\n\",true,null],\"b\":{}}";
	char err[JSON_ERROR_MAX];

	ck_assert_int_eq(read_within(slice_of(whole), json_payload, err), 0);
	for (size_t n = 0; n < strlen(whole); n++)
		ck_assert_msg(read_within((struct slice){ (const uint8_t *)whole, n },
				  json_payload, err) == -EINVAL,
		    "%zu", n);
}
END_TEST

START_TEST(many_elements_have_a_long_header)
{
	static const uint32_t counts[] = { 15, 16, 65535, 65536 };
	const struct json_bounds bounds = { 1u << 20, 4, 1u << 17 };
	struct buf list = { 0 };
	char err[JSON_ERROR_MAX];
	struct slice s;

	for (size_t i = 0; i < countof(counts); i++) {
		list.n = 0;
		buf_add(&list, "[", 1);
		for (uint32_t k = 0; k < counts[i]; k++)
			buf_add(&list, k == 0 ? "7" : ",7", k == 0 ? 1 : 2);
		buf_add(&list, "]", 1);
		ck_assert(!list.failed);
		reset();
		if (counts[i] < VALUE_NODES_MAX) {
			ck_assert_int_eq(
			    json_read_bounded(buf_slice(&list), &bounds, &out, err), 0);
			s = buf_slice(&out);
			ck_assert_uint_eq(value_open(&s).count, counts[i]);
		} else {
			ck_assert_int_eq(
			    json_read_bounded(buf_slice(&list), &bounds, &out, err), -EINVAL);
		}
	}
	buf_finish(&list);
}
END_TEST

/* ---- members ---------------------------------------------------------------------------- */

struct sample {
	bool has_name, has_data, has_count, has_on, has_any, has_map, has_list, has_env,
	    has_part;
	struct slice name, data, any, map, list, env, part;
	uint64_t count;
	bool on;
};

#define M(name, kind, required, min, max)                                                      \
	JSON_MEMBER(#name, kind, required, min, max, struct sample, name)
static const struct json_member sample_table[] = {
	M(name, TEXT, true, 1, 4),
	M(data, BYTES, false, 0, 3),
	M(count, NUMBER, false, 1, 1000),
	M(on, FLAG, false, 0, 0),
	M(any, ANY, false, 0, 8),
	M(map, OBJECT, false, 0, 8),
	M(list, TEXTS, false, 1, 64),
	M(env, TEXT_MAP, false, 0, 64),
	M(part, FRAME, false, 0, 0),
	{ .name = NULL },
};

static int
read_sample(const char *json, struct sample *ret, struct buf *bytes, struct json_fault *fault)
{
	char err[JSON_ERROR_MAX];

	memset(ret, 0, sizeof(*ret));
	reset();
	ck_assert_msg(json_read(json, &out, err) == 0, "%s: %s", json, err);
	return json_members_read(buf_slice(&out), "a.b.", sample_table, ret, bytes, fault);
}

START_TEST(members_become_a_struct)
{
	struct json_fault fault;
	struct buf bytes = { 0 };
	struct sample s;

	ck_assert_int_eq(
	    read_sample("{\"list\":[\"x\"],\"name\":\"ab\",\"data\":\"AAEC\","
			"\"count\":1000,\"on\":true,\"any\":[1],\"env\":{\"K\":\"v\"},"
			"\"part\":{\"z\":[[1]]}}",
		&s, &bytes, &fault),
	    0);
	ck_assert(slice_is(s.name, "ab") && s.has_name && s.count == 1000 && s.on);
	ck_assert(s.data.n == 3 && memcmp(s.data.p, "\0\1\2", 3) == 0);
	ck_assert(s.any.n == 2 && s.list.n == 3 && s.env.n == 5 && s.has_part && !s.has_map);
	ck_assert_int_eq(read_sample("{\"name\":\"a\"}", &s, &bytes, &fault), 0);
	ck_assert(!s.has_count && !s.has_on && !s.has_data);
	buf_finish(&bytes);
}
END_TEST

static const struct {
	const char *json;
	const char *said;
} bad_members[] = {
	{ "{}", "a.b.name: is missing" },
	{ "[]", "a.b.: an object is expected" },
	{ "{\"name\":\"a\",\"nome\":1}", "a.b.: unknown member \"nome\"" },
	{ "{\"name\":\"a\",\"Name\":1}", "a.b.: unknown member \"Name\"" },
	{ "{\"\\u001b[2J\":1}", "a.b.: unknown member" },
	{ "{\"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	  "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4-\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	  "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\":1}",
	    "a.b.: unknown member \"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4-\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\"" },
	{ "{\"name\":null}", "a.b.name: is no string" },
	{ "{\"name\":\"\"}", "a.b.name: is empty" },
	{ "{\"name\":\"abcde\"}", "a.b.name: has more than 4 bytes" },
	{ "{\"name\":\"a\\u0000\"}", "a.b.name: holds a NUL" },
	{ "{\"name\":\"a\",\"data\":\"AAE\"}",
	    "a.b.data: is no base64 (RFC 4648, with padding)" },
	{ "{\"name\":\"a\",\"data\":\"AB==\"}",
	    "a.b.data: is no base64 (RFC 4648, with padding)" },
	{ "{\"name\":\"a\",\"data\":\"AA-_\"}",
	    "a.b.data: is no base64 (RFC 4648, with padding)" },
	{ "{\"name\":\"a\",\"data\":\"AA\\nA=\"}",
	    "a.b.data: is no base64 (RFC 4648, with padding)" },
	{ "{\"name\":\"a\",\"data\":\"AAAAAA==\"}", "a.b.data: has more than 3 bytes" },
	{ "{\"name\":\"a\",\"data\":1}", "a.b.data: is no base64 string" },
	{ "{\"name\":\"a\",\"count\":0}", "a.b.count: is no integer from 1 to 1000" },
	{ "{\"name\":\"a\",\"count\":1001}", "a.b.count: is no integer from 1 to 1000" },
	{ "{\"name\":\"a\",\"count\":-1}", "a.b.count: is no integer from 1 to 1000" },
	{ "{\"name\":\"a\",\"count\":1.0}", "a.b.count: is no integer from 1 to 1000" },
	{ "{\"name\":\"a\",\"count\":\"1\"}", "a.b.count: is no integer from 1 to 1000" },
	{ "{\"name\":\"a\",\"on\":1}", "a.b.on: is neither true nor false" },
	{ "{\"name\":\"a\",\"any\":\"123456789\"}",
	    "a.b.any: has more than 8 bytes when packed" },
	{ "{\"name\":\"a\",\"map\":[]}", "a.b.map: is no object" },
	{ "{\"name\":\"a\",\"list\":{}}", "a.b.list: is no array" },
	{ "{\"name\":\"a\",\"list\":[]}", "a.b.list: is empty" },
	{ "{\"name\":\"a\",\"list\":[[\"x\"]]}",
	    "a.b.list: holds something that is no string" },
	{ "{\"name\":\"a\",\"list\":[\"x\\u0000\"]}", "a.b.list: holds a string with a NUL" },
	{ "{\"name\":\"a\",\"env\":{\"A\":1}}", "a.b.env: holds something that is no string" },
	{ "{\"name\":\"a\",\"part\":7}", "a.b.part: is no object" },
};

START_TEST(a_bad_member_is_named)
{
	struct json_fault fault = { { 0 } };
	struct buf bytes = { 0 };
	struct sample s;

	ck_assert_int_eq(read_sample(bad_members[_i].json, &s, &bytes, &fault), -EINVAL);
	ck_assert_str_eq(fault.text, bad_members[_i].said);
	buf_finish(&bytes);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("json");
	TCase *j = tcase_create("texts"), *m = tcase_create("members");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(j, setup, teardown);
	tcase_add_loop_test(j, reals_read_back_as_they_were, 0, (int)countof(reals));
	tcase_add_test(j, integers_are_exact);
	tcase_add_test(j, binary_is_base64);
	tcase_add_test(j, long_binary_is_base64_without_a_break);
	tcase_add_test(j, strings_pass_but_for_what_a_terminal_obeys);
	tcase_add_loop_test(j, what_is_read_is_written_the_same, 0, (int)countof(round_trips));
	tcase_add_loop_test(
	    j, bad_json_is_refused_with_its_position, 0, (int)countof(bad_json));
	tcase_add_test(j, pretty_is_the_same_value_on_lines);
	tcase_add_test(j, bounds_hold_while_it_is_read);
	tcase_add_test(j, a_nul_byte_is_no_end);
	tcase_add_test(j, what_is_cut_anywhere_is_refused);
	tcase_add_test(j, many_elements_have_a_long_header);
	tcase_add_checked_fixture(m, setup, teardown);
	tcase_add_test(m, members_become_a_struct);
	tcase_add_loop_test(m, a_bad_member_is_named, 0, (int)countof(bad_members));
	suite_add_tcase(s, j);
	suite_add_tcase(s, m);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
