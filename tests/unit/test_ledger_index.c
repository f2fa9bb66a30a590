/*
 * The ledger's own parts: reader, index, head, verify, ledger.  D-10, D-11, D-16.  A power
 * loss is every prefix of a journal; a tamperer is every changed byte.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/records.h"
#include "common/util.h"
#include "common/walk.h"
#include "ledger/confine.h"
#include "ledger/head.h"
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

static void
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

static void
setup(void)
{
	strcpy(dir, "/tmp/caisson-ledger-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	journal_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(mkdirat(journal_fd, "index", 0700), 0);
	index_fd = openat(journal_fd, "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(&w, 0, sizeof(w));
}

static void
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

static void
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

static void
put(const struct msg_record *r)
{
	ck_assert_int_eq(journal_entry(&w.file, w.chain, r), 0);
	w.ends[w.n++ % countof(w.ends)] = w.file.n;
	w.count++;
}

static struct msg_record
record(const char *id, enum record_type type)
{
	return (struct msg_record){
		.id = slice_of(id),
		.type = slice_of(record_name(type)),
		.at = 1700000000000 + w.count,
	};
}

/* Ends the segment at `length` (its valid bytes) and begins the next. */
static void
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

static void
begin(void)
{
	begin_after(w.file.n);
}

static void
save(void)
{
	put_file(w.segment, w.file.p, w.file.n);
}

#define SET(r, field, text) ((r).has_##field = true, (r).field = slice_of(text))

static void
put_accepted(const char *operation, const char *kind)
{
	struct msg_record r = record("acc", RECORD_operation_accepted);

	SET(r, operation, operation);
	SET(r, detail, kind);
	SET(r, trace, "trace-1");
	put(&r);
}

static void
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

static void
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

static void
put_block(const char *operation, uint64_t sequence)
{
	struct msg_record r = record("blk", RECORD_block_opened);

	SET(r, operation, operation);
	r.has_sequence = true;
	r.sequence = sequence;
	put(&r);
}

static void
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
static void
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

static size_t
get_file(uint64_t number, uint8_t *buf, size_t cap)
{
	char name[17];
	ssize_t n;
	int fd;

	journal_name(name, number);
	fd = openat(journal_fd, name, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	n = read(fd, buf, cap);
	ck_assert_int_ge(n, 0);
	close(fd);
	return (size_t)n;
}

/* ---- helpers ------------------------------------------------------------------------ */

static int
read_to_end(struct reader *r)
{
	struct entry e;
	int ret;

	ck_assert_int_eq(reader_init(r, journal_fd), 0);
	while ((ret = reader_next(r, &e)) == READER_RECORD)
		;
	return ret;
}

static struct verify
verified(struct index *x, const uint8_t *expect)
{
	struct verify v;

	ck_assert_int_eq(verify_start(&v, journal_fd, index_fd, x, expect), 0);
	while (verify_step(&v, 3) == 0)
		;
	return v;
}

static bool
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
static void
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

/* ---- reader ------------------------------------------------------------------------- */

START_TEST(a_whole_journal_reads_to_its_end)
{
	struct reader r;

	write_story();
	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 13);
	ck_assert_uint_eq(r.at.segment, 2);
	ck_assert_mem_eq(r.at.hash, w.chain, JOURNAL_HASH);
	ck_assert_uint_eq(r.torn + r.torn_before, 0);
	reader_finish(&r);
}
END_TEST

START_TEST(an_empty_journal_is_one)
{
	struct reader r;

	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 0);
	reader_finish(&r);
	ck_assert(is_valid());
}
END_TEST

START_TEST(a_growing_journal_is_followed_into_the_next_segment)
{
	struct reader r;
	struct entry e;

	begin();
	put_accepted("op-1", "turn");
	save();
	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 2);
	put_ended("op-1");
	save();
	put_file(2, "", 0); /* made ahead of its use */
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_int_eq(reader_next(&r, &e), READER_END);
	put_accepted("op-2", "turn");
	save();
	begin();
	save();
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_uint_eq(e.segment, 1);
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_uint_eq(e.segment, 2);
	ck_assert_int_eq(reader_next(&r, &e), READER_END);
	reader_finish(&r);
}
END_TEST

