/*
 * schema_scalar: rules that look at one value, and how a refusal is told.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/schema_check.h"
#include "common/util.h"

/* ---- pointers ------------------------------------------------------------------------- */

struct output {
	char *p;
	size_t n, cap;
};

static void
put(struct output *o, const char *text, size_t n)
{
	size_t i;

	for (i = 0; i < n && o->n + 1 < o->cap; i++)
		o->p[o->n++] = text[i];
	if (o->cap > 0)
		o->p[o->n] = '\0';
}

static void
put_text(struct output *o, const char *text)
{
	put(o, text, strlen(text));
}

static void
put_token(struct output *o, struct slice token)
{
	size_t i;

	put(o, "/", 1);
	for (i = 0; i < token.n; i++) {
		if (token.p[i] == '~')
			put(o, "~0", 2);
		else if (token.p[i] == '/')
			put(o, "~1", 2);
		else if (token.p[i] == '\0')
			put(o, "\\0", 2); /* the text must not end here */
		else
			put(o, (const char *)token.p + i, 1);
	}
}

/* Recursion is as deep as the walk let the declaration be. */
static void
put_where(struct output *o, const struct where *w)
{
	if (w == NULL)
		return;
	put_where(o, w->up);
	put_token(o, w->key);
}

size_t
schema_pointer(const struct where *w, char *text, size_t cap)
{
	struct output o = { text, 0, cap };

	if (w == NULL)
		put(&o, "/", 1);
	put_where(&o, w);
	return o.n;
}

static void
put_place(struct output *o, const struct place *at)
{
	char number[24];

	if (at == NULL)
		return;
	put_place(o, at->up);
	if (at->name.p != NULL) {
		put_token(o, at->name);
		return;
	}
	snprintf(number, sizeof(number), at->member ? "#%zu" : "%zu", at->position);
	put_token(o, slice_of(number));
}

int
check_refuse(struct check *c, const struct schema_node *n, const struct place *at,
    const char *keyword, const char *what)
{
	const struct where rule = { n->where, slice_of(keyword != NULL ? keyword : "") };
	struct output o = { c->err, 0, c->cap };

	if (c->quiet > 0)
		return -EINVAL;
	if (at == NULL)
		put_text(&o, "/");
	put_place(&o, at);
	put_text(&o, ": ");
	put_text(&o, what);
	put_text(&o, " (schema ");
	if (keyword == NULL && n->where == NULL)
		put_text(&o, "/");
	put_where(&o, keyword != NULL ? &rule : n->where);
	put_text(&o, ")");
	return -EINVAL;
}

/* ---- rules ---------------------------------------------------------------------------- */

int
check_type(struct check *c, const struct schema_node *n, const struct place *at)
{
	static const struct {
		unsigned kinds;
		const char *what;
	} types[] = { { KIND_NULL, "is not null" }, { KIND_BOOLEAN, "is not a boolean" },
		{ KIND_INTEGER, "is not an integer" }, { KIND_NUMBER, "is not a number" },
		{ KIND_STRING, "is not a string" }, { KIND_ARRAY, "is not an array" },
		{ KIND_OBJECT, "is not an object" } };
	size_t i;

	for (i = 0; i < countof(types); i++)
		if (n->kinds == types[i].kinds)
			return check_refuse(c, n, at, "type", types[i].what);
	return check_refuse(c, n, at, "type", "is of none of the types");
}

int
check_pattern(struct check *c, const struct pattern *p, struct slice text)
{
	if (c->scratch == NULL) {
		c->scratch = malloc(c->schema->scratch * sizeof(*c->scratch));
		if (c->scratch == NULL)
			return -ENOMEM;
	}
	return pattern_match(p, text, c->scratch, &c->left);
}

static uint64_t
characters(struct slice s)
{
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < s.n; i++)
		count += (s.p[i] & 0xc0) != 0x80;
	return count;
}

int
check_text(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct text_rules *t = n->text;
	uint64_t length = v->bytes.n;
	int r;

	/* A character has one to four bytes, which mostly settles it without counting. */
	if (length > t->max || (length + 3) / 4 < t->min) {
		c->left -= (int64_t)(length / 8);
		length = characters(v->bytes);
		if (length < t->min)
			return check_refuse(c, n, at, "minLength", "is shorter than minLength");
		if (length > t->max)
			return check_refuse(c, n, at, "maxLength", "is longer than maxLength");
	}
	if (t->pattern == NULL)
		return 0;
	r = check_pattern(c, t->pattern, v->bytes);
	return r < 0   ? r
	       : r > 0 ? 0
		       : check_refuse(c, n, at, "pattern", "does not match pattern");
}

