/* The schema of a tool's arguments: what is offered, and that nothing else passes. */
#include "broker/schema.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/unit/json_value.h"

#define OBJECT(properties) "{'type':'object','properties':{" properties "}}"

/* ---- declarations --------------------------------------------------------------------- */

static const struct {
	const char *schema, *err; /* NULL: it compiles */
} declarations[] = {
	{ "{'type':'object'}", NULL },
	{ OBJECT(""), NULL },
	{ OBJECT("'a':{'type':'string'}"), NULL },
	{ "{'$schema':'https://json-schema.org/draft/2020-12/"
	  "schema','type':'object','title':'t',"
	  "'description':'d','default':{},'required':['a'],'additionalProperties':false,"
	  "'properties':{'a':{'type':'string','title':'t','description':'d','default':3}}}",
	    NULL },
	{ OBJECT("'a':{'type':'integer','minimum':-1,'maximum':1.5}"), NULL },
	{ OBJECT("'a':{'type':'array','items':{'type':'string','enum':['x']}}"), NULL },
	{ OBJECT("'a':{'type':'object','description':'anything'}"), NULL },

	{ "[]", "/: is not a schema" },
	{ "3", "/: is not a schema" },
	{ "{}", "/: has no type" },
	{ "{'type':'string'}", "/type: is not object" },
	{ "{'type':['object']}", "/type: is not object" },
	{ "{'type':'object','anyOf':[]}", "/anyOf: is not a keyword that is offered here" },
	{ "{'type':'object','$ref':'#'}", "/$ref: is not a keyword that is offered here" },
	{ "{'type':'object','a/b~c':1}", "/a~1b~0c: is not a keyword that is offered here" },
	{ "{'type':'object','minProperties':1}",
	    "/minProperties: is not a keyword that is offered here" },
	{ "{'type':'object','title':1}", "/title: is not a string" },
	{ "{'type':'object','$schema':{}}", "/$schema: is not a string" },
	{ "{'type':'object','properties':[]}", "/properties: is not a map of schemas" },
	{ "{'type':'object','additionalProperties':{}}",
	    "/additionalProperties: is neither true nor false" },
	{ "{'type':'object','required':'a'}", "/required: is not a list of names" },
	{ "{'type':'object','required':[1]}", "/required: is not a list of names" },
	{ "{'type':'object','required':['a']}",
	    "/required: names something that properties does not have" },
	{ "{'required':['a','a'],'type':'object','properties':{'a':{'type':'string'}}}",
	    "/required: has the same name twice" },

	{ OBJECT("'a':true"), "/properties/a: is not a schema" },
	{ OBJECT("'a':{}"), "/properties/a: has no type" },
	{ OBJECT("'a':{'enum':['x']}"), "/properties/a: has no type" },
	{ OBJECT("'a':{'type':'null'}"),
	    "/properties/a/type: is not a type that is offered here" },
	{ OBJECT("'a':{'type':['string','null']}"),
	    "/properties/a/type: is not a type that is offered here" },
	{ OBJECT("'a':{'type':'string','pattern':'^a'}"),
	    "/properties/a/pattern: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'string','format':'uri'}"),
	    "/properties/a/format: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'string','const':'x'}"),
	    "/properties/a/const: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'string','minimum':1}"),
	    "/properties/a/minimum: says nothing about this type" },
	{ OBJECT("'a':{'type':'integer','maxLength':1}"),
	    "/properties/a/maxLength: says nothing about this type" },
	{ OBJECT("'a':{'type':'integer','enum':['x']}"),
	    "/properties/a/enum: says nothing about this type" },
	{ OBJECT("'a':{'type':'string','items':{'type':'string'}}"),
	    "/properties/a/items: says nothing about this type" },
	{ OBJECT("'a':{'type':'object','properties':{}}"),
	    "/properties/a/properties: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'array'}"), "/properties/a: has no items" },
	{ OBJECT("'a':{'type':'array','items':{'type':'integer'}}"),
	    "/properties/a/items/type: is not a type that is offered here" },
	{ OBJECT("'a':{'type':'array','items':[{'type':'string'}]}"),
	    "/properties/a/items: is not a schema" },
	{ OBJECT("'a':{'type':'array','items':{'type':'string','pattern':'x'}}"),
	    "/properties/a/items/pattern: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'array','maxItems':3,'items':{'type':'string'}}"),
	    "/properties/a/maxItems: is not a keyword that is offered here" },
	{ OBJECT("'a':{'type':'string','minLength':-1}"),
	    "/properties/a/minLength: is not a count" },
	{ OBJECT("'a':{'type':'string','maxLength':1.0}"),
	    "/properties/a/maxLength: is not a count" },
	{ OBJECT("'a':{'type':'string','minLength':2,'maxLength':1}"),
	    "/properties/a: can be met by no value" },
	{ OBJECT("'a':{'type':'number','minimum':2,'maximum':1.5}"),
	    "/properties/a: can be met by no value" },
	{ OBJECT("'a':{'type':'number','minimum':'2'}"),
	    "/properties/a/minimum: is not a number" },
	{ OBJECT("'a':{'type':'number','maximum':true}"),
	    "/properties/a/maximum: is not a number" },
	{ OBJECT("'a':{'type':'string','enum':[]}"),
	    "/properties/a/enum: is not a list of strings" },
	{ OBJECT("'a':{'type':'string','enum':'x'}"),
	    "/properties/a/enum: is not a list of strings" },
	{ OBJECT("'a':{'type':'string','enum':['x',1]}"),
	    "/properties/a/enum: is not a list of strings" },
	{ OBJECT("'a':{'type':'string','enum':['x','y','x']}"),
	    "/properties/a/enum: has the same string twice" },
	{ OBJECT("'a':{'type':'string','description':null}"),
	    "/properties/a/description: is not a string" },
	{ OBJECT("'':{'type':'string'}"),
	    "/properties/: has a name that is not 1 to 256 bytes without a NUL" },
};

