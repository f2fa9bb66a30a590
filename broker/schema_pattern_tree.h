/*
 * schema_pattern_tree: a parsed pattern, between schema_pattern_parse.c, which makes it, and
 * schema_pattern.c, which makes a program of it.
 */
#ifndef BROKER_SCHEMA_PATTERN_TREE_H
#define BROKER_SCHEMA_PATTERN_TREE_H

#include "broker/schema_pattern.h"

#define PATTERN_UNBOUNDED UINT32_MAX

enum pattern_op {
	PATTERN_CHARACTER,
	PATTERN_CLASS,
	PATTERN_START,
	PATTERN_END,
	PATTERN_EDGE, /* of a word */
	PATTERN_NO_EDGE,
	/* in trees only */
	PATTERN_SEQUENCE,
	PATTERN_CHOICE,
	PATTERN_REPEAT,
	/* in programs only */
	PATTERN_SPLIT,
	PATTERN_JUMP,
	PATTERN_MATCH,
};

struct pattern_range {
	uint32_t low, high;
};

struct pattern_class {
	uint32_t ascii[4];	      /* a bit for each character below 128 */
	struct pattern_range *ranges; /* of the others: sorted, apart */
	size_t n;
};

struct pattern_node {
	enum pattern_op op;
	uint32_t min, max;		   /* REPEAT */
	uint32_t character;		   /* CHARACTER */
	const struct pattern_class *class; /* CLASS */
	struct pattern_node *first;	   /* SEQUENCE, CHOICE, REPEAT */
	struct pattern_node *next;	   /* of the same parent */
};

/* Parses into `trees`, classes into `z`.  Errors are those of pattern_compile(). */
int pattern_parse(struct slice text, struct zone *trees, struct zone *z,
    struct pattern_node **ret, const char **ret_why);

#endif /* BROKER_SCHEMA_PATTERN_TREE_H */
