/*
 * schema_compile: a declaration becomes rules, or is refused by name.
 */
#include "broker/schema_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define NAME_MAX_BYTES 256 /* of a property */

/* Where in the declaration we are: a JSON pointer, from its end. */
struct where {
	const struct where *up;
	struct slice key;
};

struct compiler {
	struct schema *schema;
	char *err;
	size_t cap;
};

#define BIT(type) (1u << (type))
#define ALL	  (BIT(SCHEMA_OBJECT + 1) - 1)
#define NUMERIC	  (BIT(SCHEMA_INTEGER) | BIT(SCHEMA_NUMBER))
#define TEXTUAL	  BIT(SCHEMA_STRING)

static const char *const type_names[] = {
	[SCHEMA_STRING] = "string",
	[SCHEMA_INTEGER] = "integer",
	[SCHEMA_NUMBER] = "number",
	[SCHEMA_BOOLEAN] = "boolean",
	[SCHEMA_ARRAY] = "array",
	[SCHEMA_OBJECT] = "object",
};

/* ---- errors of a declaration ---------------------------------------------------------- */

static void
put(struct compiler *c, size_t *n, const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len && *n + 1 < c->cap; i++)
		c->err[(*n)++] = text[i];
	if (c->cap > 0)
		c->err[*n] = '\0';
}

static void
put_pointer(struct compiler *c, size_t *n, const struct where *w)
{
	size_t i;

	if (w == NULL)
		return;
	put_pointer(c, n, w->up);
	put(c, n, "/", 1);
	for (i = 0; i < w->key.n; i++) {
		if (w->key.p[i] == '~')
			put(c, n, "~0", 2);
		else if (w->key.p[i] == '/')
			put(c, n, "~1", 2);
		else if (w->key.p[i] == '\0')
			put(c, n, "\\0", 2); /* the text must not end here */
		else
			put(c, n, (const char *)w->key.p + i, 1);
	}
}

/* "/properties/path/pattern: what"; "/" is the root. */
static int
fail(struct compiler *c, const struct where *w, const char *what)
{
	size_t n = 0;

	if (w == NULL)
		put(c, &n, "/", 1);
	put_pointer(c, &n, w);
	put(c, &n, ": ", 2);
	put(c, &n, what, strlen(what));
	return -EINVAL;
}

/* ---- keywords of a property ----------------------------------------------------------- */

static int compile_items(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p);

static int
keyword_any(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	(void)c, (void)w, (void)v, (void)p;
	return 0;
}

static int
keyword_text(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	(void)p;
	return v->type == VALUE_STR ? 0 : fail(c, w, "is not a string");
}

static int
keyword_min_length(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	if (v->type != VALUE_UINT)
		return fail(c, w, "is not a count");
	p->min_length = v->uint;
	return 0;
}

static int
keyword_max_length(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	if (v->type != VALUE_UINT)
		return fail(c, w, "is not a count");
	p->max_length = v->uint;
	return 0;
}

static int
keyword_minimum(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	if (!value_is_number(v))
		return fail(c, w, "is not a number");
	p->has_minimum = true;
	p->minimum = value_number(v);
	return 0;
}

static int
keyword_maximum(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	if (!value_is_number(v))
		return fail(c, w, "is not a number");
	p->has_maximum = true;
	p->maximum = value_number(v);
	return 0;
}

static int
keyword_enum(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	struct slice in = v->raw;
	struct value element;
	uint32_t i;

	if (v->type != VALUE_ARRAY || v->count == 0)
		return fail(c, w, "is not a list of strings");
	if (v->count > SCHEMA_ENUM_MAX)
		return fail(c, w, "has more than 256 strings");
	p->choices = zone_alloc(&c->schema->zone, v->count, sizeof(*p->choices));
	if (p->choices == NULL)
		return -ENOMEM;
	value_next(&in);
	for (i = 0; i < v->count; i++) {
		element = value_skip(&in);
		if (element.type != VALUE_STR)
			return fail(c, w, "is not a list of strings");
		p->choices[i] = zone_bytes(&c->schema->zone, element.bytes);
		if (p->choices[i].p == NULL)
			return -ENOMEM;
	}
	p->nchoices = v->count;
	qsort(p->choices, p->nchoices, sizeof(*p->choices), schema_compare_choices);
	for (i = 1; i < v->count; i++)
		if (slice_equal(p->choices[i - 1], p->choices[i]))
			return fail(c, w, "has the same string twice");
	return 0;
}

