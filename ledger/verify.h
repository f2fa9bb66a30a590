/*
 * verify: the walk over the whole record that trusts nothing (D-16).
 *
 * Reads every segment from the first byte, follows the chain, and compares index, head and
 * an expected value with what it finds.  The first thing that is wrong is what it reports,
 * the journal before the head before the index.  It goes in steps, so that a loop goes on
 * beside it.  Whoever can write journal, index and head can cut all three: only a value
 * kept elsewhere (`expect`) shows that.
 */
#ifndef LEDGER_VERIFY_H
#define LEDGER_VERIFY_H

#include "ledger/index.h"

#define VERIFY_PROBLEM_MAX 2048

struct verify {
	struct reader reader;
	struct index *index; /* borrowed or owned, NULL: nothing to compare */
	bool owns_index;
	int index_fd; /* borrowed, or -1 */
	struct position indexed, head, expect;
	bool has_head, has_expect, expect_found;
	/* Where the record ended when this began: what is written since is not waited for. */
	uint64_t last_segment, last_size;
	uint64_t rows; /* rows of the index that agree */
	bool done;
	bool valid;
	char journal_problem[VERIFY_PROBLEM_MAX]; /* what is wrong, "" if nothing */
	char index_problem[VERIFY_PROBLEM_MAX];
	char head_problem[VERIFY_PROBLEM_MAX];
	char
	    note[VERIFY_PROBLEM_MAX]; /* what could not be compared; nothing is wrong with it */
};

/*
 * Begins.  `index` is the ledger's own, with everything committed, or NULL: then the one in
 * `index_fd` is looked at.  `index_fd` may be -1.  `expect` may be NULL.  Returns 0 or a
 * negative errno.
 */
int verify_start(
    struct verify *v, int journal_fd, int index_fd, struct index *index, const uint8_t *expect);
/* Looks at up to `max` records.  Returns 1 when it is done, 0 if there is more, or a
 * negative errno. */
int verify_step(struct verify *v, unsigned max);
/* The first thing that is wrong, or what could not be compared, or "". */
const char *verify_text(const struct verify *v);
void verify_finish(struct verify *v);

#endif /* LEDGER_VERIFY_H */
