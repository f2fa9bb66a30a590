/*
 * keeper: the bodies (ledger/bodies.h) as the broker's link asks for them.
 *
 * Keeps what comes in one turn of the loop in one transaction, and then says so (OP-39).  What
 * cannot be kept is said once, and nothing more is taken until the broker has begun again: so
 * no event is kept behind one that was not.
 */
#ifndef LEDGER_KEEPER_H
#define LEDGER_KEEPER_H

#include "common/link.h"

struct event_base;
struct keeper;

/* `dir_fd` is the ledger's own directory, borrowed.  NULL if memory is out. */
struct keeper *keeper_create(struct event_base *base, int dir_fd);
/* Commits what has come.  NULL is allowed. */
void keeper_destroy(struct keeper *k);

/* The broker's link; NULL: it is gone.  What came on one before is committed, and not told. */
void keeper_set_link(struct keeper *k, struct link *l);
/* A broker begins: if it wants no bodies, those that are here go. */
void keeper_on_begin(struct keeper *k, bool wanted);
/* A row body.*, on the broker's link. */
void keeper_handle(struct keeper *k, struct link *l, const struct message *m);

#endif /* LEDGER_KEEPER_H */
