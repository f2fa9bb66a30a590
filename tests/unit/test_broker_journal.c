/* broker/journal: appends, group commit, reservation.  D-10, D-11, T25. */
#include <check.h>

#include "tests/unit/journal_fixture.h"

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

int
main(void)
{
	Suite *s = suite_create("broker_journal");
	TCase *order = tcase_create("order"), *space = tcase_create("space");
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
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
