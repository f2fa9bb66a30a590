/*
 * schema_rules: a compiled schema, shared by schema_compile.c and schema_keywords.c, which
 * make it, schema_refs.c, which joins its parts, and schema.c, which checks with it.
 */
#ifndef BROKER_SCHEMA_RULES_H
#define BROKER_SCHEMA_RULES_H

#include "broker/schema.h"
#include "broker/schema_pattern.h"
#include "broker/schema_value.h"
#include "broker/zone.h"
#include "common/walk.h"

/*
 * How many schemas may apply to the same value one within the other (allOf and the like): it
 * bounds, with VALUE_DEPTH_MAX, the recursion of a check.
 */
#define SCHEMA_COMPOSED_MAX 16

/* Where in the declaration something stands: a JSON pointer, from its end. */
struct where {
	const struct where *up; /* NULL: the root's */
	struct slice key;
};

struct node_list {
	struct schema_node **node;
	size_t n;
};

struct text_rules {
	uint64_t min, max; /* characters */
	const struct pattern *pattern;
};

struct number_rules {
	bool has_minimum, has_maximum, has_above, has_below, has_multiple;
	/* inclusive, inclusive, exclusive, exclusive */
	long double minimum, maximum, above, below;
	struct decimal multiple;
};

struct array_rules {
	uint64_t min, max;
	bool unique;
	struct schema_node *each; /* NULL: any */
	struct node_list first;	  /* instead of `each`, of so many */
	struct schema_node *rest; /* behind `first`; NULL: any */
	struct schema_node *contains;
};

/* What properties, required and dependencies name. */
struct name_rule {
	struct slice name;
	struct schema_node *node; /* of properties; NULL: not there */
	bool required;
};

struct name_pattern {
	const struct pattern *pattern;
	struct schema_node *node;
};

struct dependency {
	size_t name;		  /* of names[] */
	struct schema_node *node; /* NULL: needs */
	size_t *needs;		  /* likewise */
	size_t nneeds;
};

/* A bit for each of the names of an object. */
struct name_bits {
	uint64_t words[SCHEMA_NAMES_MAX / 64];
};

struct object_rules {
	uint64_t min, max;
	struct name_rule *names; /* sorted: schema_find() */
	size_t nnames;
	struct name_bits required;
	struct name_pattern *patterns;
	size_t npatterns;
	struct schema_node *additional; /* NULL: any */
	struct schema_node *each_name;
	struct dependency *dependencies;
	size_t ndependencies;
};

/* Canonical values, sorted. */
struct value_set {
	struct slice *value;
	size_t n;
};

struct any_rules {
	struct value_set choices, constant; /* n == 0: no rule */
	struct node_list all, any, one;
	struct schema_node * not, *condition, *then, *otherwise;
};

struct schema_node {
	struct schema_node *ref; /* this one instead; it has none */
	uint8_t kinds;		 /* that are let in: KIND_ANY if there is no type */
	bool never;		 /* false */
	bool rules;		 /* there are some of those below */
	const struct text_rules *text;
	const struct number_rules *number;
	const struct array_rules *array;
	const struct object_rules *object;
	const struct any_rules *any;
	const struct where *where;
	/* only while it is made */
	const uint8_t *source; /* where it begins */
	struct slice ref_text; /* $ref; p is NULL: none */
	uint8_t height;	       /* of what applies to the same value; 0: not known */
	bool open;	       /* its height is being found */
};

struct schema {
	struct schema_node *root;
	uint8_t *text;	/* the declaration; names and pointers lie in it */
	size_t scratch; /* words that its largest pattern needs */
	struct zone zone;
};

/*
 * Writes the pointer of `w` into `text` (`cap` bytes, NUL included), "/" for the root.  Returns
 * how long it is there.
 */
size_t schema_pointer(const struct where *w, char *text, size_t cap);

/* `n` with its reference followed. */
static inline const struct schema_node *
schema_target(const struct schema_node *n)
{
	return n->ref != NULL ? n->ref : n;
}

/* An order of names and values that is cheap: by length, then bytes. */
static inline int
schema_order(struct slice a, struct slice b)
{
	if (a.n != b.n)
		return a.n < b.n ? -1 : 1;
	return a.n == 0 ? 0 : memcmp(a.p, b.p, a.n);
}

/* The rule of that name; NULL if there is none. */
static inline const struct name_rule *
schema_find(const struct object_rules *o, struct slice name)
{
	size_t low = 0, high = o->nnames, middle;
	int order;

	if (high <= 8) { /* most tools */
		for (; low < high; low++)
			if (o->names[low].name.n == name.n &&
			    memcmp(o->names[low].name.p, name.p, name.n) == 0)
				return &o->names[low];
		return NULL;
	}
	while (low < high) {
		middle = low + (high - low) / 2;
		order = schema_order(name, o->names[middle].name);
		if (order == 0)
			return &o->names[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

#endif /* BROKER_SCHEMA_RULES_H */
