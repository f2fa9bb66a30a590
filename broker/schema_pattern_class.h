/*
 * schema_pattern_class: sets of characters, as ranges that become a class.
 */
#ifndef BROKER_SCHEMA_PATTERN_CLASS_H
#define BROKER_SCHEMA_PATTERN_CLASS_H

#include "broker/schema_pattern_tree.h"

/* Starts as zeroes. */
struct class_draft {
	struct pattern_range *ranges;
	size_t n, cap;
};

/* Adds characters, first and last included.  Returns 0 or -ENOMEM. */
int class_add(struct class_draft *d, uint32_t low, uint32_t high);
/* Adds the set that \d, \w or \s means, or with 'n' line terminators.  Likewise. */
int class_add_set(struct class_draft *d, char name, bool opposite);
/* Makes a class of it, or of everything else, in `z`.  Returns 0 or -ENOMEM. */
int class_make(
    struct class_draft *d, bool opposite, struct zone *z, const struct pattern_class **ret);
void class_finish(struct class_draft *d);

#endif /* BROKER_SCHEMA_PATTERN_CLASS_H */
