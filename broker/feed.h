/*
 * feed: what clients can read of an operation, while it is open and behind its end.
 *
 * Owns a feed for each operation in a session, from its submission until its session is
 * forgotten, and one for each of the last operations without a session that have ended.  A feed
 * is the operation's event log (event_log.h), the clients that follow it (subscriber.h), and
 * the facts that operation.show tells.  An operation that asks feed_may_append() before it
 * reads more of its output waits for the fastest client that follows it and reads (pace.h), and
 * for nobody else; what the log has dropped is named by a gap, and an ending that it has
 * dropped is told as the record has it (past.h).  OP-17, OP-26, OP-40.
 */
#ifndef BROKER_FEED_H
#define BROKER_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

#include "broker/authority/table.h"
#include "broker/event_log.h"
#include "broker/pace.h"
#include "broker/past.h"
#include "common/alarm.h"

#define FEED_ID_MAX	  40
#define FEEDS_LOOSE_MAX	  64 /* of operations without a session, which have ended */
#define FEEDS_LIST_MAX	  1024 /* of one session's operations, that have ended */
#define FEEDS_ENDED_MAX	  65536 /* of all; about 500 bytes each, without events */
/*
 * Bytes of events that are kept, whatever the log's bound, while a client that is waited for
 * has yet to be handed them: so that several who read equally fast, in turns, cost each other
 * nothing.  None of them is ahead of another by more than its window and its socket hold.
 */
#define FEED_FLIGHT_BYTES (1u << 20)
/* Of a log for those behind the fastest, and for what does not ask: a chunk of each stream at
 * an operation's end, and events that are not output. */
#define FEED_SPARE_BYTES (768u << 10)

struct broker;
struct client;
struct feed;
struct stored;
struct subscriber;

/* Those of one session, in the order of admission.  Starts with feed_list_init(). */
struct feed_list {
	TAILQ_HEAD(feed_queue, feed) feeds;
	const char *session; /* its id; NULL: of none */
	const char *principal; /* kind:id, whose it is; NULL: the operator's */
	size_t nended; /* of them */
};

struct feed {
	struct feeds *all;
	struct feed_list *list;
	char id[FEED_ID_MAX]; /* the operation's */
	uint64_t number; /* in the order of admission, from 1, of this broker */
	bool admitted; /* it is on record: before that it is nobody's to see */
	bool has_begun;
	uint64_t accepted_at_ms, started_at_ms, ended_at_ms; /* wall clock; 0: not, or not known */
	struct past past; /* its kind; once it has ended all of it */
	struct event_log log;
	uint64_t beyond; /* of a broker before us: the number of its ending; 0: its log has it */
	/* stored.h: the numbers of the first event that may not be delivered yet, and that was
	 * not sent to be kept; UINT64_MAX where that is nothing to wait for. */
	uint64_t kept, sent;
	bool is_unkept, is_unsent, is_loading;
	TAILQ_ENTRY(feed) unkept, unsent, loading;
	TAILQ_HEAD(, subscriber) subscribers;
	unsigned nsubscribers;
	struct pace_credit credit;
	void (*on_room)(void *arg); /* while it is open; NULL: nobody waits */
	void *arg;
	bool held; /* on_room is owed */
	struct alarm alarm; /* while it is: when to look again */
	TAILQ_ENTRY(feed) entry; /* list.feeds */
	TAILQ_ENTRY(feed) ended; /* feeds.ended, of one in a session that has ended */
};

struct feeds {
	struct broker *broker;
	struct event_store store;
	struct stored *stored; /* NULL: they are kept in memory only */
	struct table by_id;
	struct feed_list loose;
	TAILQ_HEAD(, feed) ended; /* the oldest ending first */
	size_t nended;
	uint64_t last_number;
	struct buf scratch; /* of an event that is not kept as it is told */
	struct alarm alarm; /* when the next log has lain long enough */
};

/* ---- all of them ---------------------------------------------------------------------- */

/* Of b->config's retention.  NULL if memory is out. */
struct feeds *feeds_create(struct broker *b);
/* After the loop; no list is left but its own.  NULL is allowed. */
void feeds_destroy(struct feeds *fs);
/* b->config is another one. */
void feeds_on_config(struct feeds *fs);
/* The log of one of them has ended. */
void feeds_on_ending(struct feeds *fs);
/* The one of that operation, admitted or not; NULL if there is none. */
struct feed *feed_find(const struct feeds *fs, struct slice id);

/* The texts are borrowed for as long as the list lives. */
void feed_list_init(struct feed_list *l, const char *session, const char *principal);
/* Its session is forgotten: who still follows one of them is told its ending, and all go. */
void feed_list_finish(struct feed_list *l);

/* ---- the life of one ------------------------------------------------------------------ */

/* Of an operation that is about to be recorded.  NULL if memory is out. */
struct feed *feed_create(
    struct feeds *fs, struct feed_list *l, const char *id, enum operation_kind kind);
/* It is on record: who waits for that is answered. */
void feed_admit(struct feed *f);
/* It never will be: who waits is refused, and the feed is gone. */
void feed_refuse(struct feed *f, const char *code, const char *message);
/* It has left its queue. */
void feed_begin(struct feed *f);
/*
 * May more output be read?  False if that would cost events that the fastest client who follows
 * it and reads has not been handed: then f->on_room is called, once, from the loop.
 */
bool feed_may_append(struct feed *f);
/* Somebody who follows it has read, or is gone: looks again, from the loop. */
void feed_wake(struct feed *f);
/* It waits no more.  True if it did: on_room is not owed any more. */
bool feed_let_go(struct feed *f);
/* One event, numbered; not the last. */
void feed_append(struct feed *f, struct msg_operation_event *e);
/* The last event: from here on it is not its operation's any more. */
void feed_end(struct feed *f, const struct past *p, struct msg_operation_event *e);

/* Somebody follows it no more: without retention nothing is kept for those who come later. */
void feed_check(struct feed *f);

/*
 * The ending, of which `sequence` is the number, of an operation without a feed: in no session,
 * or (`l`) of a broker before us.  `e` is its terminal event, NULL: as the record has it.  0 or
 * -ENOMEM.
 */
int feeds_keep(struct feeds *fs, struct feed_list *l, const char *id, const struct past *p,
    uint64_t sequence, const struct msg_operation_event *e);

/* ---- what is told of it --------------------------------------------------------------- */

static inline bool
feed_has_ended(const struct feed *f)
{
	return f->past.ending != ENDING_none;
}

/* Number of its last event so far; 0: none. */
static inline uint64_t
feed_last(const struct feed *f)
{
	return f->beyond != 0 ? f->beyond : f->log.next - 1;
}

/* The first that can be read again; an ending can be told even when it is not kept. */
static inline uint64_t
feed_retained_from(const struct feed *f)
{
	return feed_has_ended(f) && f->log.first == f->log.next ? feed_last(f) : f->log.first;
}

/*
 * What follows `next`, the number that is expected: the event of that number, or a gap that
 * ends where there is one, or the ending as the record has it.  Its slices live until the next
 * call, or the store changes.  Returns 1, and the number that
 * is expected then; 0 if nothing follows yet; -ENOMEM.
 */
int feed_read(const struct feed *f, uint64_t next, struct msg_operation_event *ret,
    uint64_t *ret_next);

/* Appends the map of operation.show. */
void feed_pack(struct buf *b, const struct feed *f);

#endif /* BROKER_FEED_H */
