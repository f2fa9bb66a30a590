/*
 * ledger: keeps the record that the broker writes: tail, index, head.
 *
 * Owns reader and index.  Follows the journal in slices, so that the loop goes on beside
 * it; syncs what it has read through a descriptor of its own before it moves the head.
 * Damage stops it where it stands, and what stands before is still served; a broker gets
 * no state from a damaged or cut record (fail closed).
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include "ledger/index.h"

struct ledger {
	int journal_fd, index_fd; /* borrowed; index_fd may be -1 */
	bool readonly;		  /* index in memory, no head: nothing is written */
	struct reader reader;
	struct index *index;
	struct position head;		  /* as in its file */
	bool caught_up;			  /* the end was reached once, and the head looked at */
	bool unsettled;			  /* something was committed since index_settle() */
	bool warned;			  /* damage was logged */
	char problem[READER_PROBLEM_MAX]; /* of the head or the system: "" if there is none */
};

/* Opens index and head, and goes to where the index ends.  Returns 0 or a negative errno. */
int ledger_init(struct ledger *l, int journal_fd, int index_fd, bool readonly);
void ledger_finish(struct ledger *l);

/*
 * Indexes up to `max` records.  Returns 1 if there may be more; 0 at the end of what there
 * is (or at damage), everything committed; a negative errno, which ledger_problem() explains
 * and after which this process reads no further.  A damaged index is gone then: the next
 * process makes it again.
 */
int ledger_follow(struct ledger *l, unsigned max);
/* Syncs what was read and moves the head to it.  Nothing to do for a read-only or damaged
 * one.  Returns 0 or a negative errno. */
int ledger_move_head(struct ledger *l);
/* Empties the index's log once nothing new comes. */
void ledger_settle(struct ledger *l);

/* What is wrong with the record, "" if nothing. */
const char *ledger_problem(const struct ledger *l);

/* Answers.  Return 0, or a negative errno with `*ret_why` set to static text or the problem. */
int ledger_state(struct ledger *l, uint64_t cursor, struct msg_state_load_reply *ret,
    struct index_state *ret_lists, struct buf *ret_bytes, const char **ret_why);
int ledger_read(struct ledger *l, const struct msg_audit_read *m,
    struct msg_audit_read_reply *ret, struct buf *ret_bytes, const char **ret_why);

#endif /* LEDGER_LEDGER_H */
