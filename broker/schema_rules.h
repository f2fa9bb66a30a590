/*
 * schema_rules: a compiled schema, shared by schema_compile.c, which makes it, and
 * schema.c, which checks with it.
 */
#ifndef BROKER_SCHEMA_RULES_H
#define BROKER_SCHEMA_RULES_H

#include "broker/schema.h"
#include "broker/zone.h"
#include "common/walk.h"

struct property {
	struct slice name; /* NUL-terminated beyond its end */
	enum schema_type type;
	bool required;
	/* of a string, and of each item of an array */
	uint64_t min_length, max_length; /* characters */
	struct slice *choices;		 /* sorted; NULL: any */
	size_t nchoices;
	/* of an integer or number; a long double holds every uint64_t, int64_t and double */
	bool has_minimum, has_maximum;
	long double minimum, maximum;
};

struct schema {
	bool open;		     /* additionalProperties */
	struct property *properties; /* sorted by name */
	size_t n;
	struct zone zone;
};

/* Orders of properties (by name) and choices (struct slice), for qsort() and bsearch(). */
int schema_compare_properties(const void *a, const void *b);
int schema_compare_choices(const void *a, const void *b);

/* The property of that name; NULL if there is none. */
struct property *schema_find(const struct schema *s, struct slice name);

static inline bool
value_is_number(const struct value *v)
{
	return v->type == VALUE_UINT || v->type == VALUE_INT || v->type == VALUE_FLOAT;
}

/* Of a value_is_number(), exactly: a long double holds what each of the three can. */
static inline long double
value_number(const struct value *v)
{
	return v->type == VALUE_UINT  ? (long double)v->uint
	       : v->type == VALUE_INT ? (long double)v->sint
				      : (long double)v->real;
}

#endif /* BROKER_SCHEMA_RULES_H */
