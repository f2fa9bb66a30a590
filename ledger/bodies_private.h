/*
 * bodies_private: what bodies.c (what is kept, and what goes) and bodies_file.c (the rows)
 * share.
 */
#ifndef LEDGER_BODIES_PRIVATE_H
#define LEDGER_BODIES_PRIVATE_H

#include <sqlite3.h>
#include <sys/queue.h>
#include <sys/tree.h>

#include "ledger/bodies.h"

enum bodies_statement {
	BODIES_BEGIN,
	BODIES_COMMIT,
	BODIES_OPERATION,
	BODIES_ENDED,
	BODIES_FORGET,
	BODIES_EVENT,
	BODIES_FRONT,
	BODIES_CUT,
	BODIES_READ,
	BODIES_STATEMENTS,
};

/* One operation. */
struct kept {
	int64_t number; /* its rows' */
	char id[65];
	uint64_t first, next; /* numbers of the first event that is kept, and of the next to come */
	uint64_t bytes;
	uint64_t ended_at_ms; /* 0: it is open */
	bool is_touched;
	RB_ENTRY(kept) by_id;
	TAILQ_ENTRY(kept) place; /* bodies.open or bodies.ended */
	TAILQ_ENTRY(kept) full; /* bodies.full, of one that has ended and has several events */
	TAILQ_ENTRY(kept) touched; /* bodies.touched */
};
TAILQ_HEAD(kepts, kept);
RB_HEAD(kept_tree, kept);

struct bodies {
	sqlite3 *db;
	sqlite3_stmt *statement[BODIES_STATEMENTS];
	bool in_transaction;
	struct msg_body_bounds bounds;
	int64_t last_number;
	uint64_t bytes; /* of all */
	size_t nended;
	struct kept_tree by_id;
	struct kepts open, ended, full; /* the last two by their endings */
	struct kepts touched; /* in this transaction */
};

/* ---- bodies.c: what is known of the rows ---------------------------------------------- */

/* NULL if memory is out. */
struct kept *kept_create(struct bodies *b, const char *id, size_t n, int64_t number);
void kept_end(struct bodies *b, struct kept *k, uint64_t now_ms);
/* Its events are now those, with so many bytes. */
void kept_set(struct bodies *b, struct kept *k, uint64_t first, uint64_t next, uint64_t bytes);
void kept_forget_all(struct bodies *b);

/* ---- bodies_file.c: the rows; 0 or as bodies.h says ----------------------------------- */

int bodies_begin(struct bodies *b);
int bodies_end(struct bodies *b);
int bodies_add_operation(struct bodies *b, const struct kept *k);
int bodies_set_ended(struct bodies *b, const struct kept *k);
int bodies_delete_operation(struct bodies *b, const struct kept *k);
int bodies_add_event(struct bodies *b, const struct kept *k, const struct msg_body_keep *m);
/* Deletes events from the front until `bytes` are gone, but for the last `least`. */
int bodies_cut(struct bodies *b, struct kept *k, uint64_t bytes, uint64_t least);
/* Those behind m->after, as maps, as far as its limit goes: *ret_n of them. */
int bodies_read_rows(struct bodies *b, const struct kept *k, const struct msg_body_read *m,
    struct buf *maps, uint32_t *ret_n);
/* Undoes what was not committed. */
int bodies_roll_back(struct bodies *b, int error);

#endif /* LEDGER_BODIES_PRIVATE_H */
