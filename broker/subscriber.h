/*
 * subscriber: a client that follows an operation.
 *
 * One stands in the lists of its feed and of its client, has a cursor, and ends with either, or
 * when it has been told the last event.  It is given events while less than a window of bytes
 * waits for its client, and goes on when the client has read (on_drained); what was dropped
 * meanwhile is told as a gap.  So a client that reads slower than another loses its own events
 * only (OP-17, OP-40); one that goes away only detaches (OP-26).
 */
#ifndef BROKER_SUBSCRIBER_H
#define BROKER_SUBSCRIBER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/feed.h"

struct client;

/*
 * Of one operation.  No key of a configuration: those who may attach are its owner's clients and
 * operators, so that no other principal is kept out; each may hold back a window of memory and
 * costs the loop a walk per event, so that one operation can cost all others no more than 4 MiB;
 * and who wants its events in more places has one reader hand them on.
 */
#define SUBSCRIBERS_MAX	  16
#define SUBSCRIPTIONS_MAX 64 /* of one client */
/* bytes that wait for a client, and no more events join them */
#define SUBSCRIBER_WINDOW (256u << 10)
#define SUBSCRIBER_ROOM	  (SUBSCRIBER_WINDOW / 4 * 3) /* ... until no more than these wait */

struct subscriber {
	struct feed *feed;
	struct client *client;
	uint64_t next; /* number of the first event that it has not been given */
	bool waits; /* the operation is not on record yet: its submission is answered then */
	bool existing; /* and it was another submission's (OP-38) */
	uint32_t msgid;
	TAILQ_ENTRY(subscriber) of_feed, of_client;
};

/*
 * `c` follows the operation from behind `after`; if it does already, from there.  It is given
 * nothing yet.  0; -ENOSPC, beyond a bound; -EALREADY while a submission of it waits; -ENOMEM.
 */
int subscriber_create(
    struct feed *f, struct client *c, uint64_t after, struct subscriber **ret);
/* Its client's submission of `msgid` is answered by its operation: now, or when that is on
 * record.  It may be gone then. */
void subscriber_wait(struct subscriber *s, uint32_t msgid, bool existing);
/* Gives it what there is, as far as its client reads.  It may be gone then. */
void subscriber_pump(struct subscriber *s);

/* ---- those of a feed ------------------------------------------------------------------ */

void subscribers_pump(struct feed *f);
/* Those who are waited for, or who need not be. */
struct ahead {
	bool has_room; /* one takes all there is */
	uint64_t until_ms; /* the first of those with a full window is waited for; 0: there is none */
	uint64_t next; /* of the one that has been handed most */
	uint64_t least; /* of the one that has been handed least; none: beyond the last event */
};
void subscribers_ahead(struct feed *f, struct ahead *ret);
/* The operation is on record, or never will be: those who wait are told. */
void subscribers_answer(struct feed *f);
void subscribers_refuse(struct feed *f, const char *code, const char *message);
/* The feed goes: whoever is left is told the ending, however much waits for it. */
void subscribers_finish(struct feed *f);

/* ---- those of a client ---------------------------------------------------------------- */

/* It has read. */
void subscribers_on_drained(struct client *c);
/* It is gone. */
void subscribers_forget(struct client *c);

#endif /* BROKER_SUBSCRIBER_H */