START_TEST(a_declaration_compiles_or_says_where_and_why_not)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256] = "";
	int r;

	r = schema_compile(json_value(&b, declarations[_i].schema), &s, err, sizeof(err));
	if (declarations[_i].err == NULL) {
		ck_assert_msg(r == 0, "%s", err);
		ck_assert_ptr_nonnull(s);
	} else {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_ptr_null(s);
		ck_assert_str_eq(err, declarations[_i].err);
	}
	schema_destroy(s);
	buf_finish(&b);
}
END_TEST

START_TEST(an_error_never_leaves_its_buffer)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[300];
	size_t cap;

	json_value(&b, OBJECT("'a':{'type':'array','items':{'type':'string','pattern':'x'}}"));
	for (cap = 0; cap < 100; cap++) {
		memset(err, '#', sizeof(err));
		ck_assert_int_eq(
		    schema_compile((struct slice){ b.p, b.n }, &s, err, cap), -EINVAL);
		if (cap > 0)
			ck_assert_uint_le(strlen(err), cap - 1);
		ck_assert_int_eq(err[cap], '#');
	}
	buf_finish(&b);
}
END_TEST

START_TEST(a_name_with_a_nul_is_another_name)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256];

	pack_map(&b, 2);
	pack_str(&b, "type");
	pack_str(&b, "object");
	pack_str(&b, "properties");
	pack_map(&b, 1);
	pack_str_n(&b, "a\0b", 3);
	pack_raw(&b, slice_of("\x80"));
	ck_assert_int_eq(
	    schema_compile((struct slice){ b.p, b.n }, &s, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "without a NUL"));
	buf_finish(&b);

	json_value(&b, OBJECT("'a':{'type':'string'}"));
	ck_assert_int_eq(schema_compile((struct slice){ b.p, b.n }, &s, err, sizeof(err)), 0);
	buf_finish(&b);
	pack_map(&b, 1);
	pack_str_n(&b, "a\0", 2);
	pack_str(&b, "x");
	ck_assert_int_eq(
	    schema_check(s, (struct slice){ b.p, b.n }, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "argument 1 is not one of the tool's");
	buf_finish(&b);
	schema_destroy(s);
}
END_TEST

