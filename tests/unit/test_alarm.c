/* Alarms: once, at their instant, and from the loop. */
#include <check.h>
#include <stdlib.h>

#include <event2/event.h>

#include "common/alarm.h"
#include "common/clock.h"
#include "common/util.h"

static struct event_base *base;
static struct alarms *all;

static struct bell {
	struct alarm alarm;
	unsigned rung;
	uint64_t at_ms;
	struct bell *clears, *sets; /* when it rings */
} bell[3];

static void
ring(void *arg)
{
	struct bell *b = arg;

	ck_assert_uint_eq(b->alarm.at_ms, 0);
	b->rung++;
	b->at_ms = clock_ms();
	if (b->clears != NULL)
		alarm_clear(&b->clears->alarm);
	if (b->sets != NULL)
		alarm_set(all, &b->sets->alarm, 1);
}

static void
setup(void)
{
	base = event_base_new();
	all = alarms_create(base);
	ck_assert_ptr_nonnull(all);
	for (size_t i = 0; i < countof(bell); i++)
		bell[i] = (struct bell) { .alarm = { .fn = ring, .arg = &bell[i] } };
}

static void
teardown(void)
{
	alarms_destroy(all);
	event_base_free(base);
}

static void
turn(void)
{
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

START_TEST(each_rings_once_and_not_before_its_instant)
{
	uint64_t now_ms = clock_ms();

	alarm_set(all, &bell[0].alarm, now_ms + 30);
	alarm_set(all, &bell[1].alarm, now_ms + 10);
	alarm_set(all, &bell[2].alarm, now_ms + 20);
	ck_assert_uint_eq(bell[1].rung, 0); /* never from within */
	while (bell[0].rung == 0)
		turn();
	for (size_t i = 0; i < countof(bell); i++)
		ck_assert_uint_eq(bell[i].rung, 1);
	ck_assert_uint_ge(bell[0].at_ms, now_ms + 30);
	ck_assert_uint_ge(bell[1].at_ms, now_ms + 10);
	ck_assert_uint_ge(bell[2].at_ms, now_ms + 20);
}
END_TEST

START_TEST(one_that_has_passed_rings_in_the_next_turn)
{
	alarm_set(all, &bell[0].alarm, 1);
	turn();
	ck_assert_uint_eq(bell[0].rung, 1);
}
END_TEST

START_TEST(one_that_was_cleared_or_set_anew_does_not_ring_at_its_old_instant)
{
	uint64_t now_ms = clock_ms();

	alarm_set(all, &bell[0].alarm, now_ms + 5);
	alarm_set(all, &bell[0].alarm, now_ms + 3600000);
	alarm_set(all, &bell[1].alarm, now_ms + 5);
	alarm_clear(&bell[1].alarm);
	alarm_clear(&bell[1].alarm); /* again: nothing */
	alarm_set(all, &bell[2].alarm, now_ms + 40);
	while (bell[2].rung == 0)
		turn();
	ck_assert_uint_eq(bell[0].rung + bell[1].rung, 0);
	alarm_set(all, &bell[0].alarm, now_ms + 50); /* and forward again */
	while (bell[0].rung == 0)
		turn();
}
END_TEST

/* Whichever comes first silences the other, though both were due. */
START_TEST(one_may_clear_another_that_is_due)
{
	bell[0].clears = &bell[1];
	bell[1].clears = &bell[0];
	alarm_set(all, &bell[0].alarm, 1);
	alarm_set(all, &bell[1].alarm, 1);
	turn();
	ck_assert_uint_eq(bell[0].rung + bell[1].rung, 1);
}
END_TEST

START_TEST(one_that_sets_itself_lets_the_loop_go_on)
{
	bell[0].sets = &bell[0];
	alarm_set(all, &bell[0].alarm, 1);
	for (unsigned n = 1; n <= 3; n++) {
		turn();
		ck_assert_uint_eq(bell[0].rung, n);
	}
}
END_TEST

/* Neither an instant that never comes nor one that has passed unread hides another. */
START_TEST(the_farthest_instant_hides_no_nearer_one)
{
	uint64_t now_ms = clock_ms();

	alarm_set(all, &bell[0].alarm, UINT64_MAX);
	alarm_set(all, &bell[1].alarm, now_ms + UINT32_MAX);
	alarm_set(all, &bell[2].alarm, 2);
	alarm_set(all, &bell[2].alarm, now_ms + 5); /* the descriptor is readable for nothing */
	while (bell[2].rung == 0)
		turn();
	ck_assert_uint_ge(bell[2].at_ms, now_ms + 5);
	alarm_set(all, &bell[2].alarm, 2);
	alarm_set(all, &bell[1].alarm, 1); /* nearer than one that is due */
	turn();
	ck_assert_uint_eq(bell[1].rung, 1);
	ck_assert_uint_eq(bell[2].rung, 2);
	ck_assert_uint_eq(bell[0].rung, 0);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("alarm");
	TCase *tc = tcase_create("alarm");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, each_rings_once_and_not_before_its_instant);
	tcase_add_test(tc, one_that_has_passed_rings_in_the_next_turn);
	tcase_add_test(tc, one_that_was_cleared_or_set_anew_does_not_ring_at_its_old_instant);
	tcase_add_test(tc, one_may_clear_another_that_is_due);
	tcase_add_test(tc, one_that_sets_itself_lets_the_loop_go_on);
	tcase_add_test(tc, the_farthest_instant_hides_no_nearer_one);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
