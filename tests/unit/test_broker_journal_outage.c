/* broker/journal: outages by plan, at every call.  D-10, D-11. */
#include <check.h>

#include "tests/unit/journal_fixture.h"

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
	Suite *s = suite_create("broker_journal_outage");
	TCase *outage = tcase_create("outage");
	SRunner *r;
	int failed;

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
