/*
 * nearest: the word that somebody probably meant, of those there are.
 *
 * Letters left out, put in, mistaken or swapped are counted; what is the beginning of a word
 * counts as one.  More than one fault in three letters is another word, and so is what shares
 * nothing with it.
 */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

#define NEAREST_MAX 32 /* bytes of a word; a longer one is like none */

struct nearest {
	const char *typed;
	size_t ntyped;
	const char *word; /* the nearest so far, borrowed; NULL: none is near */
	size_t nword;
	size_t faults; /* what it may at most have to be nearer */
};

/* `typed` is borrowed, of `n` bytes. */
void nearest_init(struct nearest *s, const char *typed, size_t n);
/* One word that might be meant, borrowed, of `n` bytes.  The first of equals stays. */
void nearest_offer(struct nearest *s, const char *word, size_t n);

#endif /* COMMON_NEAREST_H */
