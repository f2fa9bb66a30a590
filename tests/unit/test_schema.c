/* JSON Schema draft-07: what is offered, and that nothing else passes. */
#include "broker/schema.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/unit/json_value.h"

#define OBJECT(properties) "{'type':'object','properties':{" properties "}}"
#define A(property) OBJECT("'a':" property)

/* ---- declarations --------------------------------------------------------------------- */

static const struct {
	const char *schema, *err; /* NULL: it compiles */
} declarations[] = {
	{ "{}", NULL },
	{ "true", NULL },
	{ "{'$schema':'http://json-schema.org/draft-07/schema#','$id':'http://x/y','title':'t',"
	  "'description':'d','default':{},'examples':[1],'$comment':'c','readOnly':true,"
	  "'writeOnly':false,'format':'date','contentEncoding':'base64',"
	  "'contentMediaType':'image/png','x-order':[3]}",
	    NULL },
	{ "{'$schema':'https://json-schema.org/draft-07/schema','type':'object'}", NULL },
	{ "{'required':['a']}", NULL },
	{ "{'minLength':2.0}", NULL },
	{ "{'minLength':2,'maxLength':1}", NULL },
	{ "{'enum':[1,1.0]}", NULL },
	{ "{'properties':{'$ref':{'type':'string'},'$id':true,'':{},'a/b':false}}", NULL },
	{ "{'const':{'$ref':1},'default':{'$id':2},'enum':[{'unevaluatedItems':false}]}", NULL },
	{ "{'properties':{'a':{'$ref':'#'}}}", NULL },
	{ "{'$ref':'#/definitions/a','definitions':{'a':{'items':{'$ref':'#/definitions/a'}}}}",
	    NULL },
	{ "{'items':[{'$ref':'#/items/1'},{'propertyNames':{'$ref':'#'}}]}", NULL },

	{ "[]", "/: is not a schema" },
	{ "3", "/: is not a schema" },
	{ "null", "/: is not a schema" },
	{ A("1"), "/properties/a: is not a schema" },
	{ "{'not':'x'}", "/not: is not a schema" },
	{ "{'items':[true,3]}", "/items/1: is not a schema" },
	{ "{'anyOf':[{},{'allOf':[{'nosuch':1}]}]}",
	    "/anyOf/1/allOf/0/nosuch: is not a keyword of draft-07" },
	{ "{'a/b~c':1}", "/a~1b~0c: is not a keyword of draft-07" },
	{ "{'Type':'object'}", "/Type: is not a keyword of draft-07" },
	{ "{'xy':1}", "/xy: is not a keyword of draft-07" },

	/* other drafts */
	{ "{'$schema':'https://json-schema.org/draft/2020-12/schema'}",
	    "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$schema':'https://json-schema.org/draft/2019-09/schema'}",
	    "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$schema':'http://json-schema.org/draft-04/schema#'}",
	    "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$schema':'http://json-schema.org/schema#'}",
	    "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$schema':{}}", "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$ref':'#/definitions/a','$schema':'x','definitions':{'a':true}}",
	    "/$schema: is not draft-07, which is the one that is offered" },
	{ "{'$defs':{}}", "/$defs: is of another draft than draft-07" },
	{ "{'$anchor':'a'}", "/$anchor: is of another draft than draft-07" },
	{ "{'prefixItems':[]}", "/prefixItems: is of another draft than draft-07" },
	{ "{'unevaluatedProperties':false}",
	    "/unevaluatedProperties: is of another draft than draft-07" },
	{ "{'dependentRequired':{}}", "/dependentRequired: is of another draft than draft-07" },
	{ "{'contains':{},'minContains':2}", "/minContains: is of another draft than draft-07" },
	{ "{'id':'x'}", "/id: is of another draft than draft-07" },
	{ "{'minimum':1,'exclusiveMinimum':true}", "/exclusiveMinimum: is not a number" },

	/* what each keyword wants */
	{ "{'title':1}", "/title: is not a string" },
	{ "{'format':1}", "/format: is not a string" },
	{ "{'examples':{}}", "/examples: is not a list" },
	{ "{'readOnly':1}", "/readOnly: is neither true nor false" },
	{ "{'type':'strin'}", "/type: is not a type of draft-07" },
	{ "{'type':'any'}", "/type: is not a type of draft-07" },
	{ "{'type':3}", "/type: is not a type of draft-07" },
	{ "{'type':[]}", "/type: is a list of no types" },
	{ "{'type':['string',null]}", "/type: is not a type of draft-07" },
	{ A("{'minLength':-1}"), "/properties/a/minLength: is not a count" },
	{ A("{'maxLength':1.5}"), "/properties/a/maxLength: is not a count" },
	{ A("{'minItems':'1'}"), "/properties/a/minItems: is not a count" },
	{ A("{'maximum':true}"), "/properties/a/maximum: is not a number" },
	{ "{'multipleOf':0}", "/multipleOf: is not a number above 0" },
	{ "{'multipleOf':-0.5}", "/multipleOf: is not a number above 0" },
	{ "{'enum':[]}", "/enum: is not a list of at least one value" },
	{ "{'enum':'x'}", "/enum: is not a list of at least one value" },
	{ "{'anyOf':[]}", "/anyOf: is not a list of at least one schema" },
	{ "{'items':[]}", "/items: is not a list of at least one schema" },
	{ "{'oneOf':{}}", "/oneOf: is not a list of at least one schema" },
	{ "{'uniqueItems':1}", "/uniqueItems: is neither true nor false" },
	{ "{'properties':[]}", "/properties: is not a map" },
	{ "{'patternProperties':[]}", "/patternProperties: is not a map" },
	{ "{'definitions':[]}", "/definitions: is not a map" },
	{ "{'dependencies':[]}", "/dependencies: is not a map" },
	{ "{'dependencies':{'a':'b'}}", "/dependencies/a: is not a schema" },
	{ "{'dependencies':{'a':['b',1]}}", "/dependencies/a: is not a list of names" },
	{ "{'dependencies':{'a':['b','b']}}", "/dependencies/a: has the same name twice" },
	{ "{'required':'a'}", "/required: is not a list of names" },
	{ "{'required':[1]}", "/required: is not a list of names" },
	{ "{'required':['a','a']}", "/required: has the same name twice" },
	{ "{'required':true}", "/required: is not a list of names" },
	{ "{'pattern':1}", "/pattern: is not a string" },
	{ "{'pattern':'('}", "/pattern: has a group without its end" },
	{ "{'patternProperties':{'^(?=a)':true}}",
	    "/patternProperties/^(?=a): looks ahead or behind, which is not offered" },

	/* references */
	{ "{'$ref':1}", "/$ref: is not a string" },
	{ "{'$ref':''}", "/$ref: is not # or #/..., which is all that is offered" },
	{ "{'$ref':'#a'}", "/$ref: is not # or #/..., which is all that is offered" },
	{ A("{'$ref':'other.json#/definitions/a'}"),
	    "/properties/a/$ref: is not # or #/..., which is all that is offered" },
	{ A("{'$ref':'http://json-schema.org/draft-07/schema#'}"),
	    "/properties/a/$ref: is not # or #/..., which is all that is offered" },
	{ A("{'$id':'http://x/'}"), "/properties/a/$id: below the root is not offered" },
	{ "{'$id':1}", "/$id: is not a string" },
	{ A("{'$ref':'#/definitions/a'}"), "/properties/a/$ref: leads to no schema" },
	{ A("{'$ref':'#/properties'}"), "/properties/a/$ref: leads to no schema" },
	{ A("{'$ref':'#/type'}"), "/properties/a/$ref: leads to no schema" },
	{ A("{'$ref':'#/properties/a%2'}"), "/properties/a/$ref: leads to no schema" },
	{ A("{'$ref':'#/properties/a~2'}"), "/properties/a/$ref: leads to no schema" },
	{ A("{'$ref':'#/properties/a/'}"), "/properties/a/$ref: leads to no schema" },
	{ "{'items':[true],'not':{'$ref':'#/items/00'}}", "/not/$ref: leads to no schema" },
	{ "{'default':{'a':{}},'not':{'$ref':'#/default/a'}}", "/not/$ref: leads to no schema" },
	{ A("{'$ref':'#/properties/a'}"), "/properties/a/$ref: leads back to itself" },
	{ "{'definitions':{'a':{'$ref':'#/definitions/b'},'b':{'$ref':'#/definitions/a'}}}",
	    "/definitions/a/$ref: leads back to itself" },
	{ "{'$ref':'#'}", "/$ref: leads back to itself" },
	{ "{'allOf':[{'$ref':'#'}]}", "/: refers to itself for the same value" },
	{ "{'not':{'$ref':'#'}}", "/: refers to itself for the same value" },
	{ "{'dependencies':{'a':{'$ref':'#'}}}", "/: refers to itself for the same value" },
	{ "{'definitions':{'a':{'anyOf':[true,{'if':{'$ref':'#/definitions/a'}}]}}}",
	    "/definitions/a: refers to itself for the same value" },
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

	json_value(&b, A("{'type':'array','items':{'type':'string','pattern':'x)'}}"));
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

	json_value(&b, "{'properties':{'a':{'type':'string'}},'additionalProperties':false}");
	ck_assert_int_eq(schema_compile(buf_slice(&b), &s, err, sizeof(err)), 0);
	buf_finish(&b);
	pack_map(&b, 1);
	pack_str_n(&b, "a\0", 2);
	pack_str(&b, "x");
	ck_assert_int_eq(schema_check(s, buf_slice(&b), err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "/#1: is not allowed (schema /additionalProperties)");
	buf_finish(&b);
	schema_destroy(s);
}
END_TEST

/* Opens a map of `count` members p0, p1, ..., each of which `each` writes. */
static void
pack_many(struct buf *b, const char *keyword, unsigned count, const char *each)
{
	char name[16];
	unsigned i;

	pack_map(b, 1);
	pack_str(b, keyword);
	pack_map(b, count);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		pack_str(b, name);
		pack_raw(b, slice_of(each));
	}
}

