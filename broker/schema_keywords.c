/*
 * schema_keywords: what each keyword of draft-07 makes of its value.
 */
#include <errno.h>
#include <stdlib.h>

#include "broker/schema_compile.h"
#include "common/util.h"

typedef int (*read_fn)(
    struct compiler *c, struct parts *p, const struct where *w, const struct value *v);

/* ---- numbers and texts ---------------------------------------------------------------- */

static int
read_text(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	(void)p;
	return v->type == VALUE_STR ? 0 : compile_fail(c, w, "is not a string");
}

static int
read_boolean(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	(void)p;
	return v->type == VALUE_BOOL ? 0 : compile_fail(c, w, "is neither true nor false");
}

static int
read_anything(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	(void)c, (void)p, (void)w, (void)v;
	return 0;
}

static int
read_examples(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	(void)p;
	return v->type == VALUE_ARRAY ? 0 : compile_fail(c, w, "is not a list");
}

static int
count_of(struct compiler *c, const struct where *w, const struct value *v, uint64_t *ret)
{
	if (v->type == VALUE_UINT)
		*ret = v->uint;
	else if (v->type == VALUE_FLOAT && v->real >= 0 && v->real < 9007199254740992.0 &&
		 (double)(uint64_t)v->real == v->real)
		*ret = (uint64_t)v->real; /* 2.0 */
	else
		return compile_fail(c, w, "is not a count");
	return 0;
}

#define COUNT(keyword, rules, field)                                                           \
	static int read_##keyword(                                                             \
	    struct compiler *c, struct parts *p, const struct where *w, const struct value *v) \
	{                                                                                      \
		p->used |= (rules);                                                            \
		return count_of(c, w, v, &p->field);                                           \
	}
COUNT(min_length, RULES_TEXT, text.min)
COUNT(max_length, RULES_TEXT, text.max)
COUNT(min_items, RULES_ARRAY, array.min)
COUNT(max_items, RULES_ARRAY, array.max)
COUNT(min_properties, RULES_OBJECT, object.min)
COUNT(max_properties, RULES_OBJECT, object.max)

#define NUMBER(keyword)                                                                        \
	static int read_##keyword(                                                             \
	    struct compiler *c, struct parts *p, const struct where *w, const struct value *v) \
	{                                                                                      \
		if (!value_is_number(v))                                                       \
			return compile_fail(c, w, "is not a number");                          \
		p->used |= RULES_NUMBER;                                                       \
		p->number.has_##keyword = true;                                                \
		p->number.keyword = value_number(v);                                           \
		return 0;                                                                      \
	}
NUMBER(minimum)
NUMBER(maximum)
NUMBER(above)
NUMBER(below)

static int
read_multiple(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	if (!value_is_number(v) || value_number(v) <= 0)
		return compile_fail(c, w, "is not a number above 0");
	p->used |= RULES_NUMBER;
	p->number.has_multiple = true;
	p->number.multiple = value_decimal(v);
	return 0;
}

static int
read_pattern(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	if (v->type != VALUE_STR)
		return compile_fail(c, w, "is not a string");
	p->used |= RULES_TEXT;
	return compile_pattern(c, w, v->bytes, &p->text.pattern);
}

/* ---- any value ------------------------------------------------------------------------ */

static unsigned
kinds_of(const struct value *v)
{
	static const struct {
		const char *name;
		unsigned kinds;
	} types[] = { { "null", KIND_NULL }, { "boolean", KIND_BOOLEAN },
		{ "integer", KIND_INTEGER }, { "number", KIND_NUMBER },
		{ "string", KIND_STRING }, { "array", KIND_ARRAY }, { "object", KIND_OBJECT } };
	size_t i;

	for (i = 0; v->type == VALUE_STR && i < countof(types); i++)
		if (slice_is(v->bytes, types[i].name))
			return types[i].kinds;
	return 0;
}

static int
read_type(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	static const char none[] = "is not a type of draft-07";
	struct slice in = v->raw;
	struct value one;
	unsigned kinds;
	uint32_t i;

	if (v->type != VALUE_ARRAY) {
		p->node->kinds = (uint8_t)kinds_of(v);
		return p->node->kinds != 0 ? 0 : compile_fail(c, w, none);
	}
	if (v->count == 0)
		return compile_fail(c, w, "is a list of no types");
	p->node->kinds = 0;
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		one = value_skip(&in);
		kinds = kinds_of(&one);
		if (kinds == 0)
			return compile_fail(c, w, none);
		p->node->kinds |= (uint8_t)kinds;
	}
	return 0;
}

static int
compare_values(const void *a, const void *b)
{
	return schema_order(*(const struct slice *)a, *(const struct slice *)b);
}

