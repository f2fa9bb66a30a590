/*
 * What a ledger keeps of operations' events: bounds, order, what goes first, and files that are
 * not what it left.  D-16, OP-39, OP-40.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "common/util.h"
#include "common/walk.h"
#include "ledger/bodies.h"

#define KIB 1024u

static char dir[64];
static int dir_fd;
static struct bodies *b;
static uint8_t bytes[64 * KIB];

static void
bound(uint64_t operation, uint64_t total, uint64_t time_ms)
{
	const struct msg_body_bounds m = {
		.operationBytes = operation, .totalBytes = total, .timeMs = time_ms };

	ck_assert_int_eq(bodies_set_bounds(b, &m), 0);
}

static void
setup(void)
{
	strcpy(dir, "/tmp/caisson-bodies-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
	ck_assert_int_eq(bodies_open(dir_fd, &b), 0);
	bound(64 * KIB, 256 * KIB, 1000);
}

static void
teardown(void)
{
	bodies_close(b);
	bodies_discard(dir_fd);
	close(dir_fd);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* As a ledger that is killed, and the next. */
static void
again(void)
{
	bodies_close(b);
	ck_assert_int_eq(bodies_open(dir_fd, &b), 0);
	bound(64 * KIB, 256 * KIB, 1000);
}

/* ---- what is kept --------------------------------------------------------------------- */

static int
add(const char *id, uint64_t sequence, size_t n)
{
	struct msg_body_keep m = { .operation = slice_of(id), .sequence = sequence,
		.type = event_type_output, .has_stream = true, .stream = stream_stderr,
		.has_data = true, .data = { bytes, n } };

	memset(bytes, (int)(sequence & 0xff), n);
	return bodies_keep(b, &m, 100);
}

static int
add_ending(const char *id, uint64_t sequence, uint64_t now_ms)
{
	static const uint8_t map[] = { 0x80 };
	struct msg_body_keep m = { .operation = slice_of(id), .sequence = sequence,
		.type = event_type_completed, .has_body = true, .body = { map, 1 } };

	return bodies_keep(b, &m, now_ms);
}

static char told[256];

static void
tell(void *arg, const char *id, uint64_t sequence)
{
	size_t n = strlen(told);

	(void)arg;
	snprintf(told + n, sizeof told - n, "%s:%llu ", id, (unsigned long long)sequence);
}

static const char *
commit(void)
{
	told[0] = '\0';
	ck_assert_int_eq(bodies_commit(b, tell, NULL), 0);
	return told;
}

/* "4-9", of those behind `after`; "" for none.  Each is what it was, and none is left out. */
static const char *
kept(const char *id, uint64_t after)
{
	static char text[64];
	struct msg_body_read m = { .operation = slice_of(id), .after = after, .limit = 10000 };
	uint64_t first = 0, last = after, ended;
	bool more = true;

	while (more) {
		struct buf maps = { 0 };
		struct slice rest;
		uint32_t n;

		m.after = last;
		ck_assert_int_eq(bodies_read(b, &m, &maps, &n, &more, &ended), 0);
		ck_assert(!more || n > 0);
		rest = buf_slice(&maps);
		while (n-- > 0) {
			struct msg_body_keep e;
			struct fault fault;
			struct slice map = value_skip(&rest).raw;

			ck_assert_int_eq(
			    protocol_unpack(map.p, map.n, MSG_body_keep, &e, &fault), 0);
			ck_assert(first == 0 || e.sequence == last + 1);
			ck_assert(e.has_data != e.has_body);
			if (e.has_data && e.data.n > 0)
				ck_assert_int_eq(e.data.p[e.data.n - 1], (int)(e.sequence & 0xff));
			first = first == 0 ? e.sequence : first;
			last = e.sequence;
		}
		ck_assert_uint_eq(rest.n, 0);
		buf_finish(&maps);
	}
	snprintf(text, sizeof text, first == 0 ? "" : "%llu-%llu", (unsigned long long)first,
	    (unsigned long long)last);
	return text;
}

