/*
 * options_private: what options.c needs of options_pairs.c, which reads the values of
 * repeatable options.
 */
#ifndef COMMON_OPTIONS_PRIVATE_H
#define COMMON_OPTIONS_PRIVATE_H

#include "common/options.h"

/* The index of `word` among "one|another"; -ENOENT if it is none. */
int options_choice(const char *choices, const char *word);

/*
 * Splits `text`, which is written to and goes on to be owned by `ret->left`, as `kind`, one of
 * the repeatable ones, has it.  Returns NULL, or what is wrong with it, as the rest of a
 * sentence.
 */
const char *options_split(enum option_kind kind, char *text, struct option_pair *ret);

#endif /* COMMON_OPTIONS_PRIVATE_H */
