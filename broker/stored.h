/*
 * stored: events of operations in sessions, with the ledger (retention: durable; D-16).
 *
 * Sends each event that is appended to a feed to the ledger, and lets it be delivered when the
 * ledger has said that it is kept (OP-39).  No operation waits for that: while the ledger is
 * away its events lie in the feed's log, which is bounded as ever, and what the log drops
 * before it was sent is a gap to everybody.  A ledger that comes is sent what the one before
 * had not said to be kept.
 *
 * Of the operations of a broker before us, it reads what is kept into their feeds' logs, once,
 * whose bounds are the same; who follows one meanwhile waits for that.
 */
#ifndef BROKER_STORED_H
#define BROKER_STORED_H

#include "common/link.h"

struct broker;
struct feed;
struct feeds;
struct stored;

/* NULL if memory is out. */
struct stored *stored_create(struct feeds *fs);
/* NULL is allowed here, and is a retention that is not durable everywhere below. */
void stored_destroy(struct stored *st);

/* Is that what the ledger is for?  Its link is there, or (NULL) gone. */
void stored_set_link(struct stored *st, struct link *l);
/* b->config has other bounds. */
void stored_on_config(struct stored *st);
/* A row body.* of the ledger, or its answer to one; false: something else. */
bool stored_on_message(struct stored *st, const struct message *m);
/* What waits for the ledger is less. */
void stored_on_drained(struct stored *st);

/* A new feed: nothing of it may be delivered yet. */
void stored_init_feed(struct stored *st, struct feed *f);
/* An event was appended to its log. */
void stored_append(struct stored *st, struct feed *f);
/* One of a broker before us: what is kept of it is read into its log, which is open and empty,
 * and ended then. */
void stored_load(struct stored *st, struct feed *f);
/* It goes; nobody may ask for its events any more. */
void stored_forget(struct stored *st, struct feed *f);
/* The same of one that has no feed. */
void stored_drop(struct stored *st, const char *operation);

#endif /* BROKER_STORED_H */
