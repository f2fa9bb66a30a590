/*
 * event_log: the events of an operation that can be read again, and how much all of them take.
 *
 * A log holds the last events of one operation, without a hole: what does not fit goes from its
 * front, and is known by its numbers alone.  A store bounds the logs of one broker, in bytes of
 * each, in bytes of all, and in time after an operation's end.  The bytes are those of the
 * bodies, with what it costs to keep one, so that memory follows them.
 *
 * If all is too much, this goes, in this order: of the operations that have ended, the oldest
 * ending first, all but the last event; of those that have not, the front of one that holds
 * most, so that who fills its log takes nothing from the others; the last events of those that
 * have ended, which are their endings.
 *
 * Nothing is dropped while an event is appended: it is handed to who listens first, and then
 * event_log_trim() makes room.  So a bound of 0 keeps nothing, and whoever keeps up reads all.
 *
 * Pure: no files, no clock.  Memory that cannot be had is an event that was not kept.
 */
#ifndef BROKER_EVENT_LOG_H
#define BROKER_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

#include "common/protocol.h"

/* bytes that an event costs beside its body: its header, its place, the allocator's part */
#define EVENT_COST 56
#define EVENT_LOG_CLASSES 64 /* of logs, by the magnitude of what they hold */

struct event_log;
TAILQ_HEAD(event_logs, event_log);

struct event_limits {
	uint64_t operation_bytes; /* of one log; the last event of an ended one may be larger */
	uint64_t total_bytes;
	uint64_t time_ms; /* after the end */
};

struct event_store {
	struct event_limits limits;
	uint64_t bytes; /* of all logs */
	struct event_logs open[EVENT_LOG_CLASSES]; /* not ended, and not empty */
	unsigned top; /* no class above it has any */
	size_t nopen; /* logs in `open` */
	uint64_t last_bytes; /* of the last events of those that have ended */
	struct event_logs full; /* ended, more than one event, in the order of ending */
	struct event_logs ended; /* ended, and not empty, likewise */
};

struct event_log {
	struct event_store *store;
	uint64_t first, next; /* numbers of the first that is kept, and of the next to come */
	uint64_t bytes;
	uint64_t appended; /* bytes of all there ever were */
	struct event **ring; /* of `cap`, a power of two; the event `n` is at n mod cap */
	size_t cap;
	unsigned class; /* while it is open and not empty */
	bool has_ended;
	uint64_t ended_at_ms;
	TAILQ_ENTRY(event_log) place; /* store.open or store.full */
	TAILQ_ENTRY(event_log) ending; /* store.ended */
};

void event_store_init(struct event_store *s, const struct event_limits *limits);
/* From the next event_log_trim() or event_store_expire() on. */
void event_store_set_limits(struct event_store *s, const struct event_limits *limits);
/*
 * Drops what lies longer behind its operation's end than it may.  Returns the instant at which
 * the next one is due, 0 if none is.
 */
uint64_t event_store_expire(struct event_store *s, uint64_t now_ms);

/* Empty; `next` is the number of the first event that will be appended: those before are
 * gone. */
void event_log_init(struct event_log *log, struct event_store *s, uint64_t next);
/* Of a log that was initialised, or of zeroes. */
void event_log_finish(struct event_log *log);
/* Copies `e`, whose sequence is log->next. */
void event_log_append(struct event_log *log, const struct msg_operation_event *e);
/* Drops what is over a bound, this log's and all logs': after an event was handed out.  Its own
 * bound is at least `least_bytes`: that much of it is on its way to somebody. */
void event_log_trim(struct event_log *log, uint64_t least_bytes);
/* Bytes of those that are kept, from the event `next` on. */
uint64_t event_log_behind(const struct event_log *log, uint64_t next);
/*
 * What of the log surely stays, from its end, whatever the others append: no more than its own
 * bound, or `least_bytes`; nor than half of its part of the whole, as it is the front of a log
 * of at least that size that goes.
 */
uint64_t event_log_room(const struct event_log *log, uint64_t least_bytes);
/* The last event was appended, at that instant.  Once. */
void event_log_end(struct event_log *log, uint64_t now_ms);
/* Drops every event. */
void event_log_clear(struct event_log *log);
/* The same; and `next` is the number of the next to come: those before are gone. */
void event_log_skip(struct event_log *log, uint64_t next);
/*
 * The event of that number; its `operation` is left to the caller, its slices live until
 * anything of the store changes.  False if it is not kept.
 */
bool event_log_read(
    const struct event_log *log, uint64_t sequence, struct msg_operation_event *ret);

#endif /* BROKER_EVENT_LOG_H */
