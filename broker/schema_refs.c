/*
 * schema_refs: finds what references mean, and refuses those that go in a circle.
 */
#include <errno.h>
#include <stdlib.h>

#include "broker/schema_compile.h"

static int
compare_sources(const void *a, const void *b)
{
	const uint8_t *x = (*(struct schema_node *const *)a)->source;
	const uint8_t *y = (*(struct schema_node *const *)b)->source;

	return (x > y) - (x < y);
}

/* ---- pointers ------------------------------------------------------------------------- */

static int
hex_digit(uint8_t c)
{
	return c >= '0' && c <= '9'			? c - '0'
	       : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
							: -1;
}

/* The next byte of a URI's fragment; -1 if it is none. */
static int
take_byte(struct slice *s)
{
	int c = *s->p, high, low;
	size_t n = 1;

	if (c == '%') {
		high = s->n >= 3 ? hex_digit(s->p[1]) : -1;
		low = s->n >= 3 ? hex_digit(s->p[2]) : -1;
		if (high < 0 || low < 0)
			return -1;
		c = high << 4 | low;
		n = 3;
	}
	s->p += n;
	s->n -= n;
	return c;
}

/* Takes "/token" from the front of `s` into `token`, which is as long; false: malformed. */
static bool
take_token(struct slice *s, uint8_t *token, size_t *ret_n)
{
	size_t n = 0;
	int c;

	s->p++;
	s->n--;
	while (s->n > 0 && *s->p != '/') {
		c = take_byte(s);
		if (c == '~') {
			c = s->n > 0 ? take_byte(s) : -1;
			c = c == '0' ? '~' : c == '1' ? '/' : -1;
		}
		if (c < 0)
			return false;
		token[n++] = (uint8_t)c;
	}
	*ret_n = n;
	return true;
}

/* The part of `v` that the token names. */
static bool
step(struct value *v, struct slice token)
{
	struct slice in = v->raw, key;
	uint64_t index = 0;
	struct value part;
	uint32_t i;

	if (v->type == VALUE_ARRAY) {
		if (token.n == 0 || token.n > 9 || (token.n > 1 && token.p[0] == '0'))
			return false;
		for (i = 0; i < token.n; i++) {
			if (token.p[i] < '0' || token.p[i] > '9')
				return false;
			index = index * 10 + (token.p[i] - '0');
		}
	} else if (v->type != VALUE_MAP) {
		return false;
	}
	value_open(&in);
	for (i = 0; i < v->count; i++) {
		key = v->type == VALUE_MAP ? value_key(&in) : (struct slice){ NULL, 0 };
		part = value_skip(&in);
		if (v->type == VALUE_MAP ? slice_equal(key, token) : i == index) {
			*v = part;
			return true;
		}
	}
	return false;
}

/* Where in the declaration the pointer leads; NULL: nowhere. */
static int
find_source(struct compiler *c, struct slice pointer, const uint8_t **ret)
{
	uint8_t *token = malloc(pointer.n + 1);
	struct slice in = c->text;
	struct value v = value_skip(&in);
	bool found = true;
	size_t n;

	if (token == NULL)
		return -ENOMEM;
	pointer.p++; /* # */
	pointer.n--;
	while (found && pointer.n > 0)
		found = take_token(&pointer, token, &n) && step(&v, (struct slice){ token, n });
	free(token);
	*ret = found ? v.raw.p : NULL;
	return 0;
}

/* ---- references ----------------------------------------------------------------------- */

static int
fail_ref(struct compiler *c, const struct schema_node *n, const char *what)
{
	const struct where at = { n->where, slice_of("$ref") };

	return compile_fail(c, &at, what);
}

/* Sets `ref` to the node that is meant, which may be a reference itself. */
static int
resolve(struct compiler *c, struct schema_node **sorted, struct schema_node *n)
{
	struct schema_node key = { .source = NULL }, *wanted = &key, **found;
	int r;

	r = find_source(c, n->ref_text, &key.source);
	if (r < 0)
		return r;
	found = key.source == NULL
		    ? NULL
		    : bsearch(&wanted, sorted, c->nnodes, sizeof(*sorted), compare_sources);
	if (found == NULL)
		return fail_ref(c, n, "leads to no schema");
	n->ref = *found;
	return 0;
}