/* Power loss: exactly the whole records before the cut, and a broker goes on from there. */
START_TEST(every_prefix_of_a_journal_reads_and_can_be_continued)
{
	uint8_t first[8192], second[8192];
	struct writer whole;
	struct reader r;
	size_t nfirst, n, before;
	unsigned in_second, want;
	struct position at;

	write_story();
	nfirst = get_file(1, first, sizeof(first));
	get_file(2, second, sizeof(second));
	whole = w;
	for (n = 0; n <= nfirst + whole.file.n; n++) {
		clear(journal_fd);
		put_file(1, first, n < nfirst ? n : nfirst);
		if (n >= nfirst)
			put_file(2, second, n - nfirst);
		ck_assert_msg(read_to_end(&r) == READER_END, "cut at %zu: %s", n, r.problem);
		if (n >= nfirst) {
			for (in_second = 0;
			     in_second < whole.n && whole.ends[in_second] <= n - nfirst;
			     in_second++)
				;
			want = 7 + in_second;
			ck_assert_uint_eq(r.at.count, want);
			before = in_second ? whole.ends[in_second - 1] : 0;
			ck_assert_uint_eq(r.torn, n - nfirst - before);
		} else {
			ck_assert_uint_le(r.at.count, 7);
			ck_assert_uint_eq(r.torn, n - r.at.offset);
		}
		at = r.at;
		reader_finish(&r);

		/* What a broker does that is told so. */
		memset(&w, 0, sizeof(w));
		memcpy(w.chain, at.hash, JOURNAL_HASH);
		w.count = at.count;
		w.segment = n >= nfirst ? 2 : 1;
		begin_after(at.segment == w.segment ? at.offset : 0);
		put_ended("op-1");
		save();
		ck_assert_msg(read_to_end(&r) == READER_END, "after %zu: %s", n, r.problem);
		ck_assert_uint_eq(r.at.count, at.count + 2);
		reader_finish(&r);
		ck_assert(is_valid());
		buf_finish(&w.file);
	}
	w = whole;
}
END_TEST

/* ---- verify: what is wrong is found ---------------------------------------------------- */

START_TEST(any_changed_byte_is_found)
{
	uint8_t bytes[2][8192];
	size_t n[2], i;
	unsigned s;

	write_story();
	run_ledger();
	ck_assert(is_valid());
	for (s = 0; s < 2; s++)
		n[s] = get_file(s + 1, bytes[s], sizeof(bytes[s]));
	for (s = 0; s < 2; s++)
		for (i = 0; i < n[s]; i++) {
			bytes[s][i] ^= (uint8_t)(1u << (i % 8));
			put_file(s + 1, bytes[s], n[s]);
			ck_assert_msg(!is_valid(), "segment %u, byte %zu", s + 1, i);
			bytes[s][i] ^= (uint8_t)(1u << (i % 8));
		}
}
END_TEST

/* Without a head, all but the last two entries are still safe from that. */
START_TEST(a_changed_byte_before_the_end_is_found_without_a_head)
{
	uint8_t bytes[8192];
	struct reader r;
	size_t n, i;

	write_story();
	n = get_file(2, bytes, sizeof(bytes));
	for (i = 0; i < w.ends[w.n - 4]; i++) {
		bytes[i] ^= 0x40;
		put_file(2, bytes, n);
		ck_assert_msg(read_to_end(&r) == READER_DAMAGE, "byte %zu", i);
		ck_assert_ptr_nonnull(strstr(r.problem, "segment "));
		reader_finish(&r);
		bytes[i] ^= 0x40;
	}
}
END_TEST

enum { CUT_END, CUT_SEGMENT, DROP_FIRST, SWAP_SEGMENTS, LIE_LENGTH, OLD_COPY };
static const struct {
	const char *what;
	int how;
	const char *says;
} tampering[] = {
	{ "the last record is cut off", CUT_END, "cut off" },
	{ "the last segment is removed", CUT_SEGMENT, "cut off" },
	{ "the first segment is removed", DROP_FIRST, "missing" },
	{ "two segments are exchanged", SWAP_SEGMENTS, "segment" },
	{ "the next segment names a shorter one before it", LIE_LENGTH, "was replaced" },
	{ "another journal of the same form", OLD_COPY, "another" },
};

