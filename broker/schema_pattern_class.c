/*
 * schema_pattern_class: sets of characters, as ranges that become a class.
 */
#include "broker/schema_pattern_class.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define CODE_POINT_MAX 0x10ffff

static const struct pattern_range digits[] = { { '0', '9' } };
static const struct pattern_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' },
	{ 'a', 'z' } };
/* WhiteSpace and LineTerminator of ECMA-262. */
static const struct pattern_range spaces[] = { { 0x09, 0x0d }, { 0x20, 0x20 }, { 0xa0, 0xa0 },
	{ 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f },
	{ 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff } };
static const struct pattern_range line_ends[] = { { '\n', '\n' }, { '\r', '\r' },
	{ 0x2028, 0x2029 } };

static const struct {
	char name;
	const struct pattern_range *ranges; /* sorted, apart */
	size_t n;
} sets[] = {
	{ 'd', digits, countof(digits) }, { 'w', words, countof(words) },
	{ 's', spaces, countof(spaces) },
	{ 'n', line_ends, countof(line_ends) }, /* not an escape: for . */
};

int
class_add(struct class_draft *d, uint32_t low, uint32_t high)
{
	struct pattern_range *grown;

	if (d->n == d->cap) {
		grown = reallocarray(d->ranges, d->cap * 2 + 8, sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		d->ranges = grown;
		d->cap = d->cap * 2 + 8;
	}
	d->ranges[d->n++] = (struct pattern_range){ low, high };
	return 0;
}

int
class_add_set(struct class_draft *d, char name, bool opposite)
{
	uint32_t from = 0;
	size_t i, k;
	int r = 0;

	for (i = 0; sets[i].name != name; i++)
		;
	for (k = 0; k < sets[i].n && r == 0; k++) {
		if (!opposite)
			r = class_add(d, sets[i].ranges[k].low, sets[i].ranges[k].high);
		else if (sets[i].ranges[k].low > from)
			r = class_add(d, from, sets[i].ranges[k].low - 1);
		from = sets[i].ranges[k].high + 1;
	}
	return r == 0 && opposite ? class_add(d, from, CODE_POINT_MAX) : r;
}

static int
compare_ranges(const void *a, const void *b)
{
	const struct pattern_range *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

/* Sorts, and joins what overlaps or touches. */
static int
join(struct class_draft *d)
{
	struct pattern_range *at = d->ranges;
	size_t i;

	if (d->n == 0)
		return 0;
	if (heapsort(d->ranges, d->n, sizeof(*d->ranges), compare_ranges) < 0)
		return -ENOMEM;
	for (i = 1; i < d->n; i++) {
		if (d->ranges[i].low > at->high + 1)
			*++at = d->ranges[i];
		else if (d->ranges[i].high > at->high)
			at->high = d->ranges[i].high;
	}
	d->n = (size_t)(at - d->ranges) + 1;
	return 0;
}

/* Everything that is not in `d`, which is joined. */
static int
turn_round(struct class_draft *d)
{
	struct class_draft other = { NULL, 0, 0 };
	uint32_t from = 0;
	size_t i;
	int r = 0;

	for (i = 0; i < d->n && r == 0; i++) {
		if (d->ranges[i].low > from)
			r = class_add(&other, from, d->ranges[i].low - 1);
		from = d->ranges[i].high + 1;
	}
	if (r == 0 && from <= CODE_POINT_MAX)
		r = class_add(&other, from, CODE_POINT_MAX);
	class_finish(d);
	*d = other;
	return r;
}

int
class_make(
    struct class_draft *d, bool opposite, struct zone *z, const struct pattern_class **ret)
{
	struct pattern_class *c = zone_alloc(z, 1, sizeof(*c));
	uint32_t character;
	size_t i;
	int r;

	r = c == NULL ? -ENOMEM : join(d);
	if (r == 0 && opposite)
		r = turn_round(d);
	if (r < 0)
		return r;
	c->ranges = zone_alloc(z, d->n, sizeof(*c->ranges));
	if (c->ranges == NULL)
		return -ENOMEM;
	for (i = 0; i < d->n; i++) {
		for (character = d->ranges[i].low;
		     character <= d->ranges[i].high && character < 128; character++)
			c->ascii[character / 32] |= UINT32_C(1) << character % 32;
		if (d->ranges[i].high >= 128)
			c->ranges[c->n++] = d->ranges[i];
	}
	*ret = c;
	return 0;
}

void
class_finish(struct class_draft *d)
{
	free(d->ranges);
	*d = (struct class_draft){ NULL, 0, 0 };
}
