/*
 * journal: the end of the record.  Appends, and never reads or changes (D-11, D-16).
 *
 * Owns the descriptors of its segments, one sync thread and an eventfd.  The loop never
 * waits: writes are appended at once (write(2) on an O_APPEND descriptor), syncs run on
 * the thread, one for everything that waits, again as soon as the last one ended.  With
 * durability `relaxed`, what is written counts as durable.
 *
 * Records appended during one turn of the loop leave in one write at its end, before
 * anything waits for it; the records and their callbacks keep the order of the appends.
 *
 * Outages (docs/ARCHITECTURE.md, "The journal"): a failed or short write, or a failed
 * sync, closes the segment for good and a new one is asked for, again and again while
 * there is none.  After a failed write the records that are not whole in the file are
 * refused; those before them wait for the sync that ends the segment.  After a failed
 * sync everything that waited is refused; what was written whole stays in the chain, so
 * that a refused use stays spent until its release is recorded (D-10, D-11).  Refused
 * endings are kept and follow directly behind segment.opened in the next segment.  A sync
 * that has not ended for a while (journal_stall_after()) is an outage that lasts until it
 * ends: nothing waits for it any more, and the segment is left.  A segment that failed
 * before anything of it was on the disk is not followed by another at once.
 */
#ifndef BROKER_JOURNAL_H
#define BROKER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/journal.h"

struct event_base;
struct journal;

/* The only two things done to a segment's descriptor; tests replace them by a plan
 * (journal_plan.c). */
struct journal_io {
	ssize_t (*append)(int fd, const struct iovec *iov, int n);
	int (*sync)(int fd);
};
extern const struct journal_io journal_io_system;

/* Called from the loop, once per journal_append() with a callback: `ok` says whether the
 * record is as durable as the configuration says.  Where it is not, journal_lost() says from
 * within the callback whether it stands in no file at all. */
typedef void journal_fn(void *arg, bool ok);

struct journal_handler {
	/* A new segment is wanted; answer with journal_segment() or journal_no_segment(). */
	void (*on_segment_wanted)(uint64_t number, void *arg);
	/* The journal can be written (again), or cannot: nothing new may start. */
	void (*on_available)(bool available, void *arg);
};

/*
 * Starts the sync thread: call it before a filter forbids that.
 * `chain`, `count`, `segment` and `length` are what the ledger said of the record so far;
 * the first segment is then asked for from the loop.  With `chain` NULL nothing is known
 * yet: journal_state() brings it, and nothing is asked for before.  `handler` and `arg`
 * are borrowed.  Returns NULL with errno set.
 */
struct journal *journal_create(struct event_base *base, const struct journal_io *io,
    bool durable, uint64_t count, const uint8_t chain[JOURNAL_HASH], uint64_t segment,
    uint64_t length, const struct journal_handler *handler, void *arg);
/* What the ledger said, once, after journal_create() without a chain. */
void journal_state(struct journal *j, uint64_t count, const uint8_t chain[JOURNAL_HASH],
    uint64_t segment, uint64_t length);
/*
 * A sync that takes longer than `ms` is an outage: what waits for it is refused, so that no
 * ending waits for a disk that does not answer (D-9, D-11).  0, as at the start: never.
 */
void journal_stall_after(struct journal *j, uint32_t ms);
/*
 * Writes and syncs what is there, waits a bounded time for the thread, releases everything.
 * Callbacks that still wait are not called.  NULL is allowed.
 */
void journal_destroy(struct journal *j);

/*
 * A segment has arrived; takes the descriptor (also when it is not the one that was asked
 * for: then it is closed, and asked for again).  It is begun when the one before it is full or
 * closed, and synced to its end.
 */
void journal_segment(struct journal *j, int fd, uint64_t number, uint64_t reserved_bytes);
/* The segment asked for cannot be made (an errno); it is asked for again after a while. */
void journal_no_segment(struct journal *j, int error);

/*
 * How long an outcome, which follows its reply (D-11), waits for company: the decision of the
 * next call, in most turns.
 */
#define JOURNAL_LATE_MS 50

/* How much of the reservation at the end of a segment a record may use. */
enum journal_class {
	JOURNAL_EFFECT, /* a new effect: refused when only the reserve is left */
	JOURNAL_ENDING, /* endings: may use the reserve */
	/* as an ending, but nobody waits: it leaves with the next write, or JOURNAL_LATE_MS
	 * later */
	JOURNAL_OUTCOME,
	JOURNAL_RELEASE, /* as an ending, but its callback stays with it through an outage */
};

/*
 * Appends one packed record.  `done` (may be NULL) is called from the loop, never from within.
 * Returns 0; -EIO in an outage, -ENOSPC when there is no room (for an EFFECT: none but the
 * reserve), -EAGAIN before the first segment: then `done` is not called, and an ENDING is
 * kept and written first once writing works.  A RELEASE is kept in the same cases, and
 * returns 0: `done` is called once it stands.  -ERANGE, -ENOMEM as journal_seal(), and
 * nothing is kept.
 */
int journal_append(struct journal *j, struct slice record, enum journal_class class,
    journal_fn *done, void *arg);

/* From within a callback: the record was refused, and nothing of it is in any file. */
bool journal_lost(const struct journal *j);
/* True while endings are kept that could not be written. */
bool journal_holds(const struct journal *j);
/* Times that the sync thread was asked for one. */
uint64_t journal_syncs(const struct journal *j);
/* True while effects may start. */
bool journal_available(const struct journal *j);

#endif /* BROKER_JOURNAL_H */