static const struct keyword {
	const char *name;
	unsigned types; /* of which it says something */
	int (*read)(struct compiler *c, const struct where *w, const struct value *v,
	    struct property *p);
} keywords[] = {
	{ "type", ALL, keyword_any }, /* read before the others */
	{ "title", ALL, keyword_text },
	{ "description", ALL, keyword_text },
	{ "default", ALL, keyword_any },
	{ "minLength", TEXTUAL, keyword_min_length },
	{ "maxLength", TEXTUAL, keyword_max_length },
	{ "enum", TEXTUAL, keyword_enum },
	{ "minimum", NUMERIC, keyword_minimum },
	{ "maximum", NUMERIC, keyword_maximum },
	{ "items", BIT(SCHEMA_ARRAY), compile_items },
};

static const struct keyword *
find_keyword(struct slice name)
{
	size_t i;

	for (i = 0; i < countof(keywords); i++)
		if (slice_is(name, keywords[i].name))
			return &keywords[i];
	return NULL;
}

static int
compile_type(struct compiler *c, const struct where *w, const struct value *map,
    unsigned allowed, enum schema_type *ret)
{
	struct where at = { w, slice_of("type") };
	struct value v;
	size_t i;

	if (map->type != VALUE_MAP)
		return fail(c, w, "is not a schema");
	if (!value_get(map->raw, "type", &v))
		return fail(c, w, "has no type");
	for (i = 0; v.type == VALUE_STR && i < countof(type_names); i++) {
		if (!slice_is(v.bytes, type_names[i]) || (BIT(i) & allowed) == 0)
			continue;
		*ret = (enum schema_type)i;
		return 0;
	}
	return fail(c, &at, "is not a type that is offered here");
}

/* Reads every keyword of a property or of its items into `p`. */
static int
compile_rules(struct compiler *c, const struct where *w, const struct value *map,
    enum schema_type type, struct property *p)
{
	struct slice in = map->raw;
	const struct keyword *k;
	struct where at = { w, { NULL, 0 } };
	struct value v;
	uint32_t i;
	int r;

	value_next(&in);
	for (i = 0; i < map->count; i++) {
		at.key = value_next(&in).bytes;
		v = value_skip(&in);
		k = find_keyword(at.key);
		if (k == NULL)
			return fail(c, &at, "is not a keyword that is offered here");
		if ((k->types & BIT(type)) == 0)
			return fail(c, &at, "says nothing about this type");
		r = k->read(c, &at, &v, p);
		if (r < 0)
			return r;
	}
	if (p->min_length > p->max_length ||
	    (p->has_minimum && p->has_maximum && p->minimum > p->maximum))
		return fail(c, w, "can be met by no value");
	return 0;
}

static int
compile_items(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	enum schema_type type;
	int r;

	r = compile_type(c, w, v, TEXTUAL, &type);
	return r < 0 ? r : compile_rules(c, w, v, type, p);
}

static int
compile_property(
    struct compiler *c, const struct where *w, const struct value *v, struct property *p)
{
	struct value items;
	int r;

	*p = (struct property){ .max_length = UINT64_MAX };
	if (w->key.n == 0 || w->key.n > NAME_MAX_BYTES || memchr(w->key.p, 0, w->key.n) != NULL)
		return fail(c, w, "has a name that is not 1 to 256 bytes without a NUL");
	r = compile_type(c, w, v, ALL, &p->type);
	if (r < 0)
		return r;
	if (p->type == SCHEMA_ARRAY && !value_get(v->raw, "items", &items))
		return fail(c, w, "has no items");
	p->name.p = (const uint8_t *)zone_text(&c->schema->zone, w->key);
	p->name.n = w->key.n;
	if (p->name.p == NULL)
		return -ENOMEM;
	return compile_rules(c, w, v, p->type, p);
}

/* ---- keywords of the root ------------------------------------------------------------- */

static int
root_text(struct compiler *c, const struct where *w, const struct value *v)
{
	return keyword_text(c, w, v, NULL);
}

