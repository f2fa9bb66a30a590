/*
 * schema_compile: a declaration becomes nodes, or is refused by name.
 */
#include "broker/schema_compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"

/* ---- errors of a declaration ---------------------------------------------------------- */

int
compile_fail(struct compiler *c, const struct where *w, const char *what)
{
	size_t n = schema_pointer(w, c->err, c->cap);

	if (n < c->cap)
		snprintf(c->err + n, c->cap - n, ": %s", what);
	return -EINVAL;
}

const struct where *
compile_where(struct compiler *c, const struct where *up, struct slice key)
{
	struct where *w = zone_alloc(&c->schema->zone, 1, sizeof(*w));

	if (w == NULL)
		return NULL;
	*w = (struct where){ up, key };
	return w;
}

/* ---- nodes ---------------------------------------------------------------------------- */

static void *
keep(struct compiler *c, const void *rules, size_t size)
{
	void *kept = zone_alloc(&c->schema->zone, 1, size);

	if (kept != NULL)
		memcpy(kept, rules, size);
	return kept;
}

/* Gives the node the rules that there are, and no others. */
static int
keep_rules(struct compiler *c, const struct parts *p)
{
	struct schema_node *n = p->node;

	n->rules = p->used != 0;
	if (p->used & RULES_TEXT)
		n->text = keep(c, &p->text, sizeof(p->text));
	if (p->used & RULES_NUMBER)
		n->number = keep(c, &p->number, sizeof(p->number));
	if (p->used & RULES_ARRAY)
		n->array = keep(c, &p->array, sizeof(p->array));
	if (p->used & RULES_OBJECT)
		n->object = keep(c, &p->object, sizeof(p->object));
	if (p->used & RULES_ANY)
		n->any = keep(c, &p->any, sizeof(p->any));
	return ((p->used & RULES_TEXT) && n->text == NULL) ||
		       ((p->used & RULES_NUMBER) && n->number == NULL) ||
		       ((p->used & RULES_ARRAY) && n->array == NULL) ||
		       ((p->used & RULES_OBJECT) && n->object == NULL) ||
		       ((p->used & RULES_ANY) && n->any == NULL)
		   ? -ENOMEM
		   : 0;
}

/*
 * Draft-07 ignores what stands beside $ref, but for definitions, which references can reach,
 * and $schema, which says how to read all of it.
 */
static bool
counts_beside_ref(struct slice key)
{
	return slice_is(key, "$ref") || slice_is(key, "definitions") ||
	       slice_is(key, "$schema");
}

static int
compile_map(
    struct compiler *c, const struct where *w, const struct value *v, struct schema_node *node)
{
	struct parts p = { .node = node,
		.text.max = UINT64_MAX,
		.array.max = UINT64_MAX,
		.object.max = UINT64_MAX };
	struct slice in = v->raw, key;
	struct value part;
	uint32_t i;
	bool ref;
	int r = 0;

	ref = value_get(v->raw, "$ref", &part);
	value_open(&in);
	for (i = 0; i < v->count && r == 0; i++) {
		key = value_key(&in);
		part = value_skip(&in);
		if (!ref || counts_beside_ref(key))
			r = compile_keyword(c, &p, w, key, &part);
	}
	if (r == 0)
		r = compile_names(c, &p, w);
	return r < 0 ? r : keep_rules(c, &p);
}

int
compile_node(
    struct compiler *c, const struct where *w, const struct value *v, struct schema_node **ret)
{
	struct schema_node *n;

	if (v->type != VALUE_MAP && v->type != VALUE_BOOL)
		return compile_fail(c, w, "is not a schema");
	if (c->nnodes == SCHEMA_NODES_MAX)
		return compile_fail(c, w, "is one schema too many: 4096 are offered");
	n = zone_alloc(&c->schema->zone, 1, sizeof(*n));
	if (n == NULL)
		return -ENOMEM;
	c->nodes[c->nnodes++] = n;
	n->where = w;
	n->source = v->raw.p;
	n->kinds = KIND_ANY;
	n->never = v->type == VALUE_BOOL && !v->boolean;
	*ret = n;
	return v->type == VALUE_BOOL ? 0 : compile_map(c, w, v, n);
}

int
compile_list(
    struct compiler *c, const struct where *w, const struct value *v, struct node_list *ret)
{
	struct slice in = v->raw;
	struct value part;
	const struct where *at;
	char number[12];
	char *key;
	uint32_t i;
	int r = 0;

