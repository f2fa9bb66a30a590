/* The pure parts of the files provider: patterns, text, paths, cursors, argument tables. */
#include "tests/unit/files_fixture.h"

#include <ctype.h>

#include "worker/files/args.h"
#include "worker/files/cursor.h"
#include "worker/files/glob.h"
#include "worker/files/literal.h"
#include "common/base64.h"
#include "worker/files/text.h"

static const struct {
	const char *pattern, *name;
	bool match;
} globs[] = {
	{ "a", "a", true },
	{ "a", "b", false },
	{ "a", "ab", false },
	{ "*", "anything", true },
	{ "*", ".hidden", true },
	{ "*.txt", "a.txt", true },
	{ "*.txt", "a.txt.gz", false },
	{ "a*b*c", "aXbYbZc", true },
	{ "a*b*c", "aXbYbZ", false },
	{ "**a**", "bab", true },
	{ "*a", "aaab", false },
	{ "???", "abc", true },
	{ "???", "ab", false },
	{ "?", "\xe6\xbc\xa2", true }, /* one character of three bytes */
	{ "??", "\xe6\xbc\xa2", false },
	{ "[abc]", "b", true },
	{ "[a-c]x", "bx", true },
	{ "[a-c]", "d", false },
	{ "[!a-c]", "d", true },
	{ "[^a-c]", "a", false },
	{ "[]]", "]", true },
	{ "[!]]", "]", false },
	{ "[a-]", "-", true },
	{ "[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true },
	{ "*[0-9][0-9]", "img42", true },
	{ "*[0-9]", "img", false },
	{ "\\*", "\\*", true }, /* there is no escape */
	{ "A", "a", false },
};

START_TEST(a_pattern_means_what_its_row_says)
{
	uint64_t steps = 0;
	struct slice pattern = slice_of(globs[_i].pattern), name = slice_of(globs[_i].name);

	ck_assert(glob_is_valid(pattern));
	ck_assert(glob_match(pattern, name, &steps) == globs[_i].match);
	ck_assert_uint_le(steps, (pattern.n + 1) * (name.n + 2) + 2);
}
END_TEST

START_TEST(a_hostile_pattern_costs_no_more_than_the_product)
{
	char pattern[257] = "", name[256];
	uint64_t steps = 0;
	size_t i;

	for (i = 0; i < 255; i += 2)
		memcpy(pattern + i, "*a", 3);
	pattern[254] = 'b';
	memset(name, 'a', 255);
	name[255] = '\0';
	ck_assert(!glob_match(slice_of(pattern), slice_of(name), &steps));
	ck_assert_uint_le(steps, 256 * 256);
}
END_TEST

static const char *const bad_globs[] = { "[", "[a", "a[]", "[!", "[!]", "x[a-", "\xff", "[\xc3" };

START_TEST(a_set_without_an_end_is_no_pattern)
{
	ck_assert(!glob_is_valid(slice_of(bad_globs[_i])));
}
END_TEST

static const struct {
	const char *bytes;
	size_t n, valid;
	bool partial;
} utf8[] = {
	{ "", 0, 0, false },
	{ "abc", 3, 3, false },
	{ "\0", 1, 1, false },
	{ "\xc3\xa9", 2, 2, false },
	{ "a\xc3", 2, 1, true },
	{ "\xe6\xbc", 2, 0, true },
	{ "\xf0\x9f\x8c", 3, 0, true },
	{ "\xc0\x80", 2, 0, false }, /* overlong */
	{ "\xe0\x80\x80", 3, 0, false },
	{ "\xf0\x80\x80\x80", 4, 0, false },
	{ "\xed\xa0\x80", 3, 0, false }, /* surrogate */
	{ "\xf4\x90\x80\x80", 4, 0, false }, /* beyond 10ffff */
	{ "\xf5", 1, 0, false },
	{ "ab\x80", 3, 2, false },
	{ "\xc3(", 2, 0, false },
};

START_TEST(utf8_is_judged_as_its_row_says)
{
	bool partial;

	ck_assert_uint_eq(
	    text_utf8((const uint8_t *)utf8[_i].bytes, utf8[_i].n, &partial), utf8[_i].valid);
	ck_assert(partial == utf8[_i].partial);
}
END_TEST

START_TEST(base64_comes_back_and_nothing_else_is_taken)
{
	static const char *const bad[] = { "A", "AA", "AAA", "AB==", "AAB=", "====", "A===",
		"AA=A", "AAAA====", "AA A", "AA-_", "AA==AAAA" };
	uint8_t bytes[64], back[64];
	char text[96];
	size_t i, n;

	for (i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (uint8_t)(i * 37 + 11);
		base64_encode(bytes, i, text);
		ck_assert_int_eq(base64_decode((uint8_t *)text, base64_size(i), back, &n), 0);
		ck_assert_uint_eq(n, i);
		ck_assert_mem_eq(bytes, back, i);
	}
	for (i = 0; i < countof(bad); i++)
		ck_assert_msg(base64_decode((const uint8_t *)bad[i], strlen(bad[i]), back, &n) ==
		    -EINVAL, "%s", bad[i]);
}
END_TEST

static const char *const bad_paths[] = { "/", "/a", "a//b", "..", "a/..", "../a", "a/./b", "./a",
	"a/../..", "a\nb", "a\x7f", "\xff", "a\\b", " a", "a ", "a/ /b", "//",
	".caisson-0.tmp", "d/.caisson-0123456789abcdef.tmp" };

/* TU-35 */
START_TEST(what_is_no_path_is_refused)
{
	struct segments s;

	ck_assert_int_eq(segments_parse(slice_of(bad_paths[_i]), &s), -EINVAL);
}
END_TEST

/* TU-35 */
START_TEST(a_path_has_64_names_of_255_bytes_and_no_more)
{
	char text[SEGMENTS_TEXT_MAX + 4], name[257];
	struct segments s;
	size_t i, n = 0;

	for (i = 0; i < 64; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02zu", i > 0 ? "/" : "", i);
	ck_assert_int_eq(segments_parse(slice_of(text), &s), 0);
	ck_assert_uint_eq(s.n, 64);
	strlcpy(text + n, "/x", 3);
	ck_assert_int_eq(segments_parse(slice_of(text), &s), -EINVAL);
	memset(name, 'n', sizeof(name));
	ck_assert_int_eq(segments_parse((struct slice){ (uint8_t *)name, 255 }, &s), 0);
	ck_assert_int_eq(segments_parse((struct slice){ (uint8_t *)name, 256 }, &s), -EINVAL);
	ck_assert_int_eq(segments_parse((struct slice){ (const uint8_t *)"a\0b", 3 }, &s), -EINVAL);
}
END_TEST

START_TEST(a_cursor_comes_back_to_its_own_tool_only)
{
	struct buf b = { 0 };
	struct segments s, deep, none = { .n = 0 };
	const struct cursor_place place = { 1ull << 40, 7 };
	struct cursor c;
	struct value v;
	struct slice raw;

	ck_assert_int_eq(segments_parse(slice_of("a/b c/\xc3\xa9"), &s), 0);
	cursor_pack(&b, 's', &s);
	raw = (struct slice){ b.p, b.n };
	v = value_next(&raw);
	ck_assert_int_eq(cursor_unpack(v.bytes, 'l', &c), -EINVAL);
	ck_assert_int_eq(cursor_unpack(v.bytes, 's', &c), 0);
	ck_assert(segments_equal(&c.at, &s));
	deep = c.at;
	ck_assert_uint_eq(deep.n, 3);
	cursor_finish(&c);
	buf_finish(&b);
	cursor_pack_place(&b, 'g', &none, place);
	raw = (struct slice){ b.p, b.n };
	v = value_next(&raw);
	ck_assert_int_eq(cursor_unpack(v.bytes, 'g', &c), -EINVAL);
	ck_assert_int_eq(cursor_unpack_place(v.bytes, 's', &c), -EINVAL);
	ck_assert_int_eq(cursor_unpack_place(v.bytes, 'g', &c), 0);
	ck_assert(c.at.n == 0 && c.place.offset == place.offset && c.place.line == 7);
	cursor_finish(&c);
	buf_finish(&b);
}
END_TEST

static json_t *
schema_of(const char *tool)
{
	const struct files_tool *t;
	json_error_t error;
	json_t *j = NULL;

	for (t = files_tools; t->name != NULL; t++)
		if (strcmp(t->name, tool) == 0)
			j = json_loads(t->schema, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(j != NULL, "%s: %s", tool, error.text);
	return j;
}

static bool
is_required(const json_t *schema, const char *name)
{
	json_t *v;
	size_t i;

	json_array_foreach (json_object_get(schema, "required"), i, v)
		if (strcmp(json_string_value(v), name) == 0)
			return true;
	return false;
}

static uint64_t
bound(const json_t *property, const char *key, uint64_t otherwise)
{
	const json_t *v = json_object_get(property, key);

	return v != NULL ? (uint64_t)json_integer_value(v) : otherwise;
}

enum {
	TOOLS = 0
#define FILES_TOOL(id, name, action, effect, idempotent, path, schema, doc) +1
#include "worker/files/tools.def"
};

/* What the broker checks and what we check must not drift apart. */
START_TEST(a_schema_says_what_the_argument_table_says)
{
	static const char *const types[] = { "string", "integer", "boolean" };
	const struct files_tool *t = &files_tools[_i];
	const struct arg_desc *d = args_of(t->name);
	json_t *schema = schema_of(t->name), *properties, *p;
	size_t n = 0;

	ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
	properties = json_object_get(schema, "properties");
	for (; d->name != NULL; d++, n++) {
		p = json_object_get(properties, d->name);
		ck_assert_msg(p != NULL, "%s: %s", t->name, d->name);
		ck_assert_str_eq(json_string_value(json_object_get(p, "type")), types[d->type]);
		ck_assert(is_required(schema, d->name) == d->required);
		if (d->type == ARG_BOOLEAN)
			continue;
		ck_assert_uint_eq(
		    bound(p, d->type == ARG_STRING ? "minLength" : "minimum", 0), d->min);
		ck_assert_uint_eq(bound(p, d->type == ARG_STRING ? "maxLength" : "maximum", 0), d->max);
	}
	ck_assert_uint_eq(json_object_size(properties), n);
	json_decref(schema);
}
END_TEST

static const struct {
	const char *tool, *arguments, *field;
} wrong[] = {
	{ "files.read", "{}", "path" },
	{ "files.read", "{'path':1}", "path" },
	{ "files.read", "{'path':null}", "path" },
	{ "files.read", "{'path':['a']}", "path" },
	{ "files.read", "{'path':'a','unknown':1}", "arguments" },
	{ "files.read", "{'path':'a','offset':-1}", "offset" },
	{ "files.read", "{'path':'a','offset':1.0}", "offset" },
	{ "files.read", "{'path':'a','offset':'1'}", "offset" },
	{ "files.read", "{'path':'a','offset':9007199254740992}", "offset" },
	{ "files.read", "{'path':'a','length':0}", "length" },
	{ "files.read", "{'path':'a','length':524289}", "length" },
	{ "files.list", "{'path':'a','limit':0}", "limit" },
	{ "files.list", "{'path':'a','limit':1001}", "limit" },
	{ "files.list", "{'path':'a','cursor':''}", "cursor" },
	{ "files.search", "{'path':'a'}", "name" },
	{ "files.search", "{'path':'a','name':''}", "name" },
	{ "files.search", "{'path':'','name':'['}", "name" },
	{ "files.write", "{'path':'a'}", "text" },
	{ "files.write", "{'path':'a','text':'','base64':''}", "text" },
	{ "files.write", "{'path':'a','base64':'AA'}", "base64" },
	{ "files.write", "{'path':'a','text':'','createOnly':1}", "createOnly" },
	{ "files.write", "{'path':'a','text':'','expect':'00'}", "expect" },
	{ "files.write",
	    "{'path':'a','text':'','expect':"
	    "'ABCDEF0000000000000000000000000000000000000000000000000000000000'}", "expect" },
	{ "files.write",
	    "{'path':'a','text':'','createOnly':true,'expect':"
	    "'0000000000000000000000000000000000000000000000000000000000000000'}", "expect" },
	{ "files.write", "{'path':'a/','text':''}", "path" },
	{ "files.grep", "{'path':''}", "text" },
	{ "files.grep", "{'path':'','text':''}", "text" },
	{ "files.grep", "{'path':'','text':'x','name':'['}", "name" },
	{ "files.grep", "{'path':'','text':'x','ignoreCase':'yes'}", "ignoreCase" },
	{ "files.delete", "{}", "path" },
	{ "files.delete", "{'path':'a','recursive':true}", "arguments" },
	{ "files.mkdir", "{'path':'a','parents':true}", "arguments" },
	{ "files.rename", "{'to':'a'}", "from" },
	{ "files.rename", "{'from':'a'}", "to" },
	{ "files.rename", "{'from':'a','to':'a'}", "to" },
	{ "files.rename", "{'from':'a','to':'b/c'}", "to" },
	{ "files.rename", "{'from':'../a','to':'b'}", "from" },
	{ "files.rename", "{'from':'..','to':'b'}", "from" },
	{ "files.rename", "{'from':'a','to':'.'}", "to" },
	{ "files.rename", "{'from':'a\\u0000','to':'b'}", "from" },
	{ "files.rename", "{'from':'a','to':' b'}", "to" },
	{ "files.rename", "{'from':'a','to':'.caisson-0123456789abcdef.tmp'}", "to" },
	{ "files.rename", "{'from':'.caisson-0123456789abcdef.tmp','to':'a'}", "from" },
	{ "files.rename",
	    "{'from':'a','to':'b','expect':"
	    "'0000000000000000000000000000000000000000000000000000000000000000'}", "expect" },
};

/* The place of each end, by the definition of one. */
static size_t
naive_find(const uint8_t *p, size_t n, const uint8_t *text, size_t length, bool fold, size_t from)
{
	size_t i, k;

	for (i = from; i + length <= n; i++) {
		for (k = 0; k < length; k++)
			if (p[i + k] != text[k] && !(fold && tolower(p[i + k]) == tolower(text[k])))
				break;
		if (k == length)
			return i + length;
	}
	return 0;
}

/* Few letters, so that beginnings of the text repeat; blocks that cut it anywhere. */
START_TEST(a_text_is_found_where_it_stands_whatever_cuts_the_bytes)
{
	static const uint8_t letters[] = { 'a', 'A', 'b', '\n', 0xe9, 0xc9 };
	uint8_t p[200], text[8];
	struct literal l;
	size_t i, n, length, end, at, block, state, taken;
	int round;

	srand(1);
	for (round = 0; round < 20000; round++) {
		n = (size_t)rand() % sizeof(p);
		length = 1 + (size_t)rand() % sizeof(text);
		for (i = 0; i < n; i++)
			p[i] = letters[rand() % (2 + round % 5)];
		for (i = 0; i < length; i++)
			text[i] = letters[rand() % (2 + round % 5)];
		literal_init(&l, (struct slice){ text, length }, round % 2);
		at = state = end = 0;
		while (at < n) {
			block = 1 + (size_t)rand() % (n - at);
			for (; (taken = literal_find(&l, p + at, block, &state)) > 0; block -= taken) {
				at += taken;
				end = naive_find(p, n, text, length, round % 2, end);
				ck_assert_uint_eq(at, end);
			}
			at += block;
		}
		ck_assert_uint_eq(naive_find(p, n, text, length, round % 2, end), 0);
	}
}
END_TEST

START_TEST(wrong_arguments_are_refused_by_name)
{
	ck_assert_code(
	    serve(wrong[_i].tool, "%s", wrong[_i].arguments), FILES_invalid_tool_arguments);
	ck_assert_str_eq(result.field, wrong[_i].field);
	ck_assert_uint_eq(count_names("."), 0);
}
END_TEST

START_TEST(a_tool_that_is_none_is_unavailable)
{
	ck_assert_code(serve("files.remove", "{}"), FILES_tool_unavailable);
	ck_assert_code(serve("files.rea", "{}"), FILES_tool_unavailable);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files_parts");
	TCase *pure = tcase_create("pure"), *args = tcase_create("arguments");

	tcase_add_loop_test(pure, a_pattern_means_what_its_row_says, 0, countof(globs));
	tcase_add_test(pure, a_hostile_pattern_costs_no_more_than_the_product);
	tcase_add_loop_test(pure, a_set_without_an_end_is_no_pattern, 0, countof(bad_globs));
	tcase_add_loop_test(pure, utf8_is_judged_as_its_row_says, 0, countof(utf8));
	tcase_add_test(pure, base64_comes_back_and_nothing_else_is_taken);
	tcase_add_loop_test(pure, what_is_no_path_is_refused, 0, countof(bad_paths));
	tcase_add_test(pure, a_path_has_64_names_of_255_bytes_and_no_more);
	tcase_add_test(pure, a_text_is_found_where_it_stands_whatever_cuts_the_bytes);
	tcase_add_test(pure, a_cursor_comes_back_to_its_own_tool_only);
	suite_add_tcase(s, pure);
	tcase_add_checked_fixture(args, fixture_setup, fixture_teardown);
	tcase_add_loop_test(args, a_schema_says_what_the_argument_table_says, 0, TOOLS);
	tcase_add_loop_test(args, wrong_arguments_are_refused_by_name, 0, countof(wrong));
	tcase_add_test(args, a_tool_that_is_none_is_unavailable);
	suite_add_tcase(s, args);
	return run_suite(s);
}