START_TEST(tampering_is_found_and_named)
{
	uint8_t a[8192], b[8192];
	size_t na, nb;
	struct verify v;

	write_story();
	run_ledger();
	na = get_file(1, a, sizeof(a));
	nb = get_file(2, b, sizeof(b));
	switch (tampering[_i].how) {
	case CUT_END: put_file(2, b, w.ends[w.n - 2]); break;
	case CUT_SEGMENT: unlinkat(journal_fd, "journal.00000002", 0); break;
	case DROP_FIRST: unlinkat(journal_fd, "journal.00000001", 0); break;
	case SWAP_SEGMENTS:
		put_file(1, b, nb);
		put_file(2, a, na);
		break;
	case LIE_LENGTH:
		begin_after(w.ends[3]);
		save();
		break;
	case OLD_COPY:
		buf_finish(&w.file);
		memset(&w, 0, sizeof(w));
		begin();
		put_accepted("op-9", "turn");
		for (int i = 0; i < 12; i++)
			put_block("op-9", (uint64_t)i);
		save();
		unlinkat(journal_fd, "journal.00000002", 0);
		break;
	}
	v = verified(NULL, NULL);
	ck_assert(!v.valid);
	ck_assert_msg(strstr(verify_text(&v), tampering[_i].says), "%s: %s", tampering[_i].what,
	    verify_text(&v));
	verify_finish(&v);
}
END_TEST

START_TEST(only_the_expected_head_is_accepted)
{
	uint8_t other[JOURNAL_HASH] = { 1 };
	struct verify v;

	write_story();
	run_ledger();
	v = verified(NULL, w.chain);
	ck_assert(v.valid);
	verify_finish(&v);
	v = verified(NULL, other);
	ck_assert(!v.valid);
	verify_finish(&v);
	put_ended("op-1");
	save();
	v = verified(NULL, w.chain);
	ck_assert(v.valid);
	verify_finish(&v);
}
END_TEST