/* `count` properties p0, p1, ..., or one property with an enum of so many strings. */
static void
pack_many(struct buf *b, unsigned count, bool as_enum)
{
	char name[16];
	unsigned i;

	pack_map(b, 2);
	pack_str(b, "type");
	pack_str(b, "object");
	pack_str(b, "properties");
	pack_map(b, as_enum ? 1 : count);
	if (as_enum) {
		pack_str(b, "a");
		pack_map(b, 2);
		pack_str(b, "type");
		pack_str(b, "string");
		pack_str(b, "enum");
		pack_array(b, count);
	}
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		pack_str(b, name);
		if (as_enum)
			continue;
		pack_map(b, 1);
		pack_str(b, "type");
		pack_str(b, "boolean");
	}
}

START_TEST(what_a_check_may_cost_is_bounded)
{
	const unsigned most[] = { SCHEMA_PROPERTIES_MAX, SCHEMA_ENUM_MAX };
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256];
	unsigned i;

	for (i = 0; i < 2; i++) {
		pack_many(&b, most[i], i == 1);
		ck_assert_int_eq(
		    schema_compile((struct slice){ b.p, b.n }, &s, err, sizeof(err)), 0);
		schema_destroy(s);
		buf_finish(&b);
		pack_many(&b, most[i] + 1, i == 1);
		ck_assert_int_eq(
		    schema_compile((struct slice){ b.p, b.n }, &s, err, sizeof(err)), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err, "more than"));
		buf_finish(&b);
	}
}
END_TEST

START_TEST(properties_can_be_asked_for)
{
	enum schema_type type;
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256];
	bool required;

	json_value(&b, "{'type':'object','required':['b'],'properties':{'b':{'type':'string'},"
		       "'a':{'type':'integer'}}}");
	ck_assert_int_eq(schema_compile((struct slice){ b.p, b.n }, &s, err, sizeof(err)), 0);
	/* Nothing of the packed form is kept. */
	memset(b.p, 0xc1, b.n);
	buf_finish(&b);
	ck_assert_int_eq(schema_property(s, "a", 1, &type, &required), 0);
	ck_assert_int_eq(type, SCHEMA_INTEGER);
	ck_assert(!required);
	ck_assert_int_eq(schema_property(s, "b", 1, &type, &required), 0);
	ck_assert_int_eq(type, SCHEMA_STRING);
	ck_assert(required);
	ck_assert_int_eq(schema_property(s, "c", 1, &type, &required), -ENOENT);
	ck_assert_int_eq(schema_property(s, "", 0, &type, &required), -ENOENT);
	ck_assert_int_eq(schema_property(s, "ab", 2, &type, &required), -ENOENT);
	schema_destroy(s);
}
END_TEST

/* ---- calls ---------------------------------------------------------------------------- */

static const char everything[] =
    "{'type':'object','required':['path'],'properties':{"
    "'path':{'type':'string','minLength':1,'maxLength':4},"
    "'mode':{'type':'string','enum':['create','replace','']},"
    "'offset':{'type':'integer','minimum':-2,'maximum':9007199254740993},"
    "'ratio':{'type':'number','minimum':0.5,'maximum':2},"
    "'deep':{'type':'boolean'},"
    "'tags':{'type':'array','items':{'type':'string','maxLength':2}},"
    "'more':{'type':'object'}}}";

