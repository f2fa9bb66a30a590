/*
 * broker/journal: appends, group commit, reservation, and outages by plan (n-th write short,
 * ENOSPC, EIO; n-th sync failing, or stalled until it is let go).  D-10, D-11, T25.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/journal.h"
#include "common/records.h"
#include "common/util.h"

#define MIB (1u << 20)

/* What the disk does.  Calls are counted from 1; 0 is never. */
static struct plan {
	int short_write, write_error, write_errno; /* these calls */
	ssize_t short_bytes; /* written by the short one; -1: all but one */
	int sync_error;
	int stalled_sync; /* this call waits for release() */
	int writes, syncs;
	bool waiting, released;
} plan;
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t plan_moved = PTHREAD_COND_INITIALIZER;

static ssize_t
plan_append(int fd, const struct iovec *iov, int n)
{
	plan.writes++;
	if (plan.writes == plan.write_error) {
		errno = plan.write_errno;
		return -1;
	}
	if (plan.writes == plan.short_write)
		return write(fd, iov[0].iov_base,
		    plan.short_bytes < 0 ? iov[0].iov_len - 1 : (size_t)plan.short_bytes);
	return writev(fd, iov, n);
}

static int
plan_sync(int fd)
{
	int error, ret = 0;

	pthread_mutex_lock(&plan_lock);
	plan.syncs++;
	error = plan.syncs == plan.sync_error ? EIO : 0;
	if (plan.syncs == plan.stalled_sync) {
		plan.waiting = true;
		pthread_cond_broadcast(&plan_moved);
		while (!plan.released)
			pthread_cond_wait(&plan_moved, &plan_lock);
	}
	pthread_mutex_unlock(&plan_lock);
	if (!error)
		ret = fdatasync(fd);
	errno = error;
	return error ? -1 : ret;
}

static void
until_stalled(void)
{
	pthread_mutex_lock(&plan_lock);
	while (!plan.waiting)
		pthread_cond_wait(&plan_moved, &plan_lock);
	pthread_mutex_unlock(&plan_lock);
}

static void
release(void)
{
	pthread_mutex_lock(&plan_lock);
	plan.released = true;
	pthread_cond_broadcast(&plan_moved);
	pthread_mutex_unlock(&plan_lock);
}

static const struct journal_io plan_io = { plan_append, plan_sync };

/* The supervisor's part, and the broker's. */
static struct event_base *base;
static struct journal *j;
static char dir[] = "/tmp/caisson-journal-XXXXXX";
static uint64_t reserved = MIB;
static bool auto_segments = true;
static unsigned wanted; /* how often a segment was asked for */
static uint64_t wanted_number;
static int available = -1; /* what on_available() said last */
static char told[4096];	   /* callbacks: "1+ 2- ...": record, ok or refused */