START_TEST(a_changed_index_is_found)
{
	struct index *x;
	struct verify v;
	struct entry e;
	struct reader r;

	write_story();
	run_ledger();
	/* A row that the journal does not have. */
	ck_assert_int_eq(reader_init(&r, journal_fd), 0);
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_int_eq(index_open(index_fd, &x), 0);
	struct position after = index_position(x);
	after.count++;
	ck_assert_int_eq(index_add(x, &e, &after), 0);
	ck_assert_int_eq(index_commit(x), 0);
	index_settle(x);
	index_close(x);
	reader_finish(&r);
	v = verified(NULL, NULL);
	ck_assert(!v.valid);
	ck_assert_ptr_nonnull(strstr(verify_text(&v), "index"));
	verify_finish(&v);
	/* Bytes that are no database. */
	int fd = openat(index_fd, INDEX_FILE, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_eq(write(fd, "no database, no database, no database", 37), 37);
	close(fd);
	ck_assert(!is_valid());
	/* The ledger makes it again, and all is well. */
	run_ledger();
	ck_assert(is_valid());
}
END_TEST

/* ---- head --------------------------------------------------------------------------- */

static const struct {
	const char *text;
	int error;
} heads[] = {
	{ "", -EBADMSG },
	{ "caisson-head 2 1 ", -EBADMSG },
	{ "caisson-head 1 1 00 1 1\n", -EBADMSG },
	{ "caisson-head 1 1 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    0 },
	{ "caisson-head 1 1 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99",
	    -EBADMSG },
	{ "caisson-head 1 01 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    -EBADMSG },
	{ "caisson-head 1 1 "
	  "000000000000000000000000000000000000000000000000000000000000000G 1 99\n",
	    -EBADMSG },
	{ "caisson-head 1 99999999999999999999999 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    -EBADMSG },
};

START_TEST(only_what_we_would_write_is_a_head)
{
	struct position at = { .count = 7 };
	int fd = openat(index_fd, HEAD_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_eq(
	    write(fd, heads[_i].text, strlen(heads[_i].text)), (ssize_t)strlen(heads[_i].text));
	close(fd);
	ck_assert_int_eq(head_read(index_fd, &at), heads[_i].error);
	ck_assert_uint_eq(at.count, heads[_i].error ? 7 : 1);
}
END_TEST

START_TEST(a_head_is_replaced_whole)
{
	struct position at = { .count = UINT64_MAX, .segment = 3, .offset = 9 }, got;

	ck_assert_int_eq(head_read(index_fd, &got), -ENOENT);
	memset(at.hash, 0xab, sizeof(at.hash));
	ck_assert_int_eq(head_write(index_fd, &at), 0);
	at.count = 2;
	ck_assert_int_eq(head_write(index_fd, &at), 0);
	ck_assert_int_eq(head_read(index_fd, &got), 0);
	ck_assert_uint_eq(got.count, 2);
	ck_assert_mem_eq(got.hash, at.hash, JOURNAL_HASH);
	ck_assert_int_eq(faccessat(index_fd, HEAD_FILE ".new", F_OK, 0), -1);
}
END_TEST

/* ---- ledger: state, queries, damage ------------------------------------------------------ */

/* The state as text: "op-1 turn 1000 [c-2] | g-1 2 g-2 0". */
static void
state_text(struct ledger *l, char *out, size_t cap)
{
	struct msg_state_load_reply reply;
	struct index_state lists;
	struct buf bytes = { 0 };
	struct slice rest;
	struct value list, map, v, c;
	const char *why;
	size_t n = 0;

	ck_assert_int_eq(ledger_state(l, 0, &reply, &lists, &bytes, &why), 0);
	rest = reply.operations;
	list = value_next(&rest);
	for (uint32_t i = 0; i < list.count; i++) {
		map = value_skip(&rest);
		ck_assert(value_get(map.raw, "operation", &v));
		n += (size_t)snprintf(out + n, cap - n, "%.*s", (int)v.bytes.n, v.bytes.p);
		ck_assert(value_get(map.raw, "kind", &v));
		n += (size_t)snprintf(out + n, cap - n, " %.*s", (int)v.bytes.n, v.bytes.p);
		ck_assert(value_get(map.raw, "sequence", &v));
		n += (size_t)snprintf(out + n, cap - n, " %d", (int)v.uint);
		if (value_get(map.raw, "cause", &v))
			n += (size_t)snprintf(
			    out + n, cap - n, " %.*s", (int)v.bytes.n, v.bytes.p);
		if (value_get(map.raw, "calls", &v)) {
			struct slice calls = v.raw;
			struct value array = value_next(&calls);

			n += (size_t)snprintf(out + n, cap - n, " [");
			for (uint32_t k = 0; k < array.count; k++) {
				c = value_next(&calls);
				n += (size_t)snprintf(out + n, cap - n, "%s%.*s", k ? " " : "",
				    (int)c.bytes.n, c.bytes.p);
			}
			n += (size_t)snprintf(out + n, cap - n, "]");
		}
		n += (size_t)snprintf(out + n, cap - n, "; ");
	}
	rest = reply.uses;
	list = value_next(&rest);
	for (uint32_t i = 0; i < list.count; i++) {
		map = value_skip(&rest);
		ck_assert(value_get(map.raw, "grant", &v));
		n += (size_t)snprintf(out + n, cap - n, "%.*s=", (int)v.bytes.n, v.bytes.p);
		ck_assert(value_get(map.raw, "spent", &v));
		n += (size_t)snprintf(out + n, cap - n, "%d ", (int)v.uint);
	}
	ck_assert_uint_eq(reply.next, 0);
	ck_assert_uint_eq(reply.count, l->reader.at.count);
	index_state_finish(&lists);
	buf_finish(&bytes);
}

static void
open_ledger(struct ledger *l, bool readonly)
{
	ck_assert_int_eq(ledger_init(l, journal_fd, index_fd, readonly), 0);
	while (ledger_follow(l, 100) > 0)
		;
}

#define STORY_STATE "op-1 turn 1000 [c-2]; op-2 command 0 completed; g-1=2 g-2=0 "

/* D-10: a denied check spends nothing, a release gives back, an open call stays spent. */
START_TEST(the_state_is_what_the_record_implies)
{
	struct ledger l;
	char text[512];

	write_story();
	open_ledger(&l, _i == 1);
	state_text(&l, text, sizeof(text));
	ck_assert_str_eq(text, STORY_STATE);
	ledger_finish(&l);
}
END_TEST

/* D-16: the index can be made again at any time, also when it was left in the middle. */
START_TEST(an_index_made_again_gives_the_same_state)
{
	struct ledger l;
	char text[512];
	unsigned i;

	write_story();
	for (i = 0; i < 14; i++) {
		clear(index_fd);
		ck_assert_int_eq(ledger_init(&l, journal_fd, index_fd, false), 0);
		if (i > 0)
			ledger_follow(&l, i);
		index_commit(l.index);
		ledger_finish(&l);
		open_ledger(&l, false);
		state_text(&l, text, sizeof(text));
		ck_assert_str_eq(text, STORY_STATE);
		ledger_finish(&l);
	}
	/* Records that were indexed and lost with the machine's power. */
	put_file(2, w.file.p, w.ends[0]);
	open_ledger(&l, false);
	ck_assert_uint_eq(l.reader.at.count, 8);
	state_text(&l, text, sizeof(text));
	ck_assert_str_eq(text, "op-1 turn 1000 [c-2]; g-1=2 ");
	ledger_finish(&l);
}
END_TEST

/* D-11: an open operation has the last number that it may have used, one that has ended that
 * of its terminal event.  A broker that takes over goes on behind the one, repeats the other. */
START_TEST(sequences_in_the_state_are_safe_to_go_on_from)
{
	struct msg_record r = record("acc", RECORD_operation_accepted);
	struct ledger l;
	char text[512];

	begin();
	SET(r, operation, "op-1");
	SET(r, detail, "turn");
	r.has_sequence = true;
	r.sequence = 1000;
	put(&r);
	SET(r, operation, "op-2");
	put(&r);
	SET(r, operation, "op-3");
	put(&r);
	put_block("op-2", 2000);
	r = record("end", RECORD_operation_ended);
	SET(r, operation, "op-3");
	SET(r, cause, "completed");
	r.has_sequence = true;
	r.sequence = 7;
	put(&r);
	put_file(1, w.file.p, w.file.n);
	open_ledger(&l, false);
	state_text(&l, text, sizeof(text));
	ck_assert_str_eq(
	    text, "op-1 turn 1000 []; op-2 turn 2000 []; op-3 turn 7 completed; ");
	ledger_finish(&l);
}
END_TEST

START_TEST(a_large_state_comes_in_pages)
{
	struct index_state s;
	struct ledger l;
	char name[64];
	uint64_t cursor = 0;
	unsigned operations = 0, uses = 0, pages = 0;

	begin();
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "op-%d", i);
		put_accepted(name, "turn");
		put_checked(name, name, name, true);
	}
	save();
	open_ledger(&l, true);
	do {
		ck_assert_int_eq(index_state(l.index, cursor, 300, &s), 0);
		ck_assert_uint_le(
		    s.items[INDEX_OPERATIONS].n + s.items[INDEX_USES].n, 300);
		operations += s.n[INDEX_OPERATIONS];
		uses += s.n[INDEX_USES];
		cursor = s.next;
		index_state_finish(&s);
		pages++;
	} while (cursor != 0);
	ck_assert_uint_eq(operations, 50);
	ck_assert_uint_eq(uses, 50);
	ck_assert_uint_gt(pages, 5);
	ck_assert_int_eq(index_state(l.index, 0, 10, &s), -E2BIG);
	ledger_finish(&l);
}
END_TEST

START_TEST(a_segment_made_and_never_begun_is_the_last_one)
{
	struct msg_state_load_reply reply;
	struct index_state lists;
	struct buf bytes = { 0 };
	struct ledger l;
	const char *why;

	write_story();
	put_file(3, "torn", 4);
	open_ledger(&l, true);
	ck_assert_int_eq(ledger_state(&l, 0, &reply, &lists, &bytes, &why), 0);
	ck_assert_uint_eq(reply.segment, 3);
	ck_assert_uint_eq(reply.length, 0);
	ck_assert_uint_eq(reply.count, 13);
	index_state_finish(&lists);
	buf_finish(&bytes);
	ledger_finish(&l);
}
END_TEST

/* Fail closed: no broker starts on a record that was cut or changed; the rest is served. */
START_TEST(a_damaged_record_gives_no_state_and_is_still_read)
{
	struct msg_audit_read ask = { .limit = 100 };
	struct msg_audit_read_reply got;
	struct msg_state_load_reply reply;
	struct index_state lists = { 0 };
	struct buf bytes = { 0 };
	struct ledger l;
	const char *why;
	struct slice rest;

	write_story();
	if (_i == 0) {
		w.file.p[w.ends[1] - 1] ^= 1;
		save();
	} else {
		run_ledger();
		put_file(2, w.file.p, w.ends[1]);
	}
	open_ledger(&l, false);
	ck_assert_int_eq(ledger_state(&l, 0, &reply, &lists, &bytes, &why), -EBADMSG);
	ck_assert_uint_gt(strlen(why), 20);
	buf_finish(&bytes);
	bytes = (struct buf){ 0 };
	ck_assert_int_eq(ledger_read(&l, &ask, &got, &bytes, &why), 0);
	rest = got.records;
	ck_assert_uint_eq(value_next(&rest).count, _i == 0 ? 8 : 9);
	/* Evidence stays: the head does not move. */
	struct position before = { 0 }, after = { 0 };
	head_read(index_fd, &before);
	ck_assert_int_eq(ledger_move_head(&l), 0);
	head_read(index_fd, &after);
	ck_assert_uint_eq(before.count, after.count);
	buf_finish(&bytes);
	ledger_finish(&l);
}
END_TEST

static const struct {
	const char *what;
	struct msg_audit_read ask;
	unsigned count;
} queries[] = {
	{ "all", { .limit = 100 }, 13 },
	{ "a page", { .limit = 5 }, 5 },
	{ "behind a cursor", { .limit = 100, .cursor = 10 }, 3 },
	{ "an operation",
	    { .limit = 100,
		.has_operation = true,
		.operation = { (const uint8_t *)"op-2", 4 } },
	    2 },
	{ "a call", { .limit = 100, .has_call = true, .call = { (const uint8_t *)"c-1", 3 } },
	    2 },
	{ "a trace",
	    { .limit = 100, .has_trace = true, .trace = { (const uint8_t *)"trace-1", 7 } },
	    2 },
	{ "a principal",
	    { .limit = 100,
		.has_principal = true,
		.principal = { (const uint8_t *)"agent:a", 7 } },
	    4 },
	{ "a tool",
	    { .limit = 100, .has_tool = true, .tool = { (const uint8_t *)"files.read", 10 } },
	    4 },
	{ "a grant and an outcome",
	    { .limit = 100,
		.has_grant = true,
		.grant = { (const uint8_t *)"g-1", 3 },
		.has_outcome = true,
		.outcome = record_outcome_denied },
	    1 },
	{ "no injection",
	    { .limit = 100, .has_tool = true, .tool = { (const uint8_t *)"' OR 1=1 --", 11 } },
	    0 },
	{ "since", { .limit = 100, .has_since = true, .since = 1700000000010 }, 3 },
	{ "until", { .limit = 100, .has_until = true, .until = 1700000000002 }, 2 },
	{ "until the end of time", { .limit = 100, .has_until = true, .until = UINT64_MAX },
	    13 },
};

START_TEST(a_query_gives_what_it_names)
{
	struct msg_audit_read_reply got = { 0 };
	struct buf bytes = { 0 };
	struct value v, map;
	struct fault fault;
	struct slice rest;
	struct ledger l;
	const char *why;
	uint32_t i, n;

	write_story();
	open_ledger(&l, true);
	ck_assert_int_eq(ledger_read(&l, &queries[_i].ask, &got, &bytes, &why), 0);
	ck_assert_int_eq(walk_value(got.records.p, got.records.n, &fault), 0);
	rest = got.records;
	n = value_next(&rest).count;
	ck_assert_msg(n == queries[_i].count, "%s: %u", queries[_i].what, n);
	ck_assert_uint_eq(got.next != 0, n == queries[_i].ask.limit);
	for (i = 0; i < n; i++) {
		map = value_skip(&rest);
		ck_assert(value_get(map.raw, "count", &v));
		ck_assert(value_get(map.raw, "segment", &v));
		ck_assert(v.uint == 1 || v.uint == 2);
		ck_assert(value_get(map.raw, "id", &v));
	}
	buf_finish(&bytes);
	ledger_finish(&l);
}
END_TEST

/* T26: batches, so that the index keeps up. */
START_TEST(thousands_of_records_are_indexed_in_batches)
{
	struct ledger l;
	unsigned i;

	begin();
	for (i = 0; i < 4000; i++)
		put_checked("op-1", "c-1", "g-1", true);
	save();
	ck_assert_int_eq(ledger_init(&l, journal_fd, index_fd, false), 0);
	ck_assert_int_eq(ledger_follow(&l, 100), 1);
	ck_assert_uint_eq(index_pending(l.index), 100);
	ck_assert_int_eq(ledger_follow(&l, 10000), 0);
	ck_assert_uint_eq(index_pending(l.index), 0);
	ck_assert_uint_eq(index_position(l.index).count, 4001);
	ck_assert_int_eq(ledger_move_head(&l), 0);
	ledger_settle(&l);
	ledger_finish(&l);
	ck_assert(is_valid());
}
END_TEST

/* Or a broker that writes as fast as it is read would keep a look going for ever. */
START_TEST(a_look_ends_where_the_record_ended_when_it_began)
{
	struct verify v;
	uint64_t count;

	write_story();
	v = verified(NULL, NULL);
	count = v.reader.at.count;
	verify_finish(&v);
	ck_assert_int_eq(verify_start(&v, journal_fd, -1, NULL, NULL), 0);
	do {
		put_ended("op-1");
		save();
	} while (verify_step(&v, 1) == 0 && v.reader.at.count < 2 * count);
	ck_assert(v.done && v.valid);
	ck_assert_uint_eq(v.reader.at.count, count);
	verify_finish(&v);
}
END_TEST

START_TEST(a_live_index_is_not_compared_with_an_older_look)
{
	struct ledger l;
	struct verify v;

	write_story();
	open_ledger(&l, false);
	ck_assert_int_eq(verify_start(&v, journal_fd, index_fd, l.index, NULL), 0);
	ck_assert_int_eq(verify_step(&v, 3), 0);
	put_ended("op-1");
	save();
	ck_assert_int_eq(ledger_follow(&l, 10), 0);
	while (verify_step(&v, 3) == 0)
		;
	ck_assert_msg(v.valid, "%s", verify_text(&v));
	verify_finish(&v);
	/* Its log holds what its file does not: another reader only says so. */
	v = verified(NULL, NULL);
	ck_assert(v.valid);
	ck_assert_uint_gt(strlen(verify_text(&v)), 0);
	verify_finish(&v);
	ledger_finish(&l);
}
END_TEST

/* ---- confinement, by attack ------------------------------------------------------------- */

enum {
	OPEN_PASSWD,
	WRITE_JOURNAL,
	MAKE_SEGMENT,
	SOCKET,
	EXEC,
	FORK,
	LINK_OUT,
	READ_JOURNAL,
	WRITE_INDEX
};
static const struct {
	const char *what;
	int how;
	bool readonly, allowed;
} attacks[] = {
	{ "open a file of the system", OPEN_PASSWD, false, false },
	{ "open a segment for writing", WRITE_JOURNAL, false, false },
	{ "make a segment", MAKE_SEGMENT, false, false },
	{ "make a socket", SOCKET, false, false },
	{ "run a program", EXEC, false, false },
	{ "start a process", FORK, false, false },
	{ "make a link", LINK_OUT, false, false },
	{ "read a segment", READ_JOURNAL, false, true },
	{ "write to the index", WRITE_INDEX, false, true },
	{ "write to the index, read-only", WRITE_INDEX, true, false },
	{ "read a segment, read-only", READ_JOURNAL, true, true },
};

static bool
attack(int how)
{
	char *const argv[] = { NULL };
	int fd;

	switch (how) {
	case OPEN_PASSWD: return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0;
	case WRITE_JOURNAL:
		return openat(journal_fd, "journal.00000001", O_WRONLY | O_CLOEXEC) >= 0;
	case MAKE_SEGMENT:
		return openat(journal_fd, "journal.00000009", O_RDWR | O_CREAT | O_CLOEXEC,
			   0600) >= 0;
	case SOCKET:
		return socket(AF_INET, SOCK_STREAM, 0) >= 0 ||
		       socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
	case EXEC: execv("/bin/true", argv); return errno != EPERM;
	case FORK: return fork() >= 0;
	case LINK_OUT: return linkat(journal_fd, "journal.00000001", index_fd, "x", 0) == 0;
	case READ_JOURNAL:
		fd = openat(journal_fd, "journal.00000001", O_RDONLY | O_CLOEXEC);
		return fd >= 0 && fdatasync(fd) == 0;
	case WRITE_INDEX:
		return openat(index_fd, "head", O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0;
	}
	return false;
}

START_TEST(a_confined_ledger_can_do_its_work_and_nothing_else)
{
	const char *what;
	int status;
	pid_t pid;

#ifdef CAISSON_ASAN
	puts("skip: a sanitizer's own calls are not in the ledger's list");
	return;
#endif
	begin();
	save();
	pid = fork();
	if (pid == 0) {
		if (confine_ledger(journal_fd, index_fd, attacks[_i].readonly, &what) < 0)
			_exit(2);
		/* The index opens and closes in there, too. */
		if (!attacks[_i].readonly) {
			struct ledger l;

			if (ledger_init(&l, journal_fd, index_fd, false) < 0 ||
			    ledger_follow(&l, 10) != 0 || ledger_move_head(&l) != 0)
				_exit(3);
			ledger_settle(&l);
			ledger_finish(&l);
		}
		_exit(attack(attacks[_i].how) ? 1 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_msg(WEXITSTATUS(status) == attacks[_i].allowed, "%s: %d", attacks[_i].what,
	    WEXITSTATUS(status));
}
END_TEST

static TCase *
add_case(Suite *s, const char *name)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	return t;
}

int
main(void)
{
	Suite *s = suite_create("ledger_index");
	TCase *t;
	SRunner *r;
	int failed;

	t = add_case(s, "reader");
	tcase_add_test(t, a_whole_journal_reads_to_its_end);
	tcase_add_test(t, an_empty_journal_is_one);
	tcase_add_test(t, a_growing_journal_is_followed_into_the_next_segment);
	tcase_add_test(t, every_prefix_of_a_journal_reads_and_can_be_continued);
	t = add_case(s, "verify");
	tcase_add_test(t, any_changed_byte_is_found);
	tcase_add_test(t, a_changed_byte_before_the_end_is_found_without_a_head);
	tcase_add_loop_test(t, tampering_is_found_and_named, 0, countof(tampering));
	tcase_add_test(t, only_the_expected_head_is_accepted);
	tcase_add_test(t, a_changed_index_is_found);
	tcase_add_test(t, a_look_ends_where_the_record_ended_when_it_began);
	tcase_add_test(t, a_live_index_is_not_compared_with_an_older_look);
	t = add_case(s, "head");
	tcase_add_loop_test(t, only_what_we_would_write_is_a_head, 0, countof(heads));
	tcase_add_test(t, a_head_is_replaced_whole);
	t = add_case(s, "ledger");
	tcase_add_loop_test(t, the_state_is_what_the_record_implies, 0, 2);
	tcase_add_test(t, sequences_in_the_state_are_safe_to_go_on_from);
	tcase_add_test(t, an_index_made_again_gives_the_same_state);
	tcase_add_test(t, a_large_state_comes_in_pages);
	tcase_add_test(t, a_segment_made_and_never_begun_is_the_last_one);
	tcase_add_loop_test(t, a_damaged_record_gives_no_state_and_is_still_read, 0, 2);
	tcase_add_loop_test(t, a_query_gives_what_it_names, 0, countof(queries));
	tcase_add_test(t, thousands_of_records_are_indexed_in_batches);
	t = add_case(s, "confinement");
	tcase_add_loop_test(
	    t, a_confined_ledger_can_do_its_work_and_nothing_else, 0, countof(attacks));
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