	if (v->count > SCHEMA_NODES_MAX)
		return compile_fail(c, w, "has more than 4096 schemas");
	ret->node = zone_alloc(&c->schema->zone, v->count, sizeof(*ret->node));
	if (ret->node == NULL)
		return -ENOMEM;
	ret->n = v->count;
	value_open(&in);
	for (i = 0; i < v->count && r == 0; i++) {
		part = value_skip(&in);
		snprintf(number, sizeof(number), "%u", i);
		key = zone_text(&c->schema->zone, slice_of(number));
		at = key == NULL ? NULL : compile_where(c, w, slice_of(key));
		r = at == NULL ? -ENOMEM : compile_node(c, at, &part, &ret->node[i]);
	}
	return r;
}

int
compile_pattern(
    struct compiler *c, const struct where *w, struct slice text, const struct pattern **ret)
{
	const char *why = "";
	size_t n;
	int r;

	r = pattern_compile(text, &c->schema->zone, ret, &why);
	if (r < 0)
		return r == -EINVAL ? compile_fail(c, w, why) : r;
	n = pattern_size(*ret);
	c->instructions += n;
	if (c->instructions > SCHEMA_PATTERNS_MAX)
		return compile_fail(c, w, "is one pattern too many: all of them are too large");
	if (pattern_scratch(n) > c->schema->scratch)
		c->schema->scratch = pattern_scratch(n);
	return 0;
}

/* ---- names ---------------------------------------------------------------------------- */

static int
compare_names(const void *a, const void *b)
{
	return schema_order(
	    ((const struct name_rule *)a)->name, ((const struct name_rule *)b)->name);
}

/* How many names a value of `v` names: the keys of a map and what it lists. */
static size_t
count_names(const struct value *v)
{
	struct slice in = v->raw;
	size_t n = v->raw.n > 0 ? v->count : 0;
	struct value part;
	uint32_t i;

	if (n == 0 || v->type != VALUE_MAP)
		return n;
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		value_key(&in);
		part = value_skip(&in);
		if (part.type == VALUE_ARRAY)
			n += part.count;
	}
	return n;
}

/* Adds a list of names; refuses what is none, and what stands there twice. */
static int
add_list(struct compiler *c, struct object_rules *o, const struct where *w,
    const struct value *v, bool required)
{
	struct slice in = v->raw;
	size_t first = o->nnames, i, k;
	struct value name;

	if (v->type != VALUE_ARRAY)
		return compile_fail(c, w, "is not a list of names");
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		name = value_skip(&in);
		if (name.type != VALUE_STR)
			return compile_fail(c, w, "is not a list of names");
		for (k = first; k < o->nnames; k++)
			if (slice_equal(o->names[k].name, name.bytes))
				return compile_fail(c, w, "has the same name twice");
		o->names[o->nnames++] = (struct name_rule){ name.bytes, NULL, required };
	}
	return 0;
}

static int
add_properties(
    struct compiler *c, struct object_rules *o, const struct where *w, const struct value *v)
{
	const struct where *all, *at;
	struct slice in = v->raw, key;
	struct value part;
	uint32_t i;
	int r = 0;

	all = compile_where(c, w, slice_of("properties"));
	value_open(&in);
	for (i = 0; i < v->count && r == 0; i++) {
		key = value_key(&in);
		part = value_skip(&in);
		at = all == NULL ? NULL : compile_where(c, all, key);
		if (at == NULL)
			return -ENOMEM;
		o->names[o->nnames] = (struct name_rule){ key, NULL, false };
		r = compile_node(c, at, &part, &o->names[o->nnames++].node);
	}
	return r;
}

/* Adds the names of dependencies, and compiles those that are schemas. */
static int
add_dependencies(
    struct compiler *c, struct object_rules *o, const struct where *w, const struct value *v)
{
	const struct where *all, *at;
	struct slice in = v->raw, key;
	struct dependency *d;
	struct value part;
	int r = 0;

	all = compile_where(c, w, slice_of("dependencies"));
	o->dependencies = zone_alloc(&c->schema->zone, v->count, sizeof(*o->dependencies));
	if (all == NULL || o->dependencies == NULL)
		return -ENOMEM;
	value_open(&in);
	while (o->ndependencies < v->count && r == 0) {
		key = value_key(&in);
		part = value_skip(&in);
		at = compile_where(c, all, key);
		if (at == NULL)
			return -ENOMEM;
		d = &o->dependencies[o->ndependencies++];
		o->names[o->nnames++] = (struct name_rule){ key, NULL, false };
		if (part.type == VALUE_ARRAY)
			r = add_list(c, o, at, &part, false);
		else
			r = compile_node(c, at, &part, &d->node);
	}
	return r;
}