static int
segment_file(uint64_t number)
{
	char path[64], name[17];
	int fd;

	journal_name(name, number);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void
on_segment_wanted(uint64_t number, void *arg)
{
	(void)arg;
	wanted++;
	wanted_number = number;
	if (auto_segments)
		journal_segment(j, segment_file(number), number, reserved);
}

static void
on_available(bool yes, void *arg)
{
	(void)arg;
	available = yes;
}

static const struct journal_handler handler = { on_segment_wanted, on_available };

static void
on_done(void *arg, bool ok)
{
	size_t n = strlen(told);

	snprintf(
	    told + n, sizeof(told) - n, "%s%d%c", n ? " " : "", *(int *)arg, ok ? '+' : '-');
}

static void
setup(void)
{
	plan = (struct plan){ 0 };
	wanted = 0;
	available = -1;
	told[0] = '\0';
	auto_segments = true;
	reserved = MIB;
	strcpy(dir, "/tmp/caisson-journal-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	base = event_base_new();
}

static void
teardown(void)
{
	char path[64], name[17];
	uint64_t i;

	release();
	journal_destroy(j);
	j = NULL;
	event_base_free(base);
	for (i = 1; i < 20; i++) {
		journal_name(name, i);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(dir), 0);
}

static void
create(bool durable)
{
	uint8_t zero[JOURNAL_HASH] = { 0 };

	j = journal_create(base, &plan_io, durable, 0, zero, 0, 0, &handler, NULL);
	ck_assert_ptr_nonnull(j);
}

static void
turn(void)
{
	ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

static void
until_told(const char *text)
{
	while (strlen(told) < strlen(text))
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert_str_eq(told, text);
}

static void
until_available(int yes)
{
	while (available != yes)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

static int numbers[2000];

static int
append_record(const struct msg_record *r, enum journal_class class, journal_fn *done, int i)
{
	struct buf map = { 0 };
	int ret;

	ck_assert_int_eq(protocol_pack(&map, MSG_record, r), 0);
	ret = journal_append(j, buf_slice(&map), class, done, &numbers[i]);
	buf_finish(&map);
	return ret;
}

static int
append_sized(int i, enum journal_class class, size_t extra, bool callback)
{
	static uint8_t text[60000];
	struct msg_record r = { 0 };
	struct buf list = { 0 };
	char id[32];
	int ret;

	snprintf(id, sizeof(id), "%d", i);
	numbers[i] = i;
	r.id = slice_of(id);
	r.type = slice_of(class == JOURNAL_EFFECT ? "authorization.checked" : "tool.invoked");
	r.at = 1;
	if (extra > 0) {
		/* One string of `extra` bytes in the path. */
		uint8_t head[] = { 0x91, 0xda, (uint8_t)(extra >> 8), (uint8_t)extra };

		memset(text, 'x', sizeof(text));
		buf_add(&list, head, sizeof(head));
		buf_add(&list, text, extra);
		r.has_path = true;
		r.path = (struct slice){ list.p, list.n };
	}
	ret = append_record(&r, class, callback ? on_done : NULL, i);
	buf_finish(&list);
	return ret;
}

static int
append(int i, enum journal_class class)
{
	return append_sized(i, class, 0, true);
}

/* The ids in segments from..to, "o" for segment.opened, checking the chain and what each
 * segment says of the one before. */
static const char *
record_is(unsigned segments)
{
	static char text[8192];
	static uint8_t bytes[4 * MIB];
	uint8_t chain[JOURNAL_HASH] = { 0 };
	uint64_t count = 0, length = 0, number;
	struct msg_record r;
	struct fault fault;
	char path[64], name[17];
	size_t at, len, n;
	ssize_t got;
	int fd;

	text[0] = '\0';
	for (number = 1; number <= segments; number++) {
		journal_name(name, number);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		got = read(fd, bytes, sizeof(bytes));
		ck_assert_int_ge(got, 0);
		close(fd);
		uint8_t before[JOURNAL_HASH];
		memcpy(before, chain, sizeof(before));
		for (at = 0; journal_next(bytes + at, (size_t)got - at, chain, &r, &len,
				 &fault) == JOURNAL_READ_OK;
		     at += len) {
			n = strlen(text);
			if (at == 0) {
				ck_assert(slice_is(r.type, "segment.opened"));
				ck_assert_uint_eq(r.segment, number);
				ck_assert_uint_eq(r.previousCount, count);
				ck_assert_uint_eq(r.previousLength, length);
				ck_assert_mem_eq(r.previousHash.p, before, sizeof(before));
				snprintf(text + n, sizeof(text) - n, "%so", n ? " " : "");
			} else {
				ck_assert(!slice_is(r.type, "segment.opened"));
				snprintf(
				    text + n, sizeof(text) - n, " %.*s", (int)r.id.n, r.id.p);
			}
			count++;
		}
		length = at;
	}
	return text;
}

/* ---- in order, one sync for many ---------------------------------------------------- */

START_TEST(the_first_segment_is_asked_for_and_begun)
{
	create(true);
	ck_assert(!journal_available(j));
	ck_assert_int_eq(append(1, JOURNAL_EFFECT), -EAGAIN);
	until_available(1);
	ck_assert_uint_eq(wanted_number, 1);
	ck_assert(journal_available(j));
	ck_assert_str_eq(record_is(1), "o");
}
END_TEST

START_TEST(without_state_nothing_is_asked_for)
{
	uint8_t chain[JOURNAL_HASH] = { 3 };

	j = journal_create(base, &plan_io, true, 0, NULL, 0, 0, &handler, NULL);
	turn();
	ck_assert_uint_eq(wanted, 0);
	ck_assert_int_eq(append(1, JOURNAL_EFFECT), -EAGAIN);
	auto_segments = false;
	journal_state(j, 41, chain, 6, 1000);
	turn();
	ck_assert_uint_eq(wanted, 1);
	ck_assert_uint_eq(wanted_number, 7);
}
END_TEST

START_TEST(callbacks_come_in_the_order_of_appends_and_never_from_within)
{
	create(true);
	until_available(1);
	for (int i = 1; i <= 5; i++)
		ck_assert_int_eq(append(i, i % 2 ? JOURNAL_EFFECT : JOURNAL_ENDING), 0);
	ck_assert_str_eq(told, "");
	until_told("1+ 2+ 3+ 4+ 5+");
	ck_assert_str_eq(record_is(1), "o 1 2 3 4 5");
}
END_TEST

/* D-11: one sync shared by everything that waits; T25: one write per turn. */
START_TEST(what_comes_during_a_sync_shares_the_next_one)
{
	char want[512] = "1+";
	int i;

	plan.stalled_sync = 1;
	create(true);
	until_available(1);
	ck_assert_int_eq(append(1, JOURNAL_EFFECT), 0);
	turn();
	until_stalled();
	for (i = 2; i <= 100; i++) {
		ck_assert_int_eq(append(i, JOURNAL_EFFECT), 0);
		if (i % 33 == 1)
			turn();
		snprintf(want + strlen(want), sizeof(want) - strlen(want), " %d+", i);
	}
	turn();
	ck_assert_str_eq(told, "");
	ck_assert_int_eq(plan.writes, 1 + 1 + 3);
	release();
	until_told(want);
	ck_assert_int_eq(plan.syncs, 2);
}
END_TEST

START_TEST(nothing_is_durable_before_its_sync_has_ended)
{
	plan.stalled_sync = 2;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+");
	append(2, JOURNAL_EFFECT);
	turn();
	until_stalled();
	turn();
	ck_assert_str_eq(told, "1+");
	ck_assert_str_eq(record_is(1), "o 1 2");
	release();
	until_told("1+ 2+");
}
END_TEST

/* D-11: relaxed survives a process, not the machine: no sync at all. */
START_TEST(relaxed_waits_for_the_write_only)
{
	create(false);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	append(2, JOURNAL_ENDING);
	ck_assert_str_eq(told, "");
	until_told("1+ 2+");
	ck_assert_int_eq(plan.syncs, 0);
	ck_assert_str_eq(record_is(1), "o 1 2");
}
END_TEST

/* The timer of an outcome that nothing follows, and one that is late for nothing. */
START_TEST(an_outcome_leaves_with_the_next_write_or_a_little_later)
{
	create(false);
	until_available(1);
	ck_assert_int_eq(append_sized(1, JOURNAL_OUTCOME, 0, false), 0);
	ck_assert_int_eq(plan.writes, 1);
	ck_assert_int_eq(append(2, JOURNAL_EFFECT), 0);
	until_told("2+");
	ck_assert_int_eq(plan.writes, 2);
	ck_assert_str_eq(record_is(1), "o 1 2");
	ck_assert_int_eq(append_sized(3, JOURNAL_OUTCOME, 0, false), 0);
	while (plan.writes < 3)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_str_eq(record_is(1), "o 1 2 3");
	ck_assert_int_eq(append_sized(4, JOURNAL_OUTCOME, 0, false), 0);
	journal_destroy(j);
	j = NULL;
	ck_assert_str_eq(record_is(1), "o 1 2 3 4");
}
END_TEST

START_TEST(records_that_nobody_waits_for_cost_no_sync)
{
	create(true);
	until_available(1);
	ck_assert_int_eq(append_sized(1, JOURNAL_ENDING, 0, false), 0);
	turn();
	ck_assert_str_eq(record_is(1), "o 1");
	ck_assert_int_eq(plan.syncs, 0);
	append(2, JOURNAL_EFFECT);
	until_told("2+");
	ck_assert_int_eq(plan.syncs, 1);
}
END_TEST

START_TEST(destroy_syncs_and_does_not_call_back)
{
	plan.stalled_sync = 1;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	turn();
	until_stalled();
	append(2, JOURNAL_EFFECT);
	append(3, JOURNAL_ENDING);
	release();
	journal_destroy(j);
	j = NULL;
	ck_assert_str_eq(told, "");
	ck_assert_int_eq(plan.syncs, 2);
	ck_assert_str_eq(record_is(1), "o 1 2 3");
}
END_TEST

/* ---- the reservation ---------------------------------------------------------------- */

START_TEST(the_next_segment_is_asked_for_long_before_the_end)
{
	char want[256] = "";
	int i;

	reserved = 256 << 10;
	create(true);
	until_available(1);
	/* 20 records of 20 KiB: several segments, and not one refusal. */
	for (i = 1; i <= 20; i++) {
		ck_assert_int_eq(append_sized(i, JOURNAL_EFFECT, 20000, true), 0);
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%d+",
		    i > 1 ? " " : "", i);
		until_told(want);
	}
	ck_assert_str_eq(
	    record_is(3), "o 1 2 3 4 5 6 7 8 9 o 10 11 12 13 14 15 16 17 18 o 19 20");
	ck_assert_int_eq(available, 1);
}
END_TEST

START_TEST(the_end_of_the_reservation_is_kept_for_endings)
{
	reserved = 256 << 10;
	create(true);
	until_available(1);
	auto_segments = false;
	for (int i = 1; i <= 9; i++)
		ck_assert_int_eq(append_sized(i, JOURNAL_EFFECT, 20000, false), 0);
	/* 192 KiB are for effects. */
	ck_assert_int_eq(append_sized(10, JOURNAL_EFFECT, 20000, false), -ENOSPC);
	turn();
	ck_assert_uint_eq(wanted_number, 2);
	ck_assert_int_eq(available, 0);
	ck_assert_int_eq(append_sized(11, JOURNAL_ENDING, 20000, true), 0);
	until_told("11+");
	for (int i = 12; i <= 14; i++)
		ck_assert_int_eq(append_sized(i, JOURNAL_ENDING, 20000, false), 0);
	/* Even the reserve is used up: kept, and nothing overtakes it. */
	ck_assert_int_eq(append_sized(15, JOURNAL_ENDING, 20000, true), -ENOSPC);
	ck_assert_int_eq(append_sized(17, JOURNAL_ENDING, 0, true), -ENOSPC);
	turn();
	ck_assert_str_eq(record_is(1), "o 1 2 3 4 5 6 7 8 9 11 12 13 14");
	journal_segment(j, segment_file(2), 2, reserved);
	until_available(1);
	ck_assert_int_eq(append(18, JOURNAL_EFFECT), 0);
	until_told("11+ 18+");
	ck_assert_str_eq(record_is(2), "o 1 2 3 4 5 6 7 8 9 11 12 13 14 o 15 17 18");
}
END_TEST

/* The old segment is on the disk to its end before the new one is touched. */
START_TEST(a_new_segment_waits_for_the_sync_of_the_old_one)
{
	reserved = 256 << 10;
	plan.stalled_sync = 1;
	create(true);
	until_available(1);
	for (int i = 1; i <= 9; i++) {
		ck_assert_int_eq(append_sized(i, JOURNAL_EFFECT, 20000, i == 1), 0);
		turn();
	}
	until_stalled();
	ck_assert_int_eq(append_sized(10, JOURNAL_EFFECT, 20000, true), 0);
	ck_assert_int_eq(append(11, JOURNAL_ENDING), 0);
	turn();
	ck_assert_str_eq(record_is(2), "o 1 2 3 4 5 6 7 8 9");
	ck_assert(journal_available(j));
	release();
	until_told("1+ 10+ 11+");
	ck_assert_str_eq(record_is(2), "o 1 2 3 4 5 6 7 8 9 o 10 11");
}
END_TEST

/* ---- outages ------------------------------------------------------------------------ */

static const struct {
	const char *what;
	int error;
	ssize_t bytes; /* of a short write; -1: all but one */
	const char *told, *record;
} write_failures[] = {
	{ "ENOSPC", ENOSPC, 0, "1+ 2- 3- 4-", "o 1 o 3 5" },
	{ "EIO", EIO, 0, "1+ 2- 3- 4-", "o 1 o 3 5" },
	{ "nothing written", 0, 0, "1+ 2- 3- 4-", "o 1 o 3 5" },
	{ "inside the length word", 0, 3, "1+ 2- 3- 4-", "o 1 o 3 5" },
	{ "inside the second of three", 0, 100, "1+ 2+ 3- 4-", "o 1 2 o 3 5" },
	{ "one byte is missing", 0, -1, "1+ 2+ 3+ 4-", "o 1 2 3 o 5" },
};

/* Nobody appends after a torn entry; what is whole stands; an ending is written first. */
START_TEST(a_failed_write_closes_the_segment)
{
	plan.write_error = write_failures[_i].error ? 3 : 0;
	plan.write_errno = write_failures[_i].error;
	plan.short_write = write_failures[_i].error ? 0 : 3;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+");
	auto_segments = false;
	append(2, JOURNAL_EFFECT);
	append(3, JOURNAL_ENDING);
	append(4, JOURNAL_EFFECT);
	plan.short_bytes = write_failures[_i].bytes;
	until_told(write_failures[_i].told);
	ck_assert_int_eq(available, 0);
	ck_assert(!journal_available(j));
	ck_assert_uint_eq(wanted_number, 2);
	ck_assert_int_eq(append(5, JOURNAL_ENDING), -EIO);
	ck_assert_int_eq(append(6, JOURNAL_EFFECT), -EIO);
	journal_segment(j, segment_file(2), 2, reserved);
	until_available(1);
	ck_assert_str_eq(record_is(2), write_failures[_i].record);
	ck_assert_int_eq(append(7, JOURNAL_EFFECT), 0);
	while (!strstr(told, "7+"))
		event_base_loop(base, EVLOOP_ONCE);
}
END_TEST

/* The kernel reports a failed sync once: it is never tried again on that segment. */
START_TEST(a_failed_sync_refuses_what_waited_and_leaves_the_segment)
{
	plan.sync_error = 2;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+");
	auto_segments = false;
	append(2, JOURNAL_EFFECT);
	append(3, JOURNAL_ENDING);
	until_told("1+ 2- 3-");
	ck_assert_int_eq(available, 0);
	ck_assert_int_eq(plan.syncs, 2);
	ck_assert_int_eq(append(4, JOURNAL_ENDING), -EIO); /* the release of 2, say */
	ck_assert_int_eq(append(5, JOURNAL_EFFECT), -EIO);
	turn();
	ck_assert_uint_eq(wanted, 2);
	journal_segment(j, segment_file(2), 2, reserved);
	until_available(1);
	/* What was written whole stands, so that the use of 2 stays spent until 4. */
	ck_assert_str_eq(record_is(2), "o 1 2 3 o 4");
	append(6, JOURNAL_EFFECT);
	until_told("1+ 2- 3- 6+");
}
END_TEST

START_TEST(what_comes_while_a_sync_fails_is_refused_with_it)
{
	plan.stalled_sync = plan.sync_error = 1;
	create(true);
	until_available(1);
	auto_segments = false;
	append(1, JOURNAL_EFFECT);
	turn();
	until_stalled();
	append(2, JOURNAL_EFFECT);
	turn();
	append(3, JOURNAL_ENDING); /* not even written when the news comes */
	release();
	until_told("1- 2- 3-");
	journal_segment(j, segment_file(2), 2, reserved);
	until_available(1);
	ck_assert_ptr_nonnull(strstr(record_is(2), "3"));
	ck_assert_ptr_null(strstr(strstr(record_is(2), "3") + 1, "3"));
}
END_TEST

START_TEST(a_new_segment_that_cannot_be_begun_is_left_in_turn)
{
	plan.write_error = 2;
	plan.write_errno = EIO;
	plan.short_write = 3; /* the first write to segment 2 */
	plan.short_bytes = 10;
	create(true);
	until_available(1);
	append(1, JOURNAL_ENDING);
	until_told("1-");
	while (wanted < 3 || !journal_available(j))
		event_base_loop(base, EVLOOP_ONCE);
	turn();
	/* Segment 2 holds ten torn bytes, and segment 3 says so: valid length 0. */
	ck_assert_str_eq(record_is(3), "o o 1");
}
END_TEST

START_TEST(a_segment_that_cannot_be_made_is_asked_for_again)
{
	create(true);
	auto_segments = false;
	turn();
	ck_assert_uint_eq(wanted, 1);
	journal_no_segment(j, ENOSPC);
	ck_assert_int_eq(append(1, JOURNAL_ENDING), -EAGAIN);
	turn();
	ck_assert_uint_eq(wanted, 1);
	auto_segments = true;
	until_available(1);
	ck_assert_uint_eq(wanted, 2);
	ck_assert_str_eq(record_is(1), "o 1");
}
END_TEST

START_TEST(a_segment_nobody_asked_for_is_closed)
{
	int fd = segment_file(5);

	create(true);
	auto_segments = false;
	turn();
	journal_segment(j, fd, 5, reserved);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	ck_assert(!journal_available(j));
	turn();
	ck_assert_uint_eq(wanted, 2); /* at once: the right one is missing */
	ck_assert_uint_eq(wanted_number, 1);
}
END_TEST

/* A sync that does not end holds nothing for ever; what it covers stands, if it does end. */
START_TEST(a_sync_that_stalls_is_an_outage_until_it_ends)
{
	plan.stalled_sync = 2;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+"); /* by a real disk, which may take its time */
	journal_stall_after(j, 50);
	append(2, JOURNAL_EFFECT);
	turn();
	until_stalled();
	append(3, JOURNAL_ENDING); /* written, and waits for a sync behind that one */
	until_told("1+ 2- 3-");
	ck_assert_int_eq(available, 0);
	ck_assert_int_eq(append(4, JOURNAL_EFFECT), -EIO);
	ck_assert_int_eq(append(5, JOURNAL_ENDING), -EIO);
	ck_assert(journal_holds(j));
	journal_stall_after(j, 0);
	release();
	until_available(1);
	append(6, JOURNAL_EFFECT);
	until_told("1+ 2- 3- 6+");
	ck_assert_str_eq(record_is(2), "o 1 2 3 o 5 6");
	ck_assert(!journal_holds(j));
}
END_TEST

START_TEST(a_stall_while_leaving_refuses_what_is_held_and_keeps_endings)
{
	plan.write_error = 3;
	plan.write_errno = EIO;
	plan.stalled_sync = 2; /* the one that ends segment 1 */
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+"); /* by a real disk, which may take its time */
	journal_stall_after(j, 50);
	append(2, JOURNAL_ENDING);
	append(3, JOURNAL_EFFECT);
	until_told("1+ 2- 3-");
	until_stalled();
	ck_assert_int_eq(append(4, JOURNAL_ENDING), -EIO);
	/* The stall is noticed behind all this, and doubles nothing. */
	struct timeval later = { .tv_usec = 120000 };
	event_base_loopexit(base, &later);
	event_base_dispatch(base);
	journal_stall_after(j, 0);
	release();
	until_available(1);
	append(5, JOURNAL_EFFECT);
	until_told("1+ 2- 3- 5+");
	ck_assert_str_eq(record_is(2), "o 1 o 2 4 5");
}
END_TEST

static int lost[8], nlost;

static void
on_lost(void *arg, bool ok)
{
	on_done(arg, ok);
	if (!ok && journal_lost(j))
		lost[nlost++] = *(int *)arg;
}

static int
append_with(int i, enum journal_class class, journal_fn *done)
{
	struct msg_record r = { 0 };
	char id[32];

	snprintf(id, sizeof(id), "%d", i);
	numbers[i] = i;
	r.id = slice_of(id);
	r.type = slice_of("grant.usage.released");
	r.at = 1;
	return append_record(&r, class, done, i);
}

/* What was refused may stand all the same; only what stands is given back (D-10). */
START_TEST(a_refused_record_says_whether_it_stands)
{
	plan.sync_error = _i == 0 ? 2 : 0;
	plan.write_error = _i == 1 ? 3 : 0;
	plan.write_errno = ENOSPC;
	nlost = 0;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+");
	append_with(2, JOURNAL_EFFECT, on_lost);
	until_told("1+ 2-");
	ck_assert_int_eq(nlost, _i);
}
END_TEST

/* The callback of a release waits with it, through two segments that fail. */
START_TEST(a_release_calls_back_once_it_stands)
{
	plan.write_error = 3;
	plan.write_errno = EIO;
	plan.short_write = 4;
	plan.short_bytes = 3;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	until_told("1+");
	ck_assert_int_eq(append_with(2, JOURNAL_RELEASE, on_done), 0);
	append(3, JOURNAL_ENDING);
	until_told("1+ 3-");
	/* In the outage itself, too. */
	ck_assert_int_eq(append_with(4, JOURNAL_RELEASE, on_done), 0);
	while (!strstr(told, "4+"))
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_str_eq(told, "1+ 3- 2+ 4+");
	ck_assert_str_eq(record_is(3), "o 1 o 2 3 4");
}
END_TEST

START_TEST(the_end_does_not_wait_for_a_sync_that_stalls)
{
	plan.stalled_sync = 1;
	create(true);
	until_available(1);
	append(1, JOURNAL_EFFECT);
	turn();
	until_stalled();
	journal_destroy(j); /* returns, though nobody lets the sync go */
	j = NULL; /* the thread stays behind with what it uses, until the process ends */
}
END_TEST

/* At every write and every sync of a run: no callback is lost or doubled, refused or not;
 * what was told to be durable is in the record; endings are there in any case. */
START_TEST(an_outage_at_any_call_loses_no_ending)
{
	int at = _i / 3 + 1, kind = _i % 3, i;
	const char *record;
	char want[16];

	plan.short_write = kind == 0 ? at : 0;
	plan.short_bytes = 60;
	plan.write_error = kind == 1 ? at : 0;
	plan.write_errno = ENOSPC;
	plan.sync_error = kind == 2 ? at : 0;
	create(true);
	until_available(1);
	for (i = 1; i <= 12; i++) {
		enum journal_class class = i % 3 ? JOURNAL_EFFECT : JOURNAL_ENDING;
		int ret = append(i, class);

		if (ret < 0) {
			snprintf(want, sizeof(want), "%d-", i);
			snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%s",
			    *told ? " " : "", want);
		}
		while (snprintf(want, sizeof(want), "%d", i),
		    strtol(strrchr(told, ' ') ? strrchr(told, ' ')
			   : *told	      ? told
					      : "0",
			NULL, 10) < i)
			event_base_loop(base, EVLOOP_ONCE);
	}
	until_available(1);
	while (!journal_available(j))
		event_base_loop(base, EVLOOP_ONCE);
	turn();
	record = record_is((unsigned)wanted);
	for (i = 1; i <= 12; i++) {
		char text[16], padded[8200];

		snprintf(padded, sizeof(padded), " %s ", record);
		snprintf(text, sizeof(text), " %d ", i);
		if (i % 3 == 0)
			ck_assert_msg(strstr(padded, text), "ending %d of %s", i, record);
		snprintf(want, sizeof(want), "%d+", i);
		if (strstr(told, want))
			ck_assert_msg(strstr(padded, text), "%d of %s", i, record);
		if (strstr(padded, text))
			ck_assert_ptr_null(strstr(strstr(padded, text) + 1, text));
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("broker_journal");
	TCase *order = tcase_create("order"), *space = tcase_create("space"),
	      *outage = tcase_create("outage");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(order, setup, teardown);
	tcase_add_test(order, the_first_segment_is_asked_for_and_begun);
	tcase_add_test(order, without_state_nothing_is_asked_for);
	tcase_add_test(order, callbacks_come_in_the_order_of_appends_and_never_from_within);
	tcase_add_test(order, what_comes_during_a_sync_shares_the_next_one);
	tcase_add_test(order, nothing_is_durable_before_its_sync_has_ended);
	tcase_add_test(order, relaxed_waits_for_the_write_only);
	tcase_add_test(order, an_outcome_leaves_with_the_next_write_or_a_little_later);
	tcase_add_test(order, records_that_nobody_waits_for_cost_no_sync);
	tcase_add_test(order, destroy_syncs_and_does_not_call_back);
	suite_add_tcase(s, order);
	tcase_add_checked_fixture(space, setup, teardown);
	tcase_add_test(space, the_next_segment_is_asked_for_long_before_the_end);
	tcase_add_test(space, the_end_of_the_reservation_is_kept_for_endings);
	tcase_add_test(space, a_new_segment_waits_for_the_sync_of_the_old_one);
	suite_add_tcase(s, space);
	tcase_add_checked_fixture(outage, setup, teardown);
	tcase_set_timeout(outage, 60);
	tcase_add_loop_test(
	    outage, a_failed_write_closes_the_segment, 0, countof(write_failures));
	tcase_add_test(outage, a_failed_sync_refuses_what_waited_and_leaves_the_segment);
	tcase_add_test(outage, what_comes_while_a_sync_fails_is_refused_with_it);
	tcase_add_test(outage, a_new_segment_that_cannot_be_begun_is_left_in_turn);
	tcase_add_test(outage, a_segment_that_cannot_be_made_is_asked_for_again);
	tcase_add_test(outage, a_segment_nobody_asked_for_is_closed);
	tcase_add_test(outage, a_sync_that_stalls_is_an_outage_until_it_ends);
	tcase_add_test(outage, a_stall_while_leaving_refuses_what_is_held_and_keeps_endings);
	tcase_add_loop_test(outage, a_refused_record_says_whether_it_stands, 0, 2);
	tcase_add_test(outage, a_release_calls_back_once_it_stands);
	tcase_add_test(outage, the_end_does_not_wait_for_a_sync_that_stalls);
	tcase_add_loop_test(outage, an_outage_at_any_call_loses_no_ending, 0, 3 * 14);
	suite_add_tcase(s, outage);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
