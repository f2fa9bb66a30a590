#include "broker/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/schema_rules.h"

static int
slice_compare(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

	return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

int
schema_compare_choices(const void *a, const void *b)
{
	return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

int
schema_compare_properties(const void *a, const void *b)
{
	return slice_compare(
	    ((const struct property *)a)->name, ((const struct property *)b)->name);
}

struct property *
schema_find(const struct schema *s, struct slice name)
{
	struct property key = { .name = name };

	if (s->n == 0)
		return NULL;
	return bsearch(&key, s->properties, s->n, sizeof(key), schema_compare_properties);
}

void
schema_destroy(struct schema *s)
{
	if (s == NULL)
		return;
	zone_finish(&s->zone);
	free(s);
}

int
schema_property(const struct schema *s, const char *name, size_t n, enum schema_type *ret_type,
    bool *ret_required)
{
	const struct property *p;

	p = schema_find(s, (struct slice){ (const uint8_t *)name, n });
	if (p == NULL)
		return -ENOENT;
	*ret_type = p->type;
	*ret_required = p->required;
	return 0;
}

/* ---- a call --------------------------------------------------------------------------- */

static uint64_t
characters(struct slice s)
{
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < s.n; i++)
		count += (s.p[i] & 0xc0) != 0x80;
	return count;
}

/* The rule that a string breaks; "" if none. */
static const char *
string_fault(const struct property *p, const struct value *v)
{
	uint64_t n;

	if (v->type != VALUE_STR)
		return "is not a string";
	n = v->bytes.n;
	/* A character has one to four bytes, which mostly settles it without counting. */
	if (n > p->max_length || (n + 3) / 4 < p->min_length) {
		n = characters(v->bytes);
		if (n < p->min_length)
			return "is shorter than minLength";
		if (n > p->max_length)
			return "is longer than maxLength";
	}
	if (p->choices != NULL && bsearch(&v->bytes, p->choices, p->nchoices,
				      sizeof(*p->choices), schema_compare_choices) == NULL)
		return "is not in enum";
	return "";
}

static const char *
number_fault(const struct property *p, const struct value *v)
{
	if (p->type == SCHEMA_INTEGER && v->type != VALUE_UINT && v->type != VALUE_INT)
		return "is not an integer";
	if (!value_is_number(v))
		return "is not a number";
	if (p->has_minimum && value_number(v) < p->minimum)
		return "is less than minimum";
	if (p->has_maximum && value_number(v) > p->maximum)
		return "is more than maximum";
	return "";
}

static const char *
array_fault(const struct property *p, const struct value *v)
{
	struct slice in = v->raw;
	struct value item;
	const char *rule = "";
	uint32_t i;

	if (v->type != VALUE_ARRAY)
		return "is not an array";
	value_open(&in);
	for (i = 0; i < v->count && *rule == '\0'; i++) {
		item = value_skip(&in);
		rule = string_fault(p, &item);
		if (*rule != '\0')
			rule = item.type != VALUE_STR ? "has an item that is not a string"
						      : "has an item that its schema refuses";
	}
	return rule;
}

static const char *
property_fault(const struct property *p, const struct value *v)
{
	switch (p->type) {
	case SCHEMA_STRING: return string_fault(p, v);
	case SCHEMA_INTEGER:
	case SCHEMA_NUMBER: return number_fault(p, v);
	case SCHEMA_BOOLEAN: return v->type == VALUE_BOOL ? "" : "is not a boolean";
	case SCHEMA_ARRAY: return array_fault(p, v);
	case SCHEMA_OBJECT: return v->type == VALUE_MAP ? "" : "is not an object";
	}
	return "has a type that is none";
}

int
schema_check(const struct schema *s, struct slice arguments, char *err, size_t cap)
{
	bool seen[SCHEMA_PROPERTIES_MAX] = { false };
	const struct property *p;
	struct slice in = arguments;
	struct value map, v;
	const char *rule;
	size_t i;

	map = value_open(&in);
	if (map.type != VALUE_MAP) {
		snprintf(err, cap, "the arguments are not a map");
		return -EINVAL;
	}
	for (i = 0; i < map.count; i++) {
		p = schema_find(s, value_key(&in));
		v = value_skip(&in);
		if (p == NULL && s->open)
			continue;
		if (p == NULL) {
			/* Its name is the caller's text: it is counted, not repeated. */
			snprintf(err, cap, "argument %zu is not one of the tool's", i + 1);
			return -EINVAL;
		}
		rule = property_fault(p, &v);
		if (*rule != '\0') {
			snprintf(err, cap, "%s: %s", (const char *)p->name.p, rule);
			return -EINVAL;
		}
		seen[p - s->properties] = true;
	}
	for (i = 0; i < s->n; i++) {
		if (!s->properties[i].required || seen[i])
			continue;
		snprintf(err, cap, "%s: is required", (const char *)s->properties[i].name.p);
		return -EINVAL;
	}
	return 0;
}
