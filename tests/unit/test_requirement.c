/* From a call's arguments to what it needs: only by the declaration, only real paths. */
#include "broker/requirement.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/authority/set.h"
#include "common/limits.h"
#include "common/util.h"
#include "tests/unit/json_value.h"

static const char schema_text[] =
    "{'type':'object','required':['path','must'],'properties':{'path':{'type':'string'},"
    "'must':{'type':'string'},'name':{'type':'string'},'dir':{'type':'string'},"
    "'a':{'type':'string'},'depth':{'type':'integer'}}}";

static struct schema *
make_schema(void)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256] = "";

	ck_assert_msg(
	    schema_compile(json_value(&b, schema_text), &s, err, sizeof(err)) == 0, "%s", err);
	buf_finish(&b);
	return s;
}

/* ---- declarations --------------------------------------------------------------------- */

static const struct {
	const char *text, *err;
} templates[] = {
	{ "", NULL },
	{ ".", NULL },
	{ "docs", NULL },
	{ "{path}", NULL },
	{ "docs/{name}", NULL },
	{ "{dir}/{name}", NULL },
	{ "{dir}/sub/{name}/x", NULL },
	{ "{dir}/{dir}", NULL },
	{ "/docs", "a segment is empty" },
	{ "docs/", "a segment is empty" },
	{ "docs//{name}", "a segment is empty" },
	{ "docs/../{name}", "a segment is . or .." },
	{ "./docs", "a segment is . or .." },
	{ "{pth}", "{pth} is not an argument of the tool" },
	{ "{depth}", "{depth} is not an argument of type string" },
	{ "{}", "a placeholder is not a whole segment" },
	{ "x{name}", "a placeholder is not a whole segment" },
	{ "{name}.txt", "a placeholder is not a whole segment" },
	{ "{dir}{name}", "a placeholder is not a whole segment" },
	{ "{{name}}", "a placeholder is not a whole segment" },
	{ "{name", "a placeholder is not a whole segment" },
	{ "name}", "a placeholder is not a whole segment" },
	{ "{na/me}", "a placeholder is not a whole segment" },
	{ "a\\b", "a segment holds a separator or control character" },
	{ "{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}", NULL },
	{ "{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}", "has more than 8 placeholders" },
};

START_TEST(a_template_compiles_or_says_why_not)
{
	struct requirement_template *t = NULL;
	struct schema *s = make_schema();
	char err[256] = "";
	int r;

	r = requirement_compile(templates[_i].text, s, &t, err, sizeof(err));
	schema_destroy(s);
	if (templates[_i].err == NULL) {
		ck_assert_msg(r == 0, "%s", err);
	} else {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_ptr_null(t);
		ck_assert_str_eq(err, templates[_i].err);
	}
	requirement_destroy(t);
}
END_TEST

/* ---- calls ---------------------------------------------------------------------------- */

#define UNRESOLVED "tool_requirement_resolution_failed"
#define INVALID	   "invalid_request"

