/*
 * verb: the second word of a command that has several.
 *
 * May: nothing but compare and format.
 */
#ifndef CLIENT_VERB_H
#define CLIENT_VERB_H

#include <stddef.h>

#define VERB_FAULT_MAX 256

/* The name of verb `i`, with what it takes, if that is to be said; NULL behind the last. */
typedef const char *verb_name_fn(size_t i);

/*
 * Writes what is wrong with `typed`, which is none of them, or NULL, if nothing was given: one
 * line without the program's name, that ends with all there are.
 */
void verb_fault(const char *command, verb_name_fn *name, const char *typed,
    char ret[VERB_FAULT_MAX]);

#endif /* CLIENT_VERB_H */
