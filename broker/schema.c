#include "broker/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/schema_check.h"
#include "common/util.h"

void
schema_destroy(struct schema *s)
{
	if (s == NULL)
		return;
	zone_finish(&s->zone);
	free(s->text);
	free(s);
}

/* ---- what can be asked ---------------------------------------------------------------- */

bool
schema_is_of_objects(const struct schema *s)
{
	return schema_target(s->root)->kinds == KIND_OBJECT;
}

int
schema_property(const struct schema *s, const char *name, size_t n, enum schema_type *ret_type,
    bool *ret_required)
{
	static const struct {
		unsigned kinds;
		enum schema_type type;
	} types[] = { { KIND_STRING, SCHEMA_STRING }, { KIND_INTEGER, SCHEMA_INTEGER },
		{ KIND_NUMBER, SCHEMA_NUMBER }, { KIND_BOOLEAN, SCHEMA_BOOLEAN },
		{ KIND_ARRAY, SCHEMA_ARRAY }, { KIND_OBJECT, SCHEMA_OBJECT },
		{ KIND_NULL, SCHEMA_NULL } };
	const struct object_rules *o = schema_target(s->root)->object;
	const struct name_rule *rule;
	size_t i;

	rule = o == NULL ? NULL : schema_find(o, (struct slice){ (const uint8_t *)name, n });
	if (rule == NULL || rule->node == NULL)
		return -ENOENT;
	*ret_required = rule->required;
	*ret_type = SCHEMA_SEVERAL;
	for (i = 0; i < countof(types); i++)
		if (schema_target(rule->node)->kinds == types[i].kinds)
			*ret_type = types[i].type;
	return 0;
}

/* ---- a check -------------------------------------------------------------------------- */

static int check_node(struct check *c, const struct schema_node *n, const struct value *v,
    const struct place *at);

/* Like check_node(), for a question: 1 or 0. */
static int
holds(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	int r;

	c->quiet++;
	r = check_node(c, n, v, at);
	c->quiet--;
	return r == 0 ? 1 : r == -EINVAL ? 0 : r;
}

/* To skip what is large costs. */
static inline void
charge(struct check *c, const struct value *v)
{
	if (v->type >= VALUE_ARRAY)
		c->left -= (int64_t)(v->raw.n / 16);
}

/* ---- arrays --------------------------------------------------------------------------- */

static int
check_contains(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	struct slice in = v->raw;
	struct value item;
	uint32_t i;
	int r;

	c->left -= v->count;
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		item = value_skip(&in);
		charge(c, &item);
		r = holds(c, n->array->contains, &item, at);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	return check_refuse(c, n, at, "contains", "has no item as contains wants one");
}

static int
check_items(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct array_rules *a = n->array;
	struct place here = { at, { NULL, 0 }, 0, false };
	const struct schema_node *rule;
	struct slice in = v->raw;
	struct value item;
	uint32_t i;
	int r = 0;

	c->left -= v->count;
	value_open(&in);
	for (i = 0; i < v->count && r == 0; i++) {
		item = value_skip(&in);
		charge(c, &item);
		rule = i < a->first.n ? a->first.node[i] : a->first.n > 0 ? a->rest : a->each;
		here.position = i;
		if (rule == NULL)
			break; /* nor of those behind it */
		r = check_node(c, rule, &item, &here);
	}
	return r;
}

/* Out of line, so that a scalar does not pay for its frame. */
static __attribute__((noinline)) int
check_array(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct array_rules *a = n->array;
	int r = 0;

	if (v->count < a->min)
		return check_refuse(c, n, at, "minItems", "has fewer items than minItems");
	if (v->count > a->max)
		return check_refuse(c, n, at, "maxItems", "has more items than maxItems");
	if (a->each != NULL || a->first.n > 0)
		r = check_items(c, n, v, at);
	if (r == 0 && a->contains != NULL)
		r = check_contains(c, n, v, at);
	return r == 0 && a->unique ? check_unique(c, n, v, at) : r;
}

/* ---- objects -------------------------------------------------------------------------- */

static bool
was_seen(const struct name_bits *s, size_t name)
{
	return s->words[name / 64] >> name % 64 & 1;
}