static const struct {
	const char *template, *arguments;
	const char *path; /* its packed form, as JSON; NULL: refused with code and err */
	const char *code, *err;
} calls[] = {
	{ "", "{'path':'x'}", "[]", NULL, NULL },
	{ "docs", "{'path':'x'}", "['docs']", NULL, NULL },
	{ "{path}", "{'path':'a/b.txt'}", "['a','b.txt']", NULL, NULL },
	{ "{path}", "{'path':'a/'}", "['a']", NULL, NULL },
	{ "{path}", "{'path':''}", "[]", NULL, NULL },
	{ "{path}", "{'path':'.'}", "[]", NULL, NULL },
	{ "{path}", "{'path':'{name}','name':'x'}", "['{name}']", NULL, NULL },
	{ "{path}", "{'path':'*'}", "['*']", NULL, NULL },
	{ "docs/{name}", "{'name':'a/b'}", "['docs','a','b']", NULL, NULL },
	{ "docs/{name}", "{}", "['docs']", NULL, NULL },
	{ "{dir}/{name}", "{'dir':'x/y','name':'z'}", "['x','y','z']", NULL, NULL },
	{ "{dir}/{name}", "{'name':'z'}", "['z']", NULL, NULL },
	{ "{dir}/{name}", "{}", "[]", NULL, NULL },
	{ "{dir}/{dir}", "{'dir':'x'}", "['x','x']", NULL, NULL },
	/* Arguments of which the template says nothing change nothing (TU-33). */
	{ "{path}", "{'requirement':{'path':['etc']},'path':'a'}", "['a']", NULL, NULL },

	{ "{path}", "{}", NULL, UNRESOLVED, "path: is required" },
	{ "{dir}/{must}", "{'dir':'x'}", NULL, UNRESOLVED, "must: is required" },
	{ "{path}", "{'path':null}", NULL, UNRESOLVED, "path: is not a string" },
	{ "{path}", "{'path':['a']}", NULL, UNRESOLVED, "path: is not a string" },
	{ "docs/{name}", "{'name':1}", NULL, UNRESOLVED, "name: is not a string" },
	{ "{path}", "[]", NULL, UNRESOLVED, "the arguments are not a map" },
	{ "docs", "'x'", NULL, UNRESOLVED, "the arguments are not a map" },
	{ "{path}", "{'path':'..'}", NULL, INVALID,
	    "path: is not a path: a segment is . or .." },
	{ "docs/{name}", "{'name':'../secret'}", NULL, INVALID,
	    "name: is not a path: a segment is . or .." },
	{ "{path}", "{'path':'docs/../secret'}", NULL, INVALID,
	    "path: is not a path: a segment is . or .." },
	{ "docs/{name}", "{'name':'/etc/shadow'}", NULL, INVALID,
	    "name: is not a path: it begins with a slash" },
	{ "{path}", "{'path':'a//b'}", NULL, INVALID,
	    "path: is not a path: a segment is empty" },
	{ "{path}", "{'path':'a\\u0000b'}", NULL, INVALID,
	    "path: is not a path: a segment holds a separator or control character" },
	{ "{path}", "{'path':'a\\nb'}", NULL, INVALID,
	    "path: is not a path: a segment holds a separator or control character" },
	{ "{path}", "{'path':'a\\\\b'}", NULL, INVALID,
	    "path: is not a path: a segment holds a separator or control character" },
	{ "{dir}/{name}", "{'dir':'x','name':'y/..'}", NULL, INVALID,
	    "name: is not a path: a segment is . or .." },
};

static struct requirement_template *
make_template(const char *text)
{
	struct requirement_template *t = NULL;
	struct schema *s = make_schema();
	char err[256] = "";

	ck_assert_msg(requirement_compile(text, s, &t, err, sizeof(err)) == 0, "%s", err);
	schema_destroy(s);
	return t;
}

/* The same path twice: once for the decision, once for the provider and the record. */
static void
assert_path(const struct resolved_requirement *r, const char *json)
{
	struct buf want = { 0 };
	struct slice in, list = json_value(&want, json);
	size_t i;

	ck_assert(slice_equal((struct slice){ r->path.p, r->path.n }, list));
	in = list;
	ck_assert_uint_eq(value_next(&in).count, r->requirement.path.n);
	for (i = 0; i < r->requirement.path.n; i++)
		ck_assert(slice_is(value_next(&in).bytes, r->requirement.path.segment[i]));
	ck_assert_str_eq(path_fault(&r->requirement.path), "");
	buf_finish(&want);
}

START_TEST(a_call_resolves_or_says_why_not)
{
	struct requirement_template *t = make_template(calls[_i].template);
	struct resolved_requirement r, moved;
	const char *code = NULL;
	struct buf b = { 0 };
	char err[256] = "";
	int ret;

	ret = requirement_resolve(t, "workspace", "read", json_value(&b, calls[_i].arguments),
	    &r, &code, err, sizeof(err));
	/* Nothing of the arguments is kept. */
	memset(b.p, 0xc1, b.n);
	buf_finish(&b);
	if (calls[_i].path != NULL) {
		ck_assert_msg(ret == 0, "%s", err);
		moved = r;
		assert_path(&moved, calls[_i].path);
		ck_assert_str_eq(moved.requirement.namespace, "workspace");
		ck_assert_str_eq(moved.requirement.action, "read");
		ck_assert_ptr_null(moved.requirement.owner); /* TU-37 */
		r = moved;
	} else {
		ck_assert_int_eq(ret, -EINVAL);
		ck_assert_str_eq(code, calls[_i].code);
		ck_assert_str_eq(err, calls[_i].err);
		ck_assert_ptr_null(r.memory);
		ck_assert_ptr_null(r.path.p);
	}
	requirement_finish(&r);
	requirement_finish(&r);
	requirement_destroy(t);
}
END_TEST

