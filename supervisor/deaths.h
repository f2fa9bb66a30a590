/*
 * deaths: when the last few of a kind of process died, so that what dies again and again is not
 * made again and again.  A ring; zeroes are none so far.  Nothing takes a death back but time.
 */
#ifndef SUPERVISOR_DEATHS_H
#define SUPERVISOR_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#define DEATHS_MAX 5 /* that are forgiven within a window */

struct deaths {
	uint64_t at_ms[DEATHS_MAX];
	unsigned n; /* in all */
};

/* Notes one; were there more than DEATHS_MAX within `window_ms`, with it? */
bool deaths_note(struct deaths *d, uint64_t now_ms, unsigned window_ms);
/* Has there been one within `window_ms`? */
bool deaths_recent(const struct deaths *d, uint64_t now_ms, unsigned window_ms);

#endif /* SUPERVISOR_DEATHS_H */