/* What applies to a member by its name, but for properties. */
static int
check_by_pattern(struct check *c, const struct object_rules *o, struct slice name,
    const struct value *v, const struct place *here, bool known)
{
	size_t i;
	int r;

	for (i = 0; i < o->npatterns; i++) {
		r = check_pattern(c, o->patterns[i].pattern, name);
		if (r == 0)
			continue;
		known = true;
		if (r > 0)
			r = check_node(c, o->patterns[i].node, v, here);
		if (r < 0)
			return r;
	}
	return known || o->additional == NULL ? 0 : check_node(c, o->additional, v, here);
}

/* propertyNames, of a name as it stands in the value. */
static int
check_name(
    struct check *c, const struct object_rules *o, struct slice raw, const struct place *here)
{
	struct slice in = raw;
	struct value name = value_open(&in);

	return check_node(c, o->each_name, &name, here);
}

static inline int
check_member(struct check *c, const struct object_rules *o, struct slice name,
    const struct value *v, struct place *here, struct name_bits *seen)
{
	const struct name_rule *rule = schema_find(o, name);
	bool known = false;
	size_t index;
	int r = 0;

	here->name = (struct slice){ NULL, 0 };
	if (rule != NULL) {
		index = (size_t)(rule - o->names);
		seen->words[index / 64] |= UINT64_C(1) << index % 64;
		here->name = rule->name;
		known = rule->node != NULL;
	}
	if (known)
		r = check_node(c, rule->node, v, here);
	if (r == 0 && (o->npatterns > 0 || (!known && o->additional != NULL)))
		r = check_by_pattern(c, o, name, v, here, known);
	return r;
}

static int
check_needs(struct check *c, const struct schema_node *n, const struct dependency *d,
    const struct name_bits *seen, const struct place *at)
{
	const struct object_rules *o = n->object;
	struct place here = { at, { NULL, 0 }, 0, false };
	size_t i;

	for (i = 0; i < d->nneeds; i++) {
		if (was_seen(seen, d->needs[i]))
			continue;
		here.name = o->names[d->needs[i]].name;
		return check_refuse(
		    c, n, &here, "dependencies", "is required by another member");
	}
	return 0;
}

/* What the presence or absence of members means. */
static int
check_presence(struct check *c, const struct schema_node *n, const struct value *v,
    const struct name_bits *seen, const struct place *at)
{
	const struct object_rules *o = n->object;
	struct place here = { at, { NULL, 0 }, 0, false };
	const struct dependency *d;
	uint64_t missing;
	size_t i;
	int r = 0;

	for (i = 0; i * 64 < o->nnames; i++) {
		missing = o->required.words[i] & ~seen->words[i];
		if (missing == 0)
			continue;
		here.name = o->names[i * 64 + (size_t)__builtin_ctzll(missing)].name;
		return check_refuse(c, n, &here, "required", "is required");
	}
	for (i = 0; i < o->ndependencies && r == 0; i++) {
		d = &o->dependencies[i];
		c->left -= (int64_t)(d->nneeds / 8);
		if (was_seen(seen, d->name))
			r = d->node != NULL ? check_node(c, d->node, v, at)
					    : check_needs(c, n, d, seen, at);
	}
	return r;
}

/* Out of line, so that a scalar does not pay for its frame. */
static __attribute__((noinline)) int
check_object(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct object_rules *o = n->object;
	struct place here = { at, { NULL, 0 }, 0, true };
	struct name_bits seen = { { 0 } };
	struct slice in = v->raw, before, name;
	struct value member;
	uint32_t i;
	int r;

	if (v->count < o->min)
		return check_refuse(
		    c, n, at, "minProperties", "has fewer members than minProperties");
	if (v->count > o->max)
		return check_refuse(
		    c, n, at, "maxProperties", "has more members than maxProperties");
	c->left -= (int64_t)(v->count + o->nnames / 8);
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		before = in;
		name = value_key(&in);
		before.n -= in.n;
		member = value_skip(&in);
		charge(c, &member);
		here.position = i + 1;
		r = check_member(c, o, name, &member, &here, &seen);
		if (r == 0 && o->each_name != NULL)
			r = check_name(c, o, before, &here);
		if (r < 0)
			return r;
	}
	return check_presence(c, n, v, &seen, at);
}

