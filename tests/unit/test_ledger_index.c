/*
 * The index of the record: the state that it implies, queries, damage (D-10, D-11, D-16), and
 * what a confined ledger can do.
 */
#include <check.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/walk.h"
#include "ledger/confine.h"
#include "ledger/head.h"
#include "tests/unit/ledger_fixture.h"

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