/* Makes a set of `count` values at the front of `in`. */
static int
make_set(struct compiler *c, struct slice in, uint32_t count, struct value_set *ret)
{
	struct buf b = { 0 };
	uint32_t i;
	int r = 0;

	ret->value = zone_alloc(&c->schema->zone, count, sizeof(*ret->value));
	if (ret->value == NULL)
		return -ENOMEM;
	for (i = 0; i < count && r == 0; i++) {
		b.n = 0;
		r = value_equal_form(value_skip(&in).raw, &b);
		if (r < 0)
			break;
		ret->value[i] = zone_bytes(&c->schema->zone, buf_slice(&b));
		if (ret->value[i].p == NULL)
			r = -ENOMEM;
	}
	buf_finish(&b);
	if (r == 0 && heapsort(ret->value, count, sizeof(*ret->value), compare_values) < 0)
		r = -ENOMEM;
	ret->n = count;
	return r;
}

static int
read_enum(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	struct slice in = v->raw;

	if (v->type != VALUE_ARRAY || v->count == 0)
		return compile_fail(c, w, "is not a list of at least one value");
	p->used |= RULES_ANY;
	value_open(&in);
	return make_set(c, in, v->count, &p->any.choices);
}

static int
read_const(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	(void)w;
	p->used |= RULES_ANY;
	return make_set(c, v->raw, 1, &p->any.constant);
}

/* ---- schemas -------------------------------------------------------------------------- */

/* A schema of its own. */
#define SCHEMA(keyword, rules, field)                                                          \
	static int read_##keyword(                                                             \
	    struct compiler *c, struct parts *p, const struct where *w, const struct value *v) \
	{                                                                                      \
		p->used |= (rules);                                                            \
		return compile_node(c, w, v, &p->field);                                       \
	}
SCHEMA(not, RULES_ANY, any.not )
SCHEMA(if, RULES_ANY, any.condition)
SCHEMA(then, RULES_ANY, any.then)
SCHEMA(else, RULES_ANY, any.otherwise)
SCHEMA(contains, RULES_ARRAY, array.contains)
SCHEMA(additional_items, RULES_ARRAY, array.rest)
SCHEMA(additional, RULES_OBJECT, object.additional)
SCHEMA(property_names, RULES_OBJECT, object.each_name)

#define LIST(keyword, field)                                                                   \
	static int read_##keyword(                                                             \
	    struct compiler *c, struct parts *p, const struct where *w, const struct value *v) \
	{                                                                                      \
		if (v->type != VALUE_ARRAY || v->count == 0)                                   \
			return compile_fail(c, w, "is not a list of at least one schema");     \
		p->used |= RULES_ANY;                                                          \
		return compile_list(c, w, v, &p->field);                                       \
	}
LIST(all_of, any.all)
LIST(any_of, any.any)
LIST(one_of, any.one)

static int
read_items(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	p->used |= RULES_ARRAY;
	if (v->type == VALUE_ARRAY && v->count == 0)
		return compile_fail(c, w, "is not a list of at least one schema");
	if (v->type == VALUE_ARRAY)
		return compile_list(c, w, v, &p->array.first);
	return compile_node(c, w, v, &p->array.each);
}

static int
read_unique(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	p->used |= RULES_ARRAY;
	p->array.unique = v->type == VALUE_BOOL && v->boolean;
	return read_boolean(c, p, w, v);
}

static int
take_map(struct compiler *c, const struct where *w, const struct value *v, struct value *ret)
{
	if (v->type != VALUE_MAP)
		return compile_fail(c, w, "is not a map");
	*ret = *v;
	return 0;
}

static int
read_properties(
    struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	p->used |= RULES_OBJECT;
	return take_map(c, w, v, &p->properties);
}

static int
read_dependencies(
    struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	p->used |= RULES_OBJECT;
	return take_map(c, w, v, &p->dependencies);
}

static int
read_required(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	if (v->type != VALUE_ARRAY)
		return compile_fail(c, w, "is not a list of names");
	p->used |= RULES_OBJECT;
	p->required = *v;
	return 0;
}

static int
read_pattern_properties(
    struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	struct object_rules *o = &p->object;
	struct slice in = v->raw, key;
	const struct where *at;
	struct name_pattern *one;
	struct value part;
	int r = 0;

	if (v->type != VALUE_MAP)
		return compile_fail(c, w, "is not a map");
	p->used |= RULES_OBJECT;
	o->patterns = zone_alloc(&c->schema->zone, v->count, sizeof(*o->patterns));
	if (o->patterns == NULL)
		return -ENOMEM;
	value_open(&in);
	while (o->npatterns < v->count && r == 0) {
		key = value_key(&in);
		part = value_skip(&in);
		at = compile_where(c, w, key);
		if (at == NULL)
			return -ENOMEM;
		one = &o->patterns[o->npatterns++];
		r = compile_pattern(c, at, key, &one->pattern);
		if (r == 0)
			r = compile_node(c, at, &part, &one->node);
	}
	return r;
}

