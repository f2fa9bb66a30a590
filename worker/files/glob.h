/*
 * glob: patterns of one name.  `*` any text, `?` one character, `[a-z]` and `[!a-z]` one
 * character of a set, everything else itself.  Characters are UTF-8 code points; a `/` or
 * a leading dot is nothing special.  Never exponential: only the last star is tried again.
 * Pure.
 */
#ifndef WORKER_FILES_GLOB_H
#define WORKER_FILES_GLOB_H

#include <stdbool.h>

#include "common/protocol.h"

/* Is the pattern one?  Only a set without its end, or an empty one, is not. */
bool glob_is_valid(struct slice pattern);

/*
 * Does valid UTF-8 `name` match a valid pattern?  Adds the steps it took to `*steps`: at
 * most the product of the two lengths.
 */
bool glob_match(struct slice pattern, struct slice name, uint64_t *steps);

#endif /* WORKER_FILES_GLOB_H */
