/*
 * reader: the record, one entry after the other, across its segments.
 *
 * Owns one descriptor and one buffer; opens segments read-only beneath a directory and
 * never writes.  Checks of every entry that it parses and follows the chain, and of every
 * segment that it says of the one before what was found there (common/journal.h).  What
 * does not hold is damage: the reader then stays where it is, and `problem` says segment,
 * offset, what it means and what to do.  At the end of what there is, it may be asked
 * again later: the broker goes on writing.
 *
 * The bytes were written by the broker, which is not trusted: every cost is bounded.
 */
#ifndef LEDGER_READER_H
#define LEDGER_READER_H

#include "common/journal.h"

#define READER_PROBLEM_MAX 1024

/* A place between two entries. */
struct position {
	uint64_t count;		    /* records before it */
	uint8_t hash[JOURNAL_HASH]; /* chain value of the last of them */
	uint64_t segment;	    /* 0: before the first */
	uint64_t offset;	    /* in that segment */
};

struct entry {
	struct msg_record record;
	struct slice map;		  /* its packed form */
	uint64_t segment, offset, length; /* where the whole entry lies */
};

struct reader {
	int dir_fd; /* borrowed */
	struct position at;
	int fd; /* of segment at.segment, or -1 */
	uint8_t *buf;
	uint64_t buf_offset; /* in the segment */
	size_t buf_n;
	uint64_t torn_before; /* bytes of torn tails in the segments that were left */
	uint64_t torn;	      /* bytes behind at.offset, after READER_END */
	/* The tail that was last looked through for records, and has none. */
	uint64_t clean_segment, clean_size, clean_count;
	bool damaged;
	char problem[READER_PROBLEM_MAX]; /* of damage, or of a segment that does not open */
};

enum reader_step {
	READER_END = 0,
	READER_RECORD = 1,
	READER_DAMAGE = 2,
};

/* Returns 0 or -ENOMEM. */
int reader_init(struct reader *r, int dir_fd);
void reader_finish(struct reader *r);

/* Goes on at `at`, which a reader stood at before. */
void reader_seek(struct reader *r, const struct position *at);

/*
 * Reads the next entry; slices live until the next call.  Returns enum reader_step, or a
 * negative errno of the file system, after which the reader stands where it stood.
 */
int reader_next(struct reader *r, struct entry *ret);

/*
 * The highest number among the segments, 0 if there is none.  Returns 0 or a negative
 * errno.
 */
int reader_last_segment(int dir_fd, uint64_t *ret);

/*
 * Reads one entry again: `buf` holds JOURNAL_ENTRY_MAX bytes, `ret_hash` (may be NULL) gets
 * the chain value that it carries.  Returns 0; -EBADMSG if nothing of that length is there;
 * another negative errno.
 */
int reader_fetch(int dir_fd, uint64_t segment, uint64_t offset, uint64_t length, uint8_t *buf,
    struct entry *ret, uint8_t ret_hash[JOURNAL_HASH]);

/* Syncs one segment through a read-only descriptor.  Returns 0 or a negative errno. */
int reader_sync(int dir_fd, uint64_t segment);

#endif /* LEDGER_READER_H */
