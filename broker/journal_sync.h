/*
 * journal_sync: the thread that syncs segments, beside the loop.
 *
 * Owns the thread and an eventfd that is readable when a result waits.  The thread does
 * nothing but io->sync(), futex calls and writes to the eventfd; all signals are blocked
 * in it.  It syncs again as soon as the last sync has ended while anything is asked for.
 * Every function is for the loop's thread.
 */
#ifndef BROKER_JOURNAL_SYNC_H
#define BROKER_JOURNAL_SYNC_H

#include <stdbool.h>
#include <stdint.h>

struct journal_io;
struct journal_sync;

struct journal_sync_result {
	uint64_t synced; /* every record up to this sequence is on the disk */
	int error; /* errno of a failed sync; the thread rests until journal_sync_next() */
	bool idle; /* nothing is running and nothing is asked for */
};

/* Returns NULL with errno set. */
struct journal_sync *journal_sync_create(const struct journal_io *io);
/*
 * Ends the thread, which must be idle or failed.  One that still is in a sync, as
 * journal_sync_wait() said, is left behind with what it uses: the process ends without it.
 * NULL is allowed.
 */
void journal_sync_destroy(struct journal_sync *s);

/* The eventfd: readable, non-blocking; reading it clears it. */
int journal_sync_fd(const struct journal_sync *s);

/*
 * Asks for a sync of `fd` that covers everything written so far, up to the sequence
 * `target`.  `fd` stays the caller's and open until a result says idle or error.
 */
void journal_sync_ask(struct journal_sync *s, int fd, uint64_t target);
/* What has come of it. */
struct journal_sync_result journal_sync_poll(struct journal_sync *s);
/* Forgets an error: what comes next is on another segment, and counts from `target`. */
void journal_sync_next(struct journal_sync *s, uint64_t target);
/* Waits until idle or failed, at most `ms`: only for the end of the process. */
struct journal_sync_result journal_sync_wait(struct journal_sync *s, unsigned ms);

#endif /* BROKER_JOURNAL_SYNC_H */
