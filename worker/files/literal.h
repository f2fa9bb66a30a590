/*
 * literal: where a text stands in a stream of bytes, in one pass over it.
 *
 * Each byte is looked at once and costs two steps at most on average, whatever the text:
 * the state between two blocks is how much of the text stands at the end of the first
 * (Knuth, Morris and Pratt).  Pure.
 */
#ifndef WORKER_FILES_LITERAL_H
#define WORKER_FILES_LITERAL_H

#include <stdbool.h>

#include "common/protocol.h"

#define LITERAL_MAX 256 /* bytes */

struct literal {
	uint8_t text[LITERAL_MAX]; /* folded */
	uint16_t back[LITERAL_MAX]; /* the next shorter state behind the first i + 1 bytes */
	uint8_t fold[256];
	size_t n;
	bool ignore_case;
};

/* `text` has 1..LITERAL_MAX bytes.  With `ignore_case` A-Z are a-z; nothing else is folded. */
void literal_init(struct literal *l, struct slice text, bool ignore_case);

/*
 * Goes on in `n` bytes at `p` with `*state`, 0 at the beginning.  Returns how many it took
 * up to the end of the text and sets the state to 0, so that what is found does not
 * overlap; or 0 if the text does not end in them.
 */
size_t literal_find(const struct literal *l, const uint8_t *p, size_t n, size_t *state);

#endif /* WORKER_FILES_LITERAL_H */