/* ---- compositions --------------------------------------------------------------------- */

static int
check_all(
    struct check *c, const struct node_list *l, const struct value *v, const struct place *at)
{
	size_t i;
	int r = 0;

	for (i = 0; i < l->n && r == 0; i++)
		r = check_node(c, l->node[i], v, at);
	return r;
}

/* How many of the list hold, but no more than `most`. */
static int
count_holding(struct check *c, const struct node_list *l, const struct value *v,
    const struct place *at, int most)
{
	int n = 0, r;
	size_t i;

	for (i = 0; i < l->n && n < most; i++) {
		r = holds(c, l->node[i], v, at);
		if (r < 0)
			return r;
		n += r;
	}
	return n;
}

static int
check_choices(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct any_rules *a = n->any;
	int r;

	if (a->any.n > 0) {
		r = count_holding(c, &a->any, v, at, 1);
		if (r < 1)
			return r < 0 ? r
				     : check_refuse(c, n, at, "anyOf", "meets none of anyOf");
	}
	if (a->one.n > 0) {
		r = count_holding(c, &a->one, v, at, 2);
		if (r < 0)
			return r;
		if (r != 1)
			return check_refuse(c, n, at, "oneOf",
			    r == 0 ? "meets none of oneOf" : "meets more than one of oneOf");
	}
	return 0;
}

/* Out of line, so that a scalar does not pay for its frame. */
static __attribute__((noinline)) int
check_any(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct any_rules *a = n->any;
	const struct schema_node *branch;
	int r = 0;

	if (a->choices.n > 0 || a->constant.n > 0)
		r = check_sets(c, n, v, at);
	if (r == 0)
		r = check_all(c, &a->all, v, at);
	if (r == 0)
		r = check_choices(c, n, v, at);
	if (r == 0 && a->not != NULL) {
		r = holds(c, a->not, v, at);
		if (r > 0)
			r = check_refuse(c, n, at, "not", "meets what it must not");
	}
	if (r < 0 || a->condition == NULL || (a->then == NULL && a->otherwise == NULL))
		return r;
	r = holds(c, a->condition, v, at);
	branch = r > 0 ? a->then : a->otherwise;
	return r < 0 ? r : branch == NULL ? 0 : check_node(c, branch, v, at);
}

/* Recursion: VALUE_DEPTH_MAX times SCHEMA_COMPOSED_MAX. */
static int
check_node(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	int r = 0;

	n = schema_target(n);
	if (--c->left < 0)
		return -E2BIG;
	if (n->never)
		return check_refuse(c, n, at, NULL, "is not allowed");
	if (n->kinds != KIND_ANY && (n->kinds & value_kind(v)) == 0)
		return check_type(c, n, at);
	if (!n->rules)
		return 0;
	if (n->text != NULL && v->type == VALUE_STR)
		r = check_text(c, n, v, at);
	else if (n->object != NULL && v->type == VALUE_MAP)
		r = check_object(c, n, v, at);
	else if (n->array != NULL && v->type == VALUE_ARRAY)
		r = check_array(c, n, v, at);
	else if (n->number != NULL && value_is_number(v))
		r = check_number(c, n, v, at);
	return r == 0 && n->any != NULL ? check_any(c, n, v, at) : r;
}

int
schema_check(const struct schema *s, struct slice value, char *err, size_t cap)
{
	struct check c = { .schema = s, .err = err, .cap = cap };
	struct slice in = value;
	struct value v;
	int r;

	c.left = SCHEMA_STEPS_BASE + (int64_t)value.n * SCHEMA_STEPS_PER_BYTE;
	if (c.left > SCHEMA_STEPS_MAX)
		c.left = SCHEMA_STEPS_MAX;
	v = value_open(&in);
	v.raw = value;
	r = check_node(&c, s->root, &v, NULL);
	free(c.scratch);
	if (r == -E2BIG) {
		snprintf(err, cap, "/: the schema is too costly for a value of that size");
		r = -EINVAL;
	}
	return r;
}