/* Sorts, and makes one of those of the same name. */
static int
merge_names(struct object_rules *o)
{
	struct name_rule *at = o->names;
	size_t i;

	if (o->nnames == 0)
		return 0;
	if (heapsort(o->names, o->nnames, sizeof(*o->names), compare_names) < 0)
		return -ENOMEM;
	for (i = 1; i < o->nnames; i++) {
		if (!slice_equal(o->names[i].name, at->name)) {
			*++at = o->names[i];
			continue;
		}
		at->required = at->required || o->names[i].required;
		if (o->names[i].node != NULL)
			at->node = o->names[i].node;
	}
	o->nnames = (size_t)(at - o->names) + 1;
	for (i = 0; i < o->nnames; i++)
		if (o->names[i].required)
			o->required.words[i / 64] |= UINT64_C(1) << i % 64;
	return 0;
}

static size_t
index_of(const struct object_rules *o, struct slice name)
{
	return (size_t)(schema_find(o, name) - o->names);
}

/* Where the names of dependencies have come to be. */
static int
index_dependencies(struct compiler *c, struct object_rules *o, const struct value *v)
{
	struct slice in = v->raw;
	struct dependency *d;
	struct value part;
	size_t i, k;

	value_open(&in);
	for (i = 0; i < o->ndependencies; i++) {
		d = &o->dependencies[i];
		d->name = index_of(o, value_key(&in));
		if (d->node != NULL) {
			value_skip(&in);
			continue;
		}
		part = value_open(&in);
		d->needs = zone_alloc(&c->schema->zone, part.count, sizeof(*d->needs));
		if (d->needs == NULL)
			return -ENOMEM;
		for (k = 0; k < part.count; k++)
			d->needs[k] = index_of(o, value_key(&in));
		d->nneeds = part.count;
	}
	return 0;
}

int
compile_names(struct compiler *c, struct parts *p, const struct where *w)
{
	const struct where required = { w, slice_of("required") };
	struct object_rules *o = &p->object;
	size_t n = count_names(&p->properties) + count_names(&p->required) +
		   count_names(&p->dependencies);
	int r = 0;

	/* Lists are compared pairwise, and a check marks what it has seen. */
	if (n > SCHEMA_NAMES_MAX)
		return compile_fail(c, w, "names more than 512 members");
	o->names = zone_alloc(&c->schema->zone, n, sizeof(*o->names));
	if (o->names == NULL)
		return -ENOMEM;
	if (p->properties.raw.n > 0)
		r = add_properties(c, o, w, &p->properties);
	if (r == 0 && p->required.raw.n > 0)
		r = add_list(c, o, &required, &p->required, true);
	if (r == 0 && p->dependencies.raw.n > 0)
		r = add_dependencies(c, o, w, &p->dependencies);
	if (r == 0)
		r = merge_names(o);
	if (r == 0 && p->dependencies.raw.n > 0)
		r = index_dependencies(c, o, &p->dependencies);
	return r;
}

/* ---- all of it ------------------------------------------------------------------------ */

static int
compile_all(struct compiler *c, struct slice packed)
{
	struct schema_node *root;
	struct slice in;
	struct value v;
	int r;

	c->schema->text = malloc(packed.n);
	if (c->schema->text == NULL)
		return -ENOMEM;
	memcpy(c->schema->text, packed.p, packed.n);
	c->text = in = (struct slice){ c->schema->text, packed.n };
	v = value_skip(&in);
	r = compile_node(c, NULL, &v, &root);
	if (r == 0)
		r = compile_refs(c);
	if (r == 0)
		c->schema->root = c->nodes[0];
	return r;
}

int
schema_compile(struct slice packed, struct schema **ret, char *err, size_t cap)
{
	cleanup_free struct compiler *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL)
		return -ENOMEM;
	c->err = err;
	c->cap = cap;
	c->schema = calloc(1, sizeof(*c->schema));
	r = c->schema == NULL ? -ENOMEM : compile_all(c, packed);
	if (r < 0) {
		schema_destroy(c->schema);
		return r;
	}
	*ret = c->schema;
	return 0;
}
