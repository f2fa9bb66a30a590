/*
 * bodies: the events of operations in sessions, kept for who comes back (D-16, OP-39).
 *
 * Owns BODIES_FILE, a SQLite database beside the index, mode 0600.  It holds content, which no
 * other file of a ledger does; nothing in it is a fact that is not on record, so it may be
 * lost.  What is kept of an operation has no hole.  It is bounded as a broker's memory is
 * (broker/event_log.h): bytes of one, of all, time behind an ending; if all is too much there
 * go of the operations that have ended, the oldest ending first, all but the last event; then
 * the front of the largest that has not; then endings.
 *
 * One that is damaged is put aside as BODIES_ASIDE, and that is logged; a new one begins.
 */
#ifndef LEDGER_BODIES_H
#define LEDGER_BODIES_H

#include "common/protocol.h"

#define BODIES_FILE	   "bodies.db"
#define BODIES_ASIDE	   "bodies.db.damaged"
#define BODIES_COST	   48 /* bytes that an event costs beside its body */
#define BODIES_ENDED_MAX   65536 /* operations that have ended, and are kept */

struct bodies;

/*
 * Opens the file in the directory `dir_fd`, which becomes the working directory, or makes it;
 * -1: in memory.  0 or a negative errno.
 */
int bodies_open(int dir_fd, struct bodies **ret);
/* What was not committed is not kept.  NULL is allowed. */
void bodies_close(struct bodies *b);
/* Removes the file and what was put aside: content that nobody wants kept. */
void bodies_discard(int dir_fd);
/* Puts the file aside, closed: the next bodies_open() makes a new one. */
void bodies_put_aside(int dir_fd);

/*
 * Each of those below returns 0, -EUCLEAN for a damaged file, or another negative errno; what
 * was not committed is not kept then.  Instants are ms since 1970.
 */

/* What is over a bound goes with the next bodies_commit().  No transaction is open. */
int bodies_set_bounds(struct bodies *b, const struct msg_body_bounds *m);
/* Whatever is open is over: its broker is. */
int bodies_end_all(struct bodies *b, uint64_t now_ms);
/* Begins a transaction if none is open.  One that is kept already is none twice. */
int bodies_keep(struct bodies *b, const struct msg_body_keep *m, uint64_t now_ms);
/* Drops what is over a bound and ends the transaction; `fn` is told of each operation of it,
 * and the last number that is kept. */
typedef void bodies_fn(void *arg, const char *operation, uint64_t sequence);
int bodies_commit(struct bodies *b, bodies_fn *fn, void *arg);
int bodies_drop(struct bodies *b, struct slice operation);
/* Drops what lies longer behind its end than it may. */
int bodies_expire(struct bodies *b, uint64_t now_ms);

/*
 * Appends the events of the operation behind `after` to `maps`, as maps of body.keep, until
 * they are `limit` bytes; says how many, and whether there are more.  `ret_ended_at_ms` is 0
 * for one that is open or not there.
 */
int bodies_read(struct bodies *b, const struct msg_body_read *m, struct buf *maps,
    uint32_t *ret_n, bool *ret_more, uint64_t *ret_ended_at_ms);
/* Of all that is kept, with the cost of each. */
uint64_t bodies_bytes(const struct bodies *b);

#endif /* LEDGER_BODIES_H */
