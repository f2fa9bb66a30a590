/* What values a schema lets pass, what it says of others, and what a check costs at most. */
#include "broker/schema.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/unit/json_value.h"

#define OBJECT(properties) "{'type':'object','properties':{" properties "}}"

/* ---- values --------------------------------------------------------------------------- */

static const char tool[] =
    "{'type':'object','required':['path'],'additionalProperties':false,'properties':{"
    "'path':{'type':'string','minLength':1,'maxLength':4},"
    "'mode':{'type':'string','enum':['create','replace','']},"
    "'offset':{'type':'integer','minimum':-2,'maximum':9007199254740993},"
    "'ratio':{'type':'number','minimum':0.5,'exclusiveMaximum':2.5},"
    "'deep':{'type':['boolean','null']},"
    "'tags':{'type':'array','items':{'type':'string','maxLength':2}},"
    "'more':{'type':'object'}}}";

static const struct {
	const char *schema, *value, *err; /* NULL: it passes */
} calls[] = {
	{ tool, "{'path':'a'}", NULL },
	{ tool,
	    "{'path':'abcd','mode':'create','offset':-2,'ratio':0.5,'deep':false,'tags':[],"
	    "'more':{}}",
	    NULL },
	{ tool, "{'path':'\\u00e9\\u6f22\\ud83c\\udf0a!'}", NULL }, /* 4 characters, 10 bytes */
	{ tool, "{'path':'a','mode':''}", NULL },
	{ tool, "{'path':'a','offset':9007199254740993}", NULL },
	{ tool, "{'path':'a','offset':1.0}", NULL },
	{ tool, "{'path':'a','ratio':1,'deep':null}", NULL },
	{ tool, "{'path':'a','tags':['x','yy']}", NULL },
	{ tool, "{'path':'a','more':{'grant':{'id':'forged'},'x':[null,1.5]}}", NULL }, /* TU-33 */
	{ tool, "[]", "/: is not an object (schema /type)" },
	{ tool, "null", "/: is not an object (schema /type)" },
	{ tool, "{}", "/path: is required (schema /required)" },
	{ tool, "{'path':1}", "/path: is not a string (schema /properties/path/type)" },
	{ tool, "{'path':''}",
	    "/path: is shorter than minLength (schema /properties/path/minLength)" },
	{ tool, "{'path':'abcde'}",
	    "/path: is longer than maxLength (schema /properties/path/maxLength)" },
	{ tool, "{'path':'a','secret-value':1}",
	    "/#2: is not allowed (schema /additionalProperties)" },
	{ tool, "{'':1,'path':'a'}", "/#1: is not allowed (schema /additionalProperties)" },
	{ tool, "{'path':'a','mode':'creat'}", "/mode: is not in enum (schema /properties/mode/enum)" },
	{ tool, "{'path':'a','mode':'create\\u0000'}",
	    "/mode: is not in enum (schema /properties/mode/enum)" },
	{ tool, "{'path':'a','offset':1.5}",
	    "/offset: is not an integer (schema /properties/offset/type)" },
	{ tool, "{'path':'a','offset':true}",
	    "/offset: is not an integer (schema /properties/offset/type)" },
	{ tool, "{'path':'a','offset':-3}",
	    "/offset: is less than minimum (schema /properties/offset/minimum)" },
	{ tool, "{'path':'a','offset':9007199254740994}",
	    "/offset: is more than maximum (schema /properties/offset/maximum)" },
	{ tool, "{'path':'a','ratio':2.5}",
	    "/ratio: is not less than exclusiveMaximum (schema "
	    "/properties/ratio/exclusiveMaximum)" },
	{ tool, "{'path':'a','deep':0}",
	    "/deep: is of none of the types (schema /properties/deep/type)" },
	{ tool, "{'path':'a','tags':['x','yyy']}",
	    "/tags/1: is longer than maxLength (schema /properties/tags/items/maxLength)" },

	/* Draft-07 lets in what it does not name. */
	{ "{'properties':{'a':{'type':'string'}}}", "{'b':[1],'a':'x'}", NULL },
	{ "{'type':'object'}", "{'a':1}", NULL },
	{ "false", "1", "/: is not allowed (schema /)" },
	{ "{'minLength':5,'minimum':9,'minItems':9,'required':['x'],'pattern':'y'}", "null", NULL },

	/* numbers */
	{ "{'type':'integer'}", "1e300", NULL },
	{ "{'type':'integer'}", "-0.0", NULL },
	{ "{'const':1}", "1.0", NULL },
	{ "{'const':0}", "-0.0", NULL },
	{ "{'const':0}", "false", "/: is not const (schema /const)" },
	{ "{'const':[{'a':2,'b':[1.0]}]}", "[{'b':[1],'a':2.0}]", NULL },
	{ "{'const':[{'a':2,'b':[1]}]}", "[{'b':[true],'a':2}]", "/: is not const (schema /const)" },
	{ "{'enum':[9007199254740992]}", "9007199254740992.0", NULL },
	{ "{'enum':[9007199254740993]}", "9007199254740992.0", "/: is not in enum (schema /enum)" },
	{ "{'enum':[-9223372036854775807,1e19]}", "1e19", NULL },
	{ "{'multipleOf':3}", "9223372036854775806", NULL },
	{ "{'multipleOf':3}", "9223372036854775807",
	    "/: is no multiple of multipleOf (schema /multipleOf)" },
	{ "{'multipleOf':3}", "-9.0", NULL },
	{ "{'multipleOf':0.1}", "0.3", NULL },
	{ "{'multipleOf':0.1}", "1", NULL },
	{ "{'multipleOf':0.01}", "19.99", NULL },
	{ "{'multipleOf':0.01}", "19.995", "/: is no multiple of multipleOf (schema /multipleOf)" },
	{ "{'multipleOf':0.0001}", "0.0075", NULL },
	{ "{'multipleOf':0.0001}", "0.00751",
	    "/: is no multiple of multipleOf (schema /multipleOf)" },
	{ "{'multipleOf':0.123456789}", "1e308",
	    "/: is no multiple of multipleOf (schema /multipleOf)" },
	{ "{'multipleOf':1e-8}", "12391239123", NULL },
	{ "{'multipleOf':5e-324}", "1e308", NULL },
	{ "{'multipleOf':1e308}", "5e-324", "/: is no multiple of multipleOf (schema /multipleOf)" },
	{ "{'multipleOf':1e308}", "0", NULL },
	{ "{'multipleOf':2.5}", "7.5", NULL },

	/* arrays */
	{ "{'items':[{'type':'null'}],'additionalItems':false}", "[null]", NULL },
	{ "{'items':[{'type':'null'}],'additionalItems':false}", "[null,1]",
	    "/1: is not allowed (schema /additionalItems)" },
	{ "{'items':{},'additionalItems':false}", "[1,2]", NULL },
	{ "{'contains':{'type':'null'}}", "[]",
	    "/: has no item as contains wants one (schema /contains)" },
	{ "{'contains':{'type':'null'}}", "[1,null]", NULL },
	{ "{'uniqueItems':true}", "[1,2,true,'1',[1],{'a':1}]", NULL },
	{ "{'uniqueItems':true}", "[{'a':1,'b':2},{'b':2.0,'a':1}]",
	    "/: has two items that are equal (schema /uniqueItems)" },

	/* objects */
	{ "{'patternProperties':{'^x':{'type':'null'}},'additionalProperties':{'type':'string'}}",
	    "{'xa':null,'b':'c'}", NULL },
	{ "{'patternProperties':{'^x':{'type':'null'}},'additionalProperties':{'type':'string'}}",
	    "{'b':'c','xa':1}", "/#2: is not null (schema /patternProperties/^x/type)" },
	{ "{'properties':{'xa':{}},'patternProperties':{'^x':{'type':'null'}}}", "{'xa':1}",
	    "/xa: is not null (schema /patternProperties/^x/type)" },
	{ "{'propertyNames':{'enum':['a','b']}}", "{'a':1,'secret':2}",
	    "/#2: is not in enum (schema /propertyNames/enum)" },
	{ "{'dependencies':{'a':['b','c']}}", "{'a':1,'c':2}",
	    "/b: is required by another member (schema /dependencies)" },
	{ "{'dependencies':{'a':{'maxProperties':1}}}", "{'a':1,'c':2}",
	    "/: has more members than maxProperties (schema /dependencies/a/maxProperties)" },
	{ "{'dependencies':{'a':{'maxProperties':1}}}", "{'b':1,'c':2}", NULL },

	/* compositions */
	{ "{'anyOf':[{'type':'string'},{'minimum':3}]}", "2", "/: meets none of anyOf (schema /anyOf)" },
	{ "{'anyOf':[{'type':'string'},{'minimum':3}]}", "3", NULL },
	{ "{'oneOf':[{'type':'integer'},{'minimum':3}]}", "3",
	    "/: meets more than one of oneOf (schema /oneOf)" },
	{ "{'oneOf':[{'type':'integer'},{'minimum':3}]}", "3.5", NULL },
	{ "{'not':{'type':'integer'}}", "3", "/: meets what it must not (schema /not)" },
	{ "{'if':{'const':1},'then':false,'else':{'const':2}}", "1", "/: is not allowed (schema /then)" },
	{ "{'if':{'const':1},'then':false,'else':{'const':2}}", "3",
	    "/: is not const (schema /else/const)" },
	{ "{'$ref':'#/definitions/a~1b%25%7E0','definitions':{'a/b%~':{'type':'null'}}}", "1",
	    "/: is not null (schema /definitions/a~1b%~0/type)" },
	/* What stands beside $ref is ignored: so says the draft. */
	{ "{'properties':{'a':{'$ref':'#/definitions/a','maxItems':0}},'definitions':{'a':true}}",
	    "{'a':[1]}", NULL },
	{ "{'properties':{'a':{'$ref':'#'}},'additionalProperties':false}", "{'a':{'a':{'b':1}}}",
	    "/a/a/#1: is not allowed (schema /additionalProperties)" },
};

