/*
 * schema_check: what the parts of a check share: schema.c, which goes through objects, arrays
 * and compositions, and schema_scalar.c.
 *
 * The functions return 0; -EINVAL, with the reason written unless `quiet`; -E2BIG once no steps
 * are left; -ENOMEM.
 */
#ifndef BROKER_SCHEMA_CHECK_H
#define BROKER_SCHEMA_CHECK_H

#include "broker/schema_rules.h"

struct check {
	const struct schema *schema;
	uint32_t *scratch; /* for patterns; NULL until it is needed */
	int64_t left;	   /* steps */
	unsigned quiet;
	char *err;
	size_t cap;
};

/* Where in the value: NULL is its root. */
struct place {
	const struct place *up;
	struct slice name; /* of the schema's; p is NULL: `position` */
	size_t position;
	bool member; /* of an object, with a name that is not to be told */
};

/* Refuses what is at `at`, by a keyword (NULL: all) of the node. */
int check_refuse(struct check *c, const struct schema_node *n, const struct place *at,
    const char *keyword, const char *what);
int check_type(struct check *c, const struct schema_node *n, const struct place *at);
int check_text(struct check *c, const struct schema_node *n, const struct value *v,
    const struct place *at);
int check_number(struct check *c, const struct schema_node *n, const struct value *v,
    const struct place *at);
/* enum and const */
int check_sets(struct check *c, const struct schema_node *n, const struct value *v,
    const struct place *at);
int check_unique(struct check *c, const struct schema_node *n, const struct value *v,
    const struct place *at);
/* Returns 1 or 0; -E2BIG, -ENOMEM. */
int check_pattern(struct check *c, const struct pattern *p, struct slice text);

#endif /* BROKER_SCHEMA_CHECK_H */