/* allOf within allOf, so deep, by way of definitions. */
static void
pack_deep(struct buf *b, unsigned deep)
{
	char name[32];
	unsigned i;

	pack_map(b, 1);
	pack_str(b, "definitions");
	pack_map(b, deep);
	for (i = 0; i < deep; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		pack_str(b, name);
		if (i == deep - 1) {
			pack_bool(b, true);
			break;
		}
		snprintf(name, sizeof(name), "#/definitions/p%u", i + 1);
		pack_map(b, 1);
		pack_str(b, "allOf");
		pack_array(b, 1);
		pack_map(b, 1);
		pack_str(b, "$ref");
		pack_str(b, name);
	}
}

START_TEST(what_a_declaration_may_hold_is_bounded)
{
	static const char pattern[] = "\x81\xa7pattern\xac[0-9]{1,999}";
	static const struct {
		const char *keyword, *each;
		unsigned most;
		const char *err;
	} cases[] = {
		{ "properties", "\xc3", SCHEMA_NAMES_MAX, "/: names more than 512 members" },
		{ "dependencies", "\x91\xa1x", SCHEMA_NAMES_MAX / 2,
		    "/: names more than 512 members" },
		{ "definitions", "\xc3", SCHEMA_NODES_MAX - 1,
		    "is one schema too many: 4096 are offered" },
		{ "definitions", pattern, SCHEMA_PATTERNS_MAX / 1998,
		    "is one pattern too many: all of them are too large" },
		{ NULL, NULL, 16, "is composed more than 16 deep" },
	};
	struct schema *s = NULL;
	struct buf b = { 0 };
	char err[256];
	unsigned more;

	for (more = 0; more <= 1; more++) {
		if (cases[_i].keyword == NULL)
			pack_deep(&b, cases[_i].most + more);
		else
			pack_many(&b, cases[_i].keyword, cases[_i].most + more, cases[_i].each);
		err[0] = '\0';
		ck_assert_msg(schema_compile(buf_slice(&b), &s, err, sizeof(err)) ==
				  (more ? -EINVAL : 0),
		    "%s", err);
		if (more)
			ck_assert_ptr_nonnull(strstr(err, cases[_i].err));
		else
			schema_destroy(s);
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

int
main(void)
{
	Suite *s = suite_create("schema");
	TCase *declare = tcase_create("declarations");
	SRunner *r;
	int failed;

	tcase_add_loop_test(declare, a_declaration_compiles_or_says_where_and_why_not, 0,
	    countof(declarations));
	tcase_add_test(declare, an_error_never_leaves_its_buffer);
	tcase_add_test(declare, a_name_with_a_nul_is_another_name);
	tcase_add_loop_test(declare, what_a_declaration_may_hold_is_bounded, 0, 5);
	tcase_add_test(declare, properties_can_be_asked_for);
	suite_add_tcase(s, declare);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