static struct schema *
compile(const char *text)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256] = "";

	ck_assert_msg(
	    schema_compile(json_value(&b, text), &s, err, sizeof(err)) == 0, "%s", err);
	buf_finish(&b);
	return s;
}

START_TEST(a_value_passes_or_names_place_and_rule)
{
	struct schema *s = compile(calls[_i].schema);
	struct buf b = { 0 };
	char err[256] = "";
	int r;

	r = schema_check(s, json_value(&b, calls[_i].value), err, sizeof(err));
	if (calls[_i].err == NULL) {
		ck_assert_msg(r == 0, "%s", err);
	} else {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_str_eq(err, calls[_i].err);
	}
	buf_finish(&b);
	schema_destroy(s);
}
END_TEST

START_TEST(the_ends_of_64_bits_are_compared_exactly)
{
	struct schema *s =
	    compile(OBJECT("'a':{'type':'number','maximum':9223372036854775807}"));
	const uint64_t limit = INT64_MAX;
	struct buf b = { 0 };
	char err[256];

	pack_map(&b, 1);
	pack_str(&b, "a");
	pack_uint(&b, limit);
	ck_assert_int_eq(schema_check(s, (struct slice){ b.p, b.n }, err, sizeof(err)), 0);
	buf_finish(&b);
	pack_map(&b, 1);
	pack_str(&b, "a");
	pack_uint(&b, limit + 1);
	ck_assert_int_eq(
	    schema_check(s, (struct slice){ b.p, b.n }, err, sizeof(err)), -EINVAL);
	buf_finish(&b);
	pack_map(&b, 1);
	pack_str(&b, "a");
	pack_real(&b, 9223372036854775808.0);
	ck_assert_int_eq(
	    schema_check(s, (struct slice){ b.p, b.n }, err, sizeof(err)), -EINVAL);
	buf_finish(&b);
	schema_destroy(s);
}
END_TEST