int
check_number(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct number_rules *rules = n->number;
	long double number = value_number(v);

	if (rules->has_minimum && number < rules->minimum)
		return check_refuse(c, n, at, "minimum", "is less than minimum");
	if (rules->has_maximum && number > rules->maximum)
		return check_refuse(c, n, at, "maximum", "is more than maximum");
	if (rules->has_above && number <= rules->above)
		return check_refuse(
		    c, n, at, "exclusiveMinimum", "is not more than exclusiveMinimum");
	if (rules->has_below && number >= rules->below)
		return check_refuse(
		    c, n, at, "exclusiveMaximum", "is not less than exclusiveMaximum");
	if (!rules->has_multiple)
		return 0;
	/* A float is written and read again until it is the same. */
	c->left -= value_is_subnormal(v) ? 1000 : v->type == VALUE_FLOAT ? 64 : 8;
	if (!decimal_is_multiple(value_decimal(v), rules->multiple))
		return check_refuse(c, n, at, "multipleOf", "is no multiple of multipleOf");
	return 0;
}

/* ---- equality ------------------------------------------------------------------------- */

static bool
set_has(const struct value_set *set, struct slice form)
{
	size_t low = 0, high = set->n, middle;
	int order;

	while (low < high) {
		middle = low + (high - low) / 2;
		order = schema_order(form, set->value[middle]);
		if (order == 0)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

int
check_sets(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	const struct any_rules *a = n->any;
	struct slice form = v->raw;
	struct buf b = { 0 };
	int r = 0;

	/* Of everything else the walk lets one form through. */
	if (v->type == VALUE_FLOAT || v->type == VALUE_ARRAY || v->type == VALUE_MAP) {
		c->left -= (int64_t)(form.n * 2); /* its members may have to be sorted */
		if (c->left < 0)
			return -E2BIG;
		r = value_equal_form(v->raw, &b);
		form = buf_slice(&b);
	}
	if (r == 0 && a->choices.n > 0 && !set_has(&a->choices, form))
		r = check_refuse(c, n, at, "enum", "is not in enum");
	if (r == 0 && a->constant.n > 0 && !set_has(&a->constant, form))
		r = check_refuse(c, n, at, "const", "is not const");
	buf_finish(&b);
	return r;
}

static int
compare_forms(const void *a, const void *b)
{
	return schema_order(*(const struct slice *)a, *(const struct slice *)b);
}

/* Equal ones stand side by side once they are sorted. */
static int
has_equal(struct slice in, size_t n, bool *ret)
{
	cleanup_free struct slice *forms = calloc(n, sizeof(*forms));
	size_t i;

	if (forms == NULL)
		return -ENOMEM;
	value_open(&in);
	for (i = 0; i < n; i++)
		forms[i] = value_skip(&in).raw;
	if (heapsort(forms, n, sizeof(*forms), compare_forms) < 0)
		return -ENOMEM;
	*ret = false;
	for (i = 1; i < n && !*ret; i++)
		*ret = slice_equal(forms[i - 1], forms[i]);
	return 0;
}

int
check_unique(
    struct check *c, const struct schema_node *n, const struct value *v, const struct place *at)
{
	struct buf b = { 0 };
	unsigned rounds = 1;
	bool equal = false;
	int r;

	if (v->count < 2)
		return 0;
	while (v->count >> rounds > 0)
		rounds++;
	/* The forms are made once and compared, each with each round's neighbour. */
	c->left -= (int64_t)(v->raw.n * 2 + rounds * (2ull * v->count + v->raw.n / 64));
	if (c->left < 0)
		return -E2BIG;
	r = value_equal_form(v->raw, &b);
	if (r == 0)
		r = has_equal(buf_slice(&b), v->count, &equal);
	buf_finish(&b);
	if (r == 0 && equal)
		r = check_refuse(c, n, at, "uniqueItems", "has two items that are equal");
	return r;
}
