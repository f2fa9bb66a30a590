/*
 * pace: does a client read, so that what it follows waits for it?
 *
 * An operation in a session waits for the fastest of those who follow it and read (feed.h).  A
 * client reads as long as its link takes what is queued there: one whose window is full, and
 * whose peer has taken nothing for PACE_MS, is waited for no more until that has read again.
 * Whoever has just come has shown nothing yet: all such clients of one operation have one
 * credit of PACE_MS together, so that any number of them delays it once.  Who turns out to read
 * gives the credit back.
 *
 * Pure: the clock is an argument.
 */
#ifndef BROKER_PACE_H
#define BROKER_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What is a pause of a reader, and not its absence: longer than a busy machine, a garbage
 * collection or a round of the world take, and than the gateway's sockets need to make room at
 * 1 MB/s; short enough that a terminal that is stopped, or a network that is gone, costs an
 * operation no more than that.
 */
#define PACE_MS 1000

/* Of a client.  Starts as zeroes. */
struct pace {
	uint64_t nreads; /* of its link, as last seen */
	uint64_t since_ms; /* it was seen to read, or its window became full */
	bool full; /* and was not seen to have room since */
	bool reads; /* it was seen to, ever */
};

/* Of an operation, for those of whom nothing is known.  Starts as zeroes. */
struct pace_credit {
	uint64_t until_ms; /* 0: it is whole */
};

/* Its link has read `nreads` times (link_reads()).  True if that is the first that is seen of
 * it: the credit of what it follows is whole again. */
bool pace_look(struct pace *p, uint64_t nreads, uint64_t now_ms);
/* Its window is full, or has room. */
void pace_fill(struct pace *p, uint64_t now_ms);
void pace_empty(struct pace *p);
/* While its window is full: it is waited for until then; what has passed: it is not. */
uint64_t pace_until(const struct pace *p, struct pace_credit *credit, uint64_t now_ms);

#endif /* BROKER_PACE_H */