START_TEST(a_path_of_two_arguments_ends_at_64_segments)
{
	struct requirement_template *t = make_template("{dir}/{name}");
	struct resolved_requirement r;
	const char *code = NULL;
	char err[256] = "", half[2 * 40];
	unsigned i, extra;
	struct buf b = { 0 };
	int ret;

	for (i = 0; i < sizeof(half); i++)
		half[i] = i % 2 == 0 ? 'x' : '/';
	for (extra = 0; extra < 2; extra++) {
		pack_map(&b, 2);
		pack_str(&b, "dir");
		pack_str_n(&b, half, 2 * 32);
		pack_str(&b, "name");
		pack_str_n(&b, half, 2 * (32 + extra));
		ret = requirement_resolve(
		    t, "w", "read", (struct slice){ b.p, b.n }, &r, &code, err, sizeof(err));
		buf_finish(&b);
		ck_assert_int_eq(ret, extra == 0 ? 0 : -EINVAL);
		if (extra == 0)
			ck_assert_uint_eq(r.requirement.path.n, PATH_SEGMENTS_MAX);
		requirement_finish(&r);
	}
	ck_assert_str_eq(code, INVALID);
	ck_assert_str_eq(err, "the path has too many segments");
	requirement_destroy(t);
}
END_TEST

START_TEST(what_was_resolved_is_what_is_decided) /* TU-34, TU-35 */
{
	const char *docs[] = { "docs" }, *read[] = { "read" };
	const struct capability cap = { "workspace", NULL, { docs, 1 }, true, read, 1 };
	struct grant g = { .id = "g",
		.subject = "agent:a",
		.issuer = "human:h",
		.namespace = "default",
		.capabilities = &cap,
		.ncapabilities = 1 };
	struct context ctx = { "agent:a", "human:h", "human:h", "default", "work", 1, 0 };
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	static const struct {
		const char *arguments;
		enum verdict want;
	} cases[] = {
		{ "{'path':'docs/a'}", VERDICT_allowed },
		{ "{'path':'docs'}", VERDICT_allowed },
		{ "{'path':'docs2/a'}", VERDICT_no_matching_grant },
		{ "{'path':''}", VERDICT_no_matching_grant },
	};
	struct requirement_template *t = make_template("{path}");
	struct resolved_requirement r;
	const char *code;
	struct buf b = { 0 };
	char err[256];
	size_t i;

	ck_assert_int_eq(grant_set_add(set, &g), 0);
	ctx.revision = grant_set_revision(set);
	for (i = 0; i < countof(cases); i++) {
		ck_assert_int_eq(
		    requirement_resolve(t, "workspace", "read",
			json_value(&b, cases[i].arguments), &r, &code, err, sizeof(err)),
		    0);
		ck_assert_int_eq(
		    authority_decide(set, &ctx, &r.requirement, 2).verdict, cases[i].want);
		requirement_finish(&r);
	}
	grant_set_destroy(set);
	buf_finish(&b);
	requirement_destroy(t);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("requirement");
	TCase *declare = tcase_create("declarations"), *call = tcase_create("calls");
	SRunner *r;
	int failed;

	tcase_add_loop_test(
	    declare, a_template_compiles_or_says_why_not, 0, countof(templates));
	suite_add_tcase(s, declare);
	tcase_add_loop_test(call, a_call_resolves_or_says_why_not, 0, countof(calls));
	tcase_add_test(call, a_path_of_two_arguments_ends_at_64_segments);
	tcase_add_test(call, what_was_resolved_is_what_is_decided);
	suite_add_tcase(s, call);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