START_TEST(bytes_are_of_no_type)
{
	struct schema *any = compile("{}"), *listed = compile("{'type':['null','boolean',"
		"'number','string','array','object']}");
	struct buf b = { 0 };
	char err[256];

	pack_bin(&b, "x", 1);
	ck_assert_int_eq(schema_check(any, buf_slice(&b), err, sizeof(err)), 0);
	ck_assert_int_eq(schema_check(listed, buf_slice(&b), err, sizeof(err)), -EINVAL);
	buf_finish(&b);
	schema_destroy(any);
	schema_destroy(listed);
}
END_TEST

/* ---- what a check may cost ------------------------------------------------------------ */

/* An array of `n` integers that differ, or of one text of so many a. */
static void
pack_large(struct buf *b, unsigned n, bool text)
{
	unsigned i;

	if (text) {
		char *a = malloc(n);

		ck_assert_ptr_nonnull(a);
		memset(a, 'a', n);
		pack_str_n(b, a, n);
		free(a);
		return;
	}
	pack_array(b, n);
	for (i = 0; i < n; i++)
		pack_uint(b, i);
}

/* What no bound but that of steps would end, and what is large and sound. */
static const struct {
	const char *schema;
	unsigned n;
	bool text, costly;
} costs[] = {
	{ "{'uniqueItems':true}", 32000, false, false },
	{ "{'items':{'type':'integer','multipleOf':1,'minimum':0}}", 32000, false, false },
	{ "{'items':{'enum':[{},[],1.5]}}", 1, false, false },
	{ "{'minLength':100000}", 200000, true, false },
	{ "{'pattern':'^[\\\\s\\\\S]*$'}", 200000, true, false },
	{ "{'pattern':'^(a|[b-z])*$'}", 60000, true, false },
	{ "{'pattern':'(x+x+)+y'}", 60000, true, false },
	{ "{'pattern':'^(a+)+$'}", 60000, true, false },
	{ "{'pattern':'(a?){500}b'}", 60000, true, true },
	{ "{'pattern':'([a-z]{1,60}){60}[0-9]'}", 60000, true, true },
	{ "{'definitions':{'a':{'anyOf':[{'$ref':'#/definitions/b'},{'$ref':'#/definitions/b'}]},"
	  "'b':{'anyOf':[{'$ref':'#/definitions/c'},{'$ref':'#/definitions/c'}]},"
	  "'c':{'anyOf':[{'$ref':'#/definitions/d'},{'$ref':'#/definitions/d'}]},"
	  "'d':{'anyOf':[{'$ref':'#/definitions/e'},{'$ref':'#/definitions/e'}]},"
	  "'e':{'anyOf':[{'$ref':'#/definitions/f'},{'$ref':'#/definitions/f'}]},"
	  "'f':{'uniqueItems':true,'maxItems':9}},'$ref':'#/definitions/a'}",
	    1000, false, false },
	{ "{'allOf':[{'contains':{'const':-1}},{'contains':{'const':-2}}],'uniqueItems':true}", 9,
	    false, false },
};