static const struct {
	const char *arguments, *err; /* NULL: it passes */
} calls[] = {
	{ "{'path':'a'}", NULL },
	{ "{'path':'abcd','mode':'create','offset':-2,'ratio':0.5,'deep':false,'tags':[],"
	  "'more':{}}",
	    NULL },
	{ "{'path':'\\u00e9\\u6f22\\ud83c\\udf0a!'}", NULL }, /* 4 characters, 10 bytes */
	{ "{'path':'a','mode':''}", NULL },
	{ "{'path':'a','offset':9007199254740993}", NULL },
	{ "{'path':'a','ratio':1}", NULL },
	{ "{'path':'a','ratio':2.0}", NULL },
	{ "{'path':'a','tags':['x','yy']}", NULL },
	{ "{'path':'a','more':{'grant':{'id':'forged'},'x':[null,1.5]}}", NULL }, /* TU-33 */

	{ "[]", "the arguments are not a map" },
	{ "'path'", "the arguments are not a map" },
	{ "null", "the arguments are not a map" },
	{ "{}", "path: is required" },
	{ "{'mode':'create'}", "path: is required" },
	{ "{'path':null}", "path: is not a string" },
	{ "{'path':1}", "path: is not a string" },
	{ "{'path':['a']}", "path: is not a string" },
	{ "{'path':''}", "path: is shorter than minLength" },
	{ "{'path':'abcde'}", "path: is longer than maxLength" },
	{ "{'path':'a','secret-value':1}", "argument 2 is not one of the tool's" },
	{ "{'':1,'path':'a'}", "argument 1 is not one of the tool's" },
	{ "{'path':'a','mode':'append'}", "mode: is not in enum" },
	{ "{'path':'a','mode':'creat'}", "mode: is not in enum" },
	{ "{'path':'a','mode':'create\\u0000'}", "mode: is not in enum" },
	{ "{'path':'a','offset':1.0}", "offset: is not an integer" },
	{ "{'path':'a','offset':'1'}", "offset: is not an integer" },
	{ "{'path':'a','offset':true}", "offset: is not an integer" },
	{ "{'path':'a','offset':-3}", "offset: is less than minimum" },
	{ "{'path':'a','offset':9007199254740994}", "offset: is more than maximum" },
	{ "{'path':'a','ratio':0.49}", "ratio: is less than minimum" },
	{ "{'path':'a','ratio':3}", "ratio: is more than maximum" },
	{ "{'path':'a','ratio':null}", "ratio: is not a number" },
	{ "{'path':'a','deep':0}", "deep: is not a boolean" },
	{ "{'path':'a','tags':'x'}", "tags: is not an array" },
	{ "{'path':'a','tags':['x',1]}", "tags: has an item that is not a string" },
	{ "{'path':'a','tags':[['x']]}", "tags: has an item that is not a string" },
	{ "{'path':'a','tags':['x','yyy']}", "tags: has an item that its schema refuses" },
	{ "{'path':'a','more':[]}", "more: is not an object" },
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

START_TEST(a_call_passes_or_names_argument_and_rule)
{
	struct schema *s = compile(everything);
	struct buf b = { 0 };
	char err[256] = "";
	int r;

	r = schema_check(s, json_value(&b, calls[_i].arguments), err, sizeof(err));
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

START_TEST(unknown_arguments_pass_only_where_that_is_said)
{
	struct schema *s = compile("{'type':'object','additionalProperties':true,"
				   "'properties':{'a':{'type':'string'}}}");
	struct buf b = { 0 };
	char err[256];

	ck_assert_int_eq(
	    schema_check(s, json_value(&b, "{'b':[1],'c':{},'a':'x'}"), err, sizeof(err)), 0);
	ck_assert_int_eq(
	    schema_check(s, json_value(&b, "{'b':[1],'a':1}"), err, sizeof(err)), -EINVAL);
	schema_destroy(s);
	s = compile("{'type':'object'}");
	ck_assert_int_eq(schema_check(s, json_value(&b, "{}"), err, sizeof(err)), 0);
	ck_assert_int_eq(schema_check(s, json_value(&b, "{'a':1}"), err, sizeof(err)), -EINVAL);
	schema_destroy(s);
	buf_finish(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("schema");
	TCase *declare = tcase_create("declarations"), *call = tcase_create("calls");
	SRunner *r;
	int failed;

	tcase_add_loop_test(declare, a_declaration_compiles_or_says_where_and_why_not, 0,
	    countof(declarations));
	tcase_add_test(declare, an_error_never_leaves_its_buffer);
	tcase_add_test(declare, a_name_with_a_nul_is_another_name);
	tcase_add_test(declare, what_a_check_may_cost_is_bounded);
	tcase_add_test(declare, properties_can_be_asked_for);
	suite_add_tcase(s, declare);
	tcase_add_loop_test(call, a_call_passes_or_names_argument_and_rule, 0, countof(calls));
	tcase_add_test(call, the_ends_of_64_bits_are_compared_exactly);
	tcase_add_test(call, unknown_arguments_pass_only_where_that_is_said);
	suite_add_tcase(s, call);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
