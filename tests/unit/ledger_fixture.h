/*
 * ledger_fixture: a journal as a broker writes it, in a directory of its own, and what reads it.
 */
#ifndef TESTS_UNIT_LEDGER_FIXTURE_H
#define TESTS_UNIT_LEDGER_FIXTURE_H

#include <check.h>
#include <fcntl.h>

#include "common/records.h"
#include "common/util.h"
#include "ledger/ledger.h"
#include "ledger/verify.h"

/* ---- a journal as a broker writes it -------------------------------------------------- */

static char dir[64];
static int journal_fd, index_fd;

/* What a writer knows. */
static struct writer {
	struct buf file;
	uint8_t chain[JOURNAL_HASH];
	uint64_t count, segment;
	size_t ends[64]; /* of the entries of this segment */
	unsigned n;
} w;

static inline void
clear(int fd)
{
	static const char *const others[] = { "head", "head.new", INDEX_FILE, INDEX_FILE "-wal",
		INDEX_FILE "-shm", INDEX_FILE "-journal" };
	char name[17];
	unsigned i;

	for (i = 1; i < 12; i++) {
		journal_name(name, i);
		unlinkat(fd, name, 0);
	}
	for (i = 0; i < countof(others); i++)
		unlinkat(fd, others[i], 0);
}

static inline void
setup(void)
{
	strcpy(dir, "/tmp/caisson-ledger-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	journal_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(mkdirat(journal_fd, "index", 0700), 0);
	index_fd = openat(journal_fd, "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(&w, 0, sizeof(w));
}

static inline void
teardown(void)
{
	clear(index_fd);
	clear(journal_fd);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(unlinkat(journal_fd, "index", AT_REMOVEDIR), 0);
	ck_assert_int_eq(rmdir(dir), 0);
	close(journal_fd);
	close(index_fd);
	buf_finish(&w.file);
}

static inline void
put_file(uint64_t number, const void *p, size_t n)
{
	char name[17];
	int fd;

	journal_name(name, number);
	/* Not truncated to nothing: file systems write such a file out at once. */
	fd = openat(journal_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, n), (ssize_t)n);
	ck_assert_int_eq(ftruncate(fd, (off_t)n), 0);
	close(fd);
}

static inline void
put(const struct msg_record *r)
{
	ck_assert_int_eq(journal_entry(&w.file, w.chain, r), 0);
	w.ends[w.n++ % countof(w.ends)] = w.file.n;
	w.count++;
}

static inline struct msg_record
record(const char *id, enum record_type type)
{
	return (struct msg_record){
		.id = slice_of(id),
		.type = slice_of(record_name(type)),
		.at = 1700000000000 + w.count,
	};
}

/* Ends the segment at `length` (its valid bytes) and begins the next. */
static inline void
begin_after(uint64_t length)
{
	struct msg_record r = record("seg", RECORD_segment_opened);
	uint8_t before[JOURNAL_HASH];

	memcpy(before, w.chain, sizeof(before));
	w.segment++;
	w.file.n = 0;
	w.n = 0;
	r.has_segment = r.has_previousCount = r.has_previousHash = r.has_previousLength = true;
	r.segment = w.segment;
	r.previousCount = w.count;
	r.previousHash = (struct slice){ before, JOURNAL_HASH };
	r.previousLength = length;
	put(&r);
}

static inline void
begin(void)
{
	begin_after(w.file.n);
}

static inline void
save(void)
{
	put_file(w.segment, w.file.p, w.file.n);
}

#define SET(r, field, text) ((r).has_##field = true, (r).field = slice_of(text))

static inline void
put_accepted(const char *operation, const char *kind)
{
	struct msg_record r = record("acc", RECORD_operation_accepted);

	SET(r, operation, operation);
	SET(r, detail, kind);
	SET(r, trace, "trace-1");
	put(&r);
}

static inline void
put_checked(const char *operation, const char *call, const char *grant, bool allowed)
{
	struct msg_record r = record("chk", RECORD_authorization_checked);

	SET(r, operation, operation);
	SET(r, call, call);
	SET(r, tool, "files.read");
	SET(r, actor, "agent:a");
	SET(r, grant, grant);
	r.has_uses = r.has_outcome = true;
	r.uses = 1;
	r.outcome = allowed ? record_outcome_allowed : record_outcome_denied;
	put(&r);
}

static inline void
put_call(enum record_type type, const char *operation, const char *call, const char *grant)
{
	struct msg_record r = record("inv", type);

	SET(r, operation, operation);
	SET(r, call, call);
	SET(r, grant, grant);
	r.has_uses = type == RECORD_usage_released;
	r.uses = 1;
	put(&r);
}

static inline void
put_block(const char *operation, uint64_t sequence)
{
	struct msg_record r = record("blk", RECORD_block_opened);

	SET(r, operation, operation);
	r.has_sequence = true;
	r.sequence = sequence;
	put(&r);
}

static inline void
put_ended(const char *operation)
{
	struct msg_record r = record("end", RECORD_operation_ended);

	SET(r, operation, operation);
	SET(r, cause, "completed");
	SET(r, status, "succeeded");
	r.has_outcome = true;
	r.outcome = record_outcome_succeeded;
	put(&r);
}

/* Twelve records and some over two segments. */
static inline void
write_story(void)
{
	begin();
	put_accepted("op-1", "turn");
	put_block("op-1", 1000);
	put_checked("op-1", "c-1", "g-1", true);
	put_checked("op-1", "c-2", "g-1", true);
	put_checked("op-1", "c-x", "g-1", false);
	put_call(RECORD_tool_invoked, "op-1", "c-1", "g-1");
	save();
	begin();
	put_checked("op-1", "c-3", "g-2", true);
	put_call(RECORD_usage_released, "op-1", "c-3", "g-2");
	put_call(RECORD_tool_invoked, "op-1", "c-3", "g-2");
	put_accepted("op-2", "command");
	put_ended("op-2");
	save();
}

/* ---- helpers ------------------------------------------------------------------------ */

static inline struct verify
verified(struct index *x, const uint8_t *expect)
{
	struct verify v;

	ck_assert_int_eq(verify_start(&v, journal_fd, index_fd, x, expect), 0);
	while (verify_step(&v, 3) == 0)
		;
	return v;
}

static inline bool
is_valid(void)
{
	struct verify v = verified(NULL, NULL);
	bool valid = v.valid;

	ck_assert_int_eq(
	    !valid, v.journal_problem[0] || v.index_problem[0] || v.head_problem[0]);
	verify_finish(&v);
	return valid;
}

/* Runs a ledger until it has caught up and moved the head; then ends it. */
static inline void
run_ledger(void)
{
	struct ledger l;

	ck_assert_int_eq(ledger_init(&l, journal_fd, index_fd, false), 0);
	while (ledger_follow(&l, 5) > 0)
		;
	ck_assert_int_eq(ledger_move_head(&l), 0);
	ledger_settle(&l);
	ledger_finish(&l);
}

/* ---- ledger: state, queries, damage ------------------------------------------------------ */

static inline void
open_ledger(struct ledger *l, bool readonly)
{
	ck_assert_int_eq(ledger_init(l, journal_fd, index_fd, readonly), 0);
	while (ledger_follow(l, 100) > 0)
		;
}

#endif /* TESTS_UNIT_LEDGER_FIXTURE_H */