START_TEST(a_check_ends_whatever_schema_and_value)
{
	struct schema *s = compile(costs[_i].schema);
	struct buf b = { 0 };
	char err[256] = "";

	pack_large(&b, costs[_i].n, costs[_i].text);
	schema_check(s, buf_slice(&b), err, sizeof(err));
	ck_assert_msg(
	    (strstr(err, "too costly") != NULL) == costs[_i].costly, "%s", err);
	buf_finish(&b);
	schema_destroy(s);
}
END_TEST

/* Two branches at each level of the value: 2^29 ways, but for the bound. */
START_TEST(branches_at_every_level_are_too_costly_and_never_a_pass)
{
	struct schema *s = compile("{'anyOf':[{'items':{'$ref':'#'},'maxItems':1,'contains':true},"
				   "{'items':{'$ref':'#'},'maxItems':1,'contains':{}}]}");
	struct schema *negated = compile("{'not':{'$ref':'#/definitions/a'},'definitions':{'a':"
		"{'anyOf':[{'items':{'$ref':'#/definitions/a'},'minItems':1},"
		"{'items':{'$ref':'#/definitions/a'},'minLength':1,'minItems':1}]}}}");
	struct buf b = { 0 };
	char err[256];
	unsigned i;

	for (i = 0; i < VALUE_DEPTH_MAX - 2; i++)
		pack_array(&b, 1);
	pack_array(&b, 0);
	ck_assert_int_eq(schema_check(s, buf_slice(&b), err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "/: the schema is too costly for a value of that size");
	ck_assert_int_eq(schema_check(negated, buf_slice(&b), err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "/: the schema is too costly for a value of that size");
	buf_finish(&b);
	schema_destroy(s);
	schema_destroy(negated);
}
END_TEST

START_TEST(the_deepest_recursion_is_had)
{
	struct schema *s;
	struct buf b = { 0 }, schema = { 0 };
	char err[256];
	unsigned i;

	/* Ten allOf, then the items: the same again. */
	for (i = 0; i < 10; i++) {
		pack_map(&schema, 1);
		pack_str(&schema, "allOf");
		pack_array(&schema, 1);
	}
	pack_map(&schema, 1);
	pack_str(&schema, "items");
	pack_map(&schema, 1);
	pack_str(&schema, "$ref");
	pack_str(&schema, "#");
	ck_assert_int_eq(schema_compile(buf_slice(&schema), &s, err, sizeof(err)), 0);
	for (i = 0; i < VALUE_DEPTH_MAX - 1; i++)
		pack_array(&b, 1);
	pack_array(&b, 0);
	ck_assert_int_eq(schema_check(s, buf_slice(&b), err, sizeof(err)), 0);
	buf_finish(&b);
	buf_finish(&schema);
	schema_destroy(s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("schema_check");
	TCase *call = tcase_create("values");
	SRunner *r;
	int failed;

	tcase_add_loop_test(call, a_value_passes_or_names_place_and_rule, 0, countof(calls));
	tcase_add_test(call, the_ends_of_64_bits_are_compared_exactly);
	tcase_add_test(call, bytes_are_of_no_type);
	tcase_add_loop_test(call, a_check_ends_whatever_schema_and_value, 0, countof(costs));
	tcase_add_test(call, branches_at_every_level_are_too_costly_and_never_a_pass);
	tcase_add_test(call, the_deepest_recursion_is_had);
	suite_add_tcase(s, call);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