START_TEST(what_is_kept_is_there_for_the_next_ledger)
{
	struct stat st;

	for (uint64_t i = 1; i <= 40; i++)
		ck_assert_int_eq(add(i & 1 ? "one" : "two", (i + 1) / 2, 1000), 0);
	ck_assert_str_eq(commit(), "one:20 two:20 ");
	ck_assert_int_eq(add_ending("one", 21, 100), 0);
	ck_assert_str_eq(commit(), "one:21 ");
	ck_assert_int_eq(add("two", 21, 10), 0);
	again(); /* before it was committed: nobody was told */
	ck_assert_str_eq(kept("one", 0), "1-21");
	ck_assert_str_eq(kept("two", 0), "1-20");
	ck_assert_str_eq(kept("two", 7), "8-20");
	ck_assert_str_eq(kept("two", 20), "");
	ck_assert_str_eq(kept("none", 0), "");
	ck_assert_int_eq(fstatat(dir_fd, BODIES_FILE, &st, 0), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(what_comes_twice_is_kept_once_and_told_again)
{
	for (uint64_t i = 1; i <= 3; i++)
		ck_assert_int_eq(add("one", i, 10), 0);
	commit();
	again();
	for (uint64_t i = 2; i <= 4; i++)
		ck_assert_int_eq(add("one", i, 10), 0);
	ck_assert_str_eq(commit(), "one:4 ");
	ck_assert_str_eq(kept("one", 0), "1-4");
	ck_assert_uint_eq(bodies_bytes(b), 4 * (10 + BODIES_COST));
}
END_TEST

START_TEST(before_a_hole_nothing_is_kept)
{
	ck_assert_int_eq(add("one", 1, 10), 0);
	ck_assert_int_eq(add("one", 2, 10), 0);
	ck_assert_int_eq(add("one", 9, 10), 0);
	ck_assert_str_eq(commit(), "one:9 ");
	ck_assert_str_eq(kept("one", 0), "9-9");
	ck_assert_uint_eq(bodies_bytes(b), 10 + BODIES_COST);
}
END_TEST

/* ---- bounds --------------------------------------------------------------------------- */

START_TEST(an_operation_loses_its_front_and_never_its_ending)
{
	for (uint64_t i = 1; i <= 20; i++)
		ck_assert_int_eq(add("one", i, 8 * KIB), 0);
	ck_assert_str_eq(commit(), "one:20 ");
	ck_assert_str_eq(kept("one", 0), "14-20");
	bound(1, 256 * KIB, 1000);
	ck_assert_int_eq(add_ending("one", 21, 100), 0);
	commit();
	ck_assert_str_eq(kept("one", 0), "21-21");
}
END_TEST

/* The order of event_log.h: who fills the whole takes nothing from the others. */
START_TEST(of_all_the_oldest_ended_goes_first_then_the_largest_open_then_endings)
{
	bound(64 * KIB, 100 * KIB, 1000);
	for (uint64_t i = 1; i <= 4; i++) {
		ck_assert_int_eq(add("old", i, 8 * KIB), 0);
		ck_assert_int_eq(add("new", i, 8 * KIB), 0);
		ck_assert_int_eq(add("small", i, 4 * KIB), 0);
		ck_assert_int_eq(add("large", i, 8 * KIB), 0);
	}
	ck_assert_int_eq(add_ending("old", 5, 100), 0);
	ck_assert_int_eq(add_ending("new", 5, 101), 0);
	commit();
	ck_assert_str_eq(kept("old", 0), "3-5");
	ck_assert_str_eq(kept("new", 0), "1-5");
	again();
	bound(64 * KIB, 44 * KIB, 1000);
	commit();
	ck_assert_str_eq(kept("old", 0), "5-5");
	ck_assert_str_eq(kept("new", 0), "5-5");
	ck_assert_str_eq(kept("large", 0), "2-4");
	ck_assert_str_eq(kept("small", 0), "1-4");
	bound(64 * KIB, 20 * KIB, 1000);
	commit();
	ck_assert_str_eq(kept("new", 0), "5-5");
	bound(64 * KIB, 0, 1000);
	commit();
	ck_assert_uint_eq(bodies_bytes(b), 0);
}
END_TEST

START_TEST(time_counts_from_the_ending)
{
	ck_assert_int_eq(add("open", 1, 10), 0);
	ck_assert_int_eq(add_ending("one", 1, 5000), 0);
	ck_assert_int_eq(add_ending("two", 1, 5500), 0);
	commit();
	ck_assert_int_eq(bodies_expire(b, 5999), 0);
	ck_assert_str_eq(kept("one", 0), "1-1");
	ck_assert_int_eq(bodies_expire(b, 6000), 0);
	commit();
	again();
	ck_assert_str_eq(kept("one", 0), "");
	ck_assert_str_eq(kept("two", 0), "1-1");
	/* Those of a broker that is gone are over. */
	ck_assert_int_eq(bodies_end_all(b, 7000), 0);
	commit();
	ck_assert_int_eq(bodies_expire(b, 7999), 0);
	ck_assert_str_eq(kept("open", 0), "1-1");
	ck_assert_int_eq(bodies_expire(b, 8000), 0);
	ck_assert_uint_eq(bodies_bytes(b), 0);
}
END_TEST

START_TEST(an_operation_that_goes_on_is_open_again)
{
	ck_assert_int_eq(add("one", 1, 10), 0);
	commit();
	ck_assert_int_eq(bodies_end_all(b, 100), 0);
	ck_assert_int_eq(add("one", 2, 10), 0);
	ck_assert_str_eq(commit(), "one:2 ");
	ck_assert_int_eq(bodies_expire(b, 1u << 30), 0);
	ck_assert_str_eq(kept("one", 0), "1-2");
}
END_TEST

START_TEST(what_is_dropped_is_gone_and_only_that)
{
	ck_assert_int_eq(add("one", 1, 10), 0);
	ck_assert_int_eq(add("two", 1, 10), 0);
	ck_assert_int_eq(bodies_drop(b, slice_of("one")), 0);
	ck_assert_int_eq(bodies_drop(b, slice_of("none")), 0);
	ck_assert_str_eq(commit(), "two:1 ");
	again();
	ck_assert_str_eq(kept("one", 0), "");
	ck_assert_str_eq(kept("two", 0), "1-1");
}
END_TEST

/* ---- files that are not what it left -------------------------------------------------- */

static void
overwrite(off_t from, const void *p, size_t n)
{
	int fd = openat(dir_fd, BODIES_FILE, O_WRONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, p, n, from), (ssize_t)n);
	close(fd);
}

static void
check_put_aside(void)
{
	struct stat st;

	ck_assert_int_eq(fstatat(dir_fd, BODIES_ASIDE, &st, 0), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_str_eq(kept("one", 0), "");
	ck_assert_int_eq(add("one", 7, 10), 0);
	ck_assert_str_eq(commit(), "one:7 ");
}

START_TEST(a_file_that_is_no_database_is_put_aside)
{
	ck_assert_int_eq(add("one", 1, 10), 0);
	commit();
	bodies_close(b);
	b = NULL;
	overwrite(0, "this is no database", 19);
	again();
	check_put_aside();
}
END_TEST

START_TEST(a_file_with_other_tables_is_put_aside)
{
	sqlite3 *db;

	ck_assert_int_eq(add("one", 1, 10), 0);
	commit();
	bodies_close(b);
	b = NULL;
	ck_assert_int_eq(sqlite3_open(BODIES_FILE, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "CREATE TRIGGER t AFTER INSERT ON events BEGIN"
					  " DELETE FROM operations; END", NULL, NULL, NULL),
	    SQLITE_OK);
	sqlite3_close(db);
	again();
	check_put_aside();
}
END_TEST

START_TEST(a_damaged_page_is_found_and_said)
{
	static const uint8_t junk[4096] = { 0x55 };
	struct msg_body_read m = { .operation = slice_of("one"), .limit = 1u << 20 };
	struct buf maps = { 0 };
	uint64_t ended;
	uint32_t n;
	bool more;
	int r;

	for (uint64_t i = 1; i <= 40; i++)
		ck_assert_int_eq(add("one", i, 1000), 0);
	commit();
	bodies_close(b);
	b = NULL;
	for (off_t at = 4 * 4096; at < 10 * 4096; at += 4096)
		overwrite(at, junk, sizeof junk);
	ck_assert_int_eq(bodies_open(dir_fd, &b), 0); /* it, or another in its place */
	r = bodies_read(b, &m, &maps, &n, &more, &ended);
	ck_assert(r == -EUCLEAN || faccessat(dir_fd, BODIES_ASIDE, F_OK, 0) == 0);
	buf_finish(&maps);
	bodies_close(b);
	b = NULL;
	bodies_put_aside(dir_fd);
	again();
	check_put_aside();
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("bodies");
	TCase *t = tcase_create("bodies");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_is_kept_is_there_for_the_next_ledger);
	tcase_add_test(t, what_comes_twice_is_kept_once_and_told_again);
	tcase_add_test(t, before_a_hole_nothing_is_kept);
	tcase_add_test(t, an_operation_loses_its_front_and_never_its_ending);
	tcase_add_test(
	    t, of_all_the_oldest_ended_goes_first_then_the_largest_open_then_endings);
	tcase_add_test(t, time_counts_from_the_ending);
	tcase_add_test(t, an_operation_that_goes_on_is_open_again);
	tcase_add_test(t, what_is_dropped_is_gone_and_only_that);
	tcase_add_test(t, a_file_that_is_no_database_is_put_aside);
	tcase_add_test(t, a_file_with_other_tables_is_put_aside);
	tcase_add_test(t, a_damaged_page_is_found_and_said);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
