/*
 * journal_private: what journal.c (the interface, the turn of the loop) and
 * journal_segment.c (what happens to files) share.
 */
#ifndef BROKER_JOURNAL_PRIVATE_H
#define BROKER_JOURNAL_PRIVATE_H

#include "broker/journal.h"
#include "broker/journal_sync.h"
#include "common/alarm.h"

struct event;

#define JOURNAL_RETRY_MS 1000 /* between two requests for a segment that could not be made */

enum phase {
	PHASE_UNKNOWN, /* the ledger has not spoken */
	PHASE_NONE,    /* no segment to write to */
	PHASE_OPEN,    /* entries go to `out`, and from there to `fd` */
	PHASE_LEAVING, /* `fd` is synced to its end; records are held for the next segment */
};

/* One record from its append to its callback. */
struct waiter {
	journal_fn *done;
	void *arg;
	enum journal_class class;
	bool refused;
	bool lost; /* and in no file */
};

/*
 * Records are numbered from 1 in the order of their appends (not as in the chain, where
 * segment.opened counts too):
 *
 *	synced_seq <= written_seq <= sealed_seq < next_seq
 *	           in the file    in `out`      in `held`
 */
struct journal {
	const struct journal_io *io;
	const struct journal_handler *handler;
	void *arg;
	bool durable;
	struct event *turn; /* active: something is left for the end of this turn */
	struct event *on_sync;
	struct alarms *alarms;
	struct alarm late; /* set: an outcome waits for company */
	struct alarm retry;
	struct alarm stall; /* set while a sync is on its way */
	uint32_t stall_ms;
	struct journal_sync *sync;
	enum phase phase;
	bool failed; /* the segment before failed, and no other has come */
	bool proven; /* something of this segment is on the disk */
	unsigned barren; /* segments before it that failed in a row, unproven */
	bool lost;   /* for journal_lost() */
	bool told;   /* what on_available() said last */

	/* The record as it stands in files, and with `out` added to it. */
	uint64_t segment, length, count;
	uint8_t chain[JOURNAL_HASH];
	uint64_t sealed_count;
	uint8_t sealed_chain[JOURNAL_HASH];

	int fd;		   /* of `segment`, or -1 */
	uint64_t reserved; /* bytes of it */
	int next_fd;	   /* the segment after it, or -1 */
	uint64_t next_reserved;
	bool asked; /* for a segment, and no answer yet */
	bool want;  /* ask at the end of this turn */

	struct buf out;	 /* entries */
	bool opening;	 /* the first of them is segment.opened */
	struct buf held; /* u32 length in the host's order, packed map; again */

	struct waiter *ring; /* of cap waiters: records first_seq..next_seq - 1 */
	size_t cap;
	uint64_t syncs; /* that were asked for */
	uint64_t first_seq, next_seq, sealed_seq, written_seq, synced_seq, asked_seq;
};

/* The record numbered `seq`, which is waited for. */
struct waiter *journal_waiter(struct journal *j, uint64_t seq);
/* The next number.  Returns 0 or -ENOMEM. */
int journal_waiter_push(
    struct journal *j, enum journal_class class, journal_fn *done, void *arg);

/* Something is left for the end of this turn of the loop. */
void journal_wake(struct journal *j);
void journal_want_segment(struct journal *j);
/* Sets the alarm unless it is set. */
void journal_alarm(struct journal *j, struct alarm *a, uint64_t in_ms);

/* Keeps a packed record for the next segment.  Returns 0, -ENOSPC or -ENOMEM. */
int journal_hold(struct journal *j, const uint8_t *p, size_t n);
/* One write for all that this turn appended; a failed one leaves the segment. */
void journal_flush(struct journal *j);
/* Nothing is appended to this segment any more: it is synced to its end, then left. */
void journal_leave(struct journal *j);
/* The old segment is left, and the next is there: its first records. */
void journal_begin(struct journal *j);
/* Asks for a sync of all that is written, and watches how long it takes. */
void journal_ask_sync(struct journal *j);
/* The sync thread has something to tell. */
void journal_settle_sync(struct journal *j);
/* It had nothing to tell for too long. */
void journal_give_up_sync(struct journal *j);

/* ---- journal_plan.c ------------------------------------------------------------------- */

/* JOURNAL_LATE_MS, but in a test that counts writes. */
unsigned journal_late_ms(void);

#endif /* BROKER_JOURNAL_PRIVATE_H */