static int
read_definitions(
    struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	struct schema_node *node;
	struct slice in = v->raw, key;
	const struct where *at;
	struct value part;
	uint32_t i;
	int r = 0;

	(void)p;
	if (v->type != VALUE_MAP)
		return compile_fail(c, w, "is not a map");
	value_open(&in);
	for (i = 0; i < v->count && r == 0; i++) {
		key = value_key(&in);
		part = value_skip(&in);
		at = compile_where(c, w, key);
		r = at == NULL ? -ENOMEM : compile_node(c, at, &part, &node);
	}
	return r;
}

/* ---- the document --------------------------------------------------------------------- */

static int
read_schema(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	static const char *const drafts[] = { "http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-07/schema",
		"https://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft-07/schema" };
	size_t i;

	(void)p;
	for (i = 0; v->type == VALUE_STR && i < countof(drafts); i++)
		if (slice_is(v->bytes, drafts[i]))
			return 0;
	return compile_fail(c, w, "is not draft-07, which is the one that is offered");
}

static int
read_id(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	if (w->up != NULL)
		return compile_fail(c, w, "below the root is not offered");
	return read_text(c, p, w, v);
}

static int
read_ref(struct compiler *c, struct parts *p, const struct where *w, const struct value *v)
{
	if (v->type != VALUE_STR)
		return compile_fail(c, w, "is not a string");
	if (v->bytes.n == 0 || v->bytes.p[0] != '#' || (v->bytes.n > 1 && v->bytes.p[1] != '/'))
		return compile_fail(c, w, "is not # or #/..., which is all that is offered");
	p->node->ref_text = v->bytes;
	return 0;
}

/* ---- the table ------------------------------------------------------------------------ */

static const struct {
	const char *name;
	read_fn read;
} keywords[] = {
	{ "type", read_type },
	{ "description", read_text },
	{ "properties", read_properties },
	{ "required", read_required },
	{ "additionalProperties", read_additional },
	{ "enum", read_enum },
	{ "const", read_const },
	{ "items", read_items },
	{ "minLength", read_min_length },
	{ "maxLength", read_max_length },
	{ "pattern", read_pattern },
	{ "minimum", read_minimum },
	{ "maximum", read_maximum },
	{ "exclusiveMinimum", read_above },
	{ "exclusiveMaximum", read_below },
	{ "multipleOf", read_multiple },
	{ "additionalItems", read_additional_items },
	{ "minItems", read_min_items },
	{ "maxItems", read_max_items },
	{ "uniqueItems", read_unique },
	{ "contains", read_contains },
	{ "patternProperties", read_pattern_properties },
	{ "propertyNames", read_property_names },
	{ "minProperties", read_min_properties },
	{ "maxProperties", read_max_properties },
	{ "dependencies", read_dependencies },
	{ "allOf", read_all_of },
	{ "anyOf", read_any_of },
	{ "oneOf", read_one_of },
	{ "not", read_not },
	{ "if", read_if },
	{ "then", read_then },
	{ "else", read_else },
	{ "$ref", read_ref },
	{ "definitions", read_definitions },
	{ "$schema", read_schema },
	{ "$id", read_id },
	/* of which draft-07 says that they check nothing */
	{ "title", read_text },
	{ "default", read_anything },
	{ "examples", read_examples },
	{ "$comment", read_text },
	{ "format", read_text },
	{ "readOnly", read_boolean },
	{ "writeOnly", read_boolean },
	{ "contentEncoding", read_text },
	{ "contentMediaType", read_text },
};

/* What means something in another draft, so that the reason can be told. */
static const char *const elsewhere[] = { "id", "extends", "divisibleBy", "disallow", "$defs",
	"$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
	"$vocabulary", "dependentRequired", "dependentSchemas", "prefixItems", "minContains",
	"maxContains", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
	"deprecated" };

int
compile_keyword(struct compiler *c, struct parts *p, const struct where *w, struct slice key,
    const struct value *v)
{
	const struct where *at;
	size_t i;

	if (key.n >= 2 && memcmp(key.p, "x-", 2) == 0)
		return 0;
	at = compile_where(c, w, key);
	if (at == NULL)
		return -ENOMEM;
	for (i = 0; i < countof(keywords); i++)
		if (slice_is(key, keywords[i].name))
			return keywords[i].read(c, p, at, v);
	for (i = 0; i < countof(elsewhere); i++)
		if (slice_is(key, elsewhere[i]))
			return compile_fail(c, at, "is of another draft than draft-07");
	return compile_fail(c, at, "is not a keyword of draft-07");
}
