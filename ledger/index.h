/*
 * index: the SQLite database that answers questions about the record.
 *
 * Owns one connection.  Everything in it comes from the journal and can be made again at
 * any time (D-16): one row per record for filters (the record itself is read again from
 * its segment), and what the record implies for a broker that starts: operations, calls
 * without an outcome, uses per grant (D-10, D-11).  Rows are added in transactions of many.
 */
#ifndef LEDGER_INDEX_H
#define LEDGER_INDEX_H

#include "ledger/reader.h"

#define INDEX_FILE "index.sqlite"

/*
 * Every function below that reads or writes returns -EUCLEAN for a database that is
 * damaged, and -EIO for a system that failed.
 */
struct index;

/*
 * Opens INDEX_FILE in the directory `dir_fd`, makes it if it is not there, and makes it again
 * if it is damaged, of another version, or holds anything but our tables.  Names are
 * relative: the process's working directory becomes `dir_fd`.  With `dir_fd` -1 it is in
 * memory.  Returns 0 or a negative errno.
 */
int index_open(int dir_fd, struct index **ret);
/* Removes what index_open() would open: the next one makes it again. */
void index_discard(int dir_fd);
/*
 * Opens one for reading only, as it lies on the disk; nothing is written beside it.  Returns
 * 0; -ENOENT if there is none; -EBUSY if a ledger is writing to it; -ENOTSUP if it is no
 * regular file; -EUCLEAN if it is damaged, of another version, or holds anything but our
 * tables; another negative errno.
 */
int index_open_readonly(int dir_fd, struct index **ret);
/* Has a ledger written to it since it was opened for reading?  Then what was read is void. */
bool index_moved(const struct index *x, int dir_fd);
void index_close(struct index *x);

/* Where the record was read to; zeroes for an empty one. */
struct position index_position(const struct index *x);

/* Forgets everything.  Returns 0 or a negative errno. */
int index_clear(struct index *x);
/* Adds a record; begins a transaction if none is open.  Returns 0 or a negative errno. */
int index_add(struct index *x, const struct entry *e, const struct position *after);
/* Ends the transaction, if one is open.  Returns 0 or a negative errno. */
int index_commit(struct index *x);
/* Moves what was committed out of the write-ahead log, so that the file stands alone. */
void index_settle(struct index *x);
/* Records added since the last commit. */
unsigned index_pending(const struct index *x);

/* Where a record lies.  Returns 0; -ENOENT; -EIO. */
int index_locate(struct index *x, uint64_t count, struct entry *ret);

/*
 * Records behind `after` that `filter` (of audit.read; its cursor is not looked at) lets
 * pass, at most `filter->limit` of them, in order.  `fn` returns false to stop.  Returns 0 or
 * -EIO.
 */
struct index_hit {
	uint64_t count, segment, offset, length;
};
typedef bool index_fn(void *arg, const struct index_hit *hit);
int index_query(struct index *x, uint64_t after, const struct msg_audit_read *filter,
    index_fn *fn, void *arg);

/*
 * Compares row `e` of the index with the record itself, rows being asked for in order from 1.
 * Returns 1 if they agree, 0 if not or if there is none, -EIO.
 */
int index_compare(struct index *x, uint64_t count, const struct entry *e);
/* How many rows there are up to record `last`.  Returns 0 or -EIO. */
int index_rows(struct index *x, uint64_t last, uint64_t *ret);

/*
 * What a starting broker must know, as maps of state.load's lists: operations (open ones,
 * and the last INDEX_ENDED that have ended, with their cause), grants, revocations, uses,
 * escalations, keys of calls, sessions that are open, and keys of what was admitted in them.
 * Appends what follows `cursor`, at most `max` bytes in all, and no more values than a frame
 * can carry.  `next` is the cursor of the page behind, 0 at the end.
 * Returns 0; -E2BIG if one of them does not fit; -ENOMEM; -EIO.
 */
#define INDEX_ENDED 4096
enum index_list {
	INDEX_OPERATIONS,
	INDEX_GRANTS,
	INDEX_REVOCATIONS,
	INDEX_USES,
	INDEX_ESCALATIONS,
	INDEX_KEYS,
	INDEX_SESSIONS,
	INDEX_ADMISSIONS,
	INDEX_LISTS,
};
struct index_state {
	struct buf items[INDEX_LISTS]; /* elements, without the array's header */
	uint32_t n[INDEX_LISTS];
	uint64_t next;
};
int index_state(struct index *x, uint64_t cursor, size_t max, struct index_state *ret);
void index_state_finish(struct index_state *s);

#endif /* LEDGER_INDEX_H */
