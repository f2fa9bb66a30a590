/*
 * schema_compile: what the parts of the compiler share.  A declaration is copied; every
 * schema in it becomes a node, each keyword one of its rules (schema_keywords.c), and then the
 * references are joined (schema_refs.c).
 */
#ifndef BROKER_SCHEMA_COMPILE_H
#define BROKER_SCHEMA_COMPILE_H

#include "broker/schema_rules.h"

struct compiler {
	struct schema *schema;
	struct slice text; /* its copy of the declaration */
	struct schema_node *nodes[SCHEMA_NODES_MAX];
	size_t nnodes;
	size_t instructions; /* of all patterns */
	char *err;
	size_t cap;
};

/* Which of a node's rules there are. */
enum {
	RULES_TEXT = 1,
	RULES_NUMBER = 2,
	RULES_ARRAY = 4,
	RULES_OBJECT = 8,
	RULES_ANY = 16,
};

/* A node while its keywords are read. */
struct parts {
	struct schema_node *node;
	unsigned used; /* RULES_ */
	struct text_rules text;
	struct number_rules number;
	struct array_rules array;
	struct object_rules object;
	struct any_rules any;
	/* read together at the end; raw.n == 0: not there */
	struct value properties, required, dependencies;
};

/* Writes "/properties/path/pattern: what" and returns -EINVAL; NULL is the root. */
int compile_fail(struct compiler *c, const struct where *w, const char *what);
/* A place that stays; NULL if memory is out. */
const struct where *compile_where(struct compiler *c, const struct where *up, struct slice key);

/* These return 0, or the errors of schema_compile(). */
int compile_node(
    struct compiler *c, const struct where *w, const struct value *v, struct schema_node **ret);
int compile_list(
    struct compiler *c, const struct where *w, const struct value *v, struct node_list *ret);
int compile_pattern(
    struct compiler *c, const struct where *w, struct slice text, const struct pattern **ret);
/* The keyword `key` of a schema at `w`. */
int compile_keyword(struct compiler *c, struct parts *p, const struct where *w,
    struct slice key, const struct value *v);
/* properties, required and dependencies. */
int compile_names(struct compiler *c, struct parts *p, const struct where *w);
/* Follows every reference and bounds what applies to one value. */
int compile_refs(struct compiler *c);

#endif /* BROKER_SCHEMA_COMPILE_H */