/* Goes through references to references, so that a check follows one. */
static int
shorten(struct compiler *c, struct schema_node *n)
{
	struct schema_node *to = n->ref;
	size_t steps = 0;

	for (; to->ref != NULL; to = to->ref)
		if (++steps > c->nnodes)
			return fail_ref(c, n, "leads back to itself");
	n->ref = to;
	return 0;
}

static int
resolve_all(struct compiler *c)
{
	struct schema_node **sorted = calloc(c->nnodes, sizeof(*sorted));
	size_t i;
	int r = 0;

	if (sorted == NULL)
		return -ENOMEM;
	memcpy(sorted, c->nodes, c->nnodes * sizeof(*sorted));
	if (heapsort(sorted, c->nnodes, sizeof(*sorted), compare_sources) < 0)
		r = -ENOMEM;
	for (i = 0; i < c->nnodes && r == 0; i++)
		if (c->nodes[i]->ref_text.p != NULL)
			r = resolve(c, sorted, c->nodes[i]);
	free(sorted);
	for (i = 0; i < c->nnodes && r == 0; i++)
		if (c->nodes[i]->ref != NULL)
			r = shorten(c, c->nodes[i]);
	return r;
}

/* ---- what applies to the same value --------------------------------------------------- */

static int measure(struct compiler *c, struct schema_node *node, unsigned depth);

/* One that applies to the same value as `of`, whose height it may raise. */
static int
measure_part(
    struct compiler *c, struct schema_node *of, struct schema_node *part, unsigned depth)
{
	int r;

	if (part == NULL)
		return 0;
	r = measure(c, part, depth + 1);
	if (r == 0 && schema_target(part)->height >= of->height)
		of->height = (uint8_t)(schema_target(part)->height + 1);
	return r;
}

static int
measure_list(
    struct compiler *c, struct schema_node *of, const struct node_list *l, unsigned depth)
{
	size_t i;
	int r = 0;

	for (i = 0; i < l->n && r == 0; i++)
		r = measure_part(c, of, l->node[i], depth);
	return r;
}

static int
measure_parts(struct compiler *c, struct schema_node *n, unsigned depth)
{
	const struct any_rules *a = n->any;
	size_t i;
	int r = 0;

	for (i = 0; n->object != NULL && i < n->object->ndependencies && r == 0; i++)
		r = measure_part(c, n, n->object->dependencies[i].node, depth);
	if (r < 0 || a == NULL)
		return r;
	r = measure_list(c, n, &a->all, depth);
	if (r == 0)
		r = measure_list(c, n, &a->any, depth);
	if (r == 0)
		r = measure_list(c, n, &a->one, depth);
	if (r == 0)
		r = measure_part(c, n, a->not, depth);
	if (r == 0)
		r = measure_part(c, n, a->condition, depth);
	if (r == 0)
		r = measure_part(c, n, a->then, depth);
	if (r == 0)
		r = measure_part(c, n, a->otherwise, depth);
	return r;
}

/* Finds the height of a node; `depth` others apply to the same value around it. */
static int
measure(struct compiler *c, struct schema_node *node, unsigned depth)
{
	struct schema_node *n = node->ref != NULL ? node->ref : node;
	int r;

	if (n->open)
		return compile_fail(c, n->where, "refers to itself for the same value");
	if (depth + (n->height > 0 ? n->height - 1u : 0) >= SCHEMA_COMPOSED_MAX)
		return compile_fail(c, n->where, "is composed more than 16 deep");
	if (n->height > 0)
		return 0;
	n->height = 1;
	n->open = true;
	r = measure_parts(c, n, depth);
	n->open = false;
	return r;
}

int
compile_refs(struct compiler *c)
{
	size_t i;
	int r = resolve_all(c);

	for (i = 0; i < c->nnodes && r == 0; i++)
		r = measure(c, c->nodes[i], 0);
	return r;
}