static int
root_type(struct compiler *c, const struct where *w, const struct value *v)
{
	if (v->type != VALUE_STR || !slice_is(v->bytes, "object"))
		return fail(c, w, "is not object");
	return 0;
}

static int
root_additional(struct compiler *c, const struct where *w, const struct value *v)
{
	if (v->type != VALUE_BOOL)
		return fail(c, w, "is neither true nor false");
	c->schema->open = v->boolean;
	return 0;
}

static int
root_properties(struct compiler *c, const struct where *w, const struct value *v)
{
	struct schema *s = c->schema;
	struct where at = { w, { NULL, 0 } };
	struct slice in = v->raw;
	struct value property;
	uint32_t i;
	int r;

	if (v->type != VALUE_MAP)
		return fail(c, w, "is not a map of schemas");
	if (v->count > SCHEMA_PROPERTIES_MAX)
		return fail(c, w, "has more than 128 members");
	s->properties = zone_alloc(&s->zone, v->count, sizeof(*s->properties));
	if (s->properties == NULL)
		return -ENOMEM;
	value_next(&in);
	for (i = 0; i < v->count; i++) {
		at.key = value_next(&in).bytes;
		property = value_skip(&in);
		r = compile_property(c, &at, &property, &s->properties[i]);
		if (r < 0)
			return r;
	}
	s->n = v->count;
	qsort(s->properties, s->n, sizeof(*s->properties), schema_compare_properties);
	return 0;
}

/* After root_properties(), which it needs. */
static int
root_required(struct compiler *c, const struct where *w, const struct value *v)
{
	struct slice in = v->raw;
	struct property *p;
	struct value name;
	uint32_t i;

	if (v->type != VALUE_ARRAY)
		return fail(c, w, "is not a list of names");
	value_next(&in);
	for (i = 0; i < v->count; i++) {
		name = value_skip(&in);
		if (name.type != VALUE_STR)
			return fail(c, w, "is not a list of names");
		p = schema_find(c->schema, name.bytes);
		if (p == NULL)
			return fail(c, w, "names something that properties does not have");
		if (p->required)
			return fail(c, w, "has the same name twice");
		p->required = true;
	}
	return 0;
}

static int
root_any(struct compiler *c, const struct where *w, const struct value *v)
{
	(void)c, (void)w, (void)v;
	return 0;
}

/* In the order in which they are read. */
static const struct {
	const char *name;
	int (*read)(struct compiler *c, const struct where *w, const struct value *v);
} roots[] = {
	{ "type", root_type },
	{ "properties", root_properties },
	{ "required", root_required },
	{ "additionalProperties", root_additional },
	{ "$schema", root_text },
	{ "title", root_text },
	{ "description", root_text },
	{ "default", root_any },
};

static int
compile_root(struct compiler *c, struct slice packed)
{
	struct where at = { NULL, { NULL, 0 } };
	struct slice in = packed;
	struct value root, v;
	size_t i, k;
	int r;

	root = value_next(&in);
	if (root.type != VALUE_MAP)
		return fail(c, NULL, "is not a schema");
	for (i = 0; i < root.count; i++) {
		at.key = value_next(&in).bytes;
		value_skip(&in);
		for (k = 0; k < countof(roots); k++)
			if (slice_is(at.key, roots[k].name))
				break;
		if (k == countof(roots))
			return fail(c, &at, "is not a keyword that is offered here");
	}
	if (!value_get(packed, "type", &v))
		return fail(c, NULL, "has no type");
	for (k = 0; k < countof(roots); k++) {
		if (!value_get(packed, roots[k].name, &v))
			continue;
		at.key = slice_of(roots[k].name);
		r = roots[k].read(c, &at, &v);
		if (r < 0)
			return r;
	}
	return 0;
}

int
schema_compile(struct slice packed, struct schema **ret, char *err, size_t cap)
{
	struct compiler c = { calloc(1, sizeof(struct schema)), err, cap };
	int r;

	if (c.schema == NULL)
		return -ENOMEM;
	r = compile_root(&c, packed);
	if (r < 0) {
		schema_destroy(c.schema);
		return r;
	}
	*ret = c.schema;
	return 0;
}
