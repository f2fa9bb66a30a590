/* pool: with a clock of its own, and processes that are entries only. */
#include "supervisor/pool.h"

#include <errno.h>
#include <stdlib.h>

#include <event2/event.h>

#include <check.h>

#include "common/limits.h"
#include "common/util.h"

#define LINES 3
#define MADE  4096

static struct event_base *base;
static struct pool *pool;
static uint64_t clock_now_ms;
static struct pool_entry made[MADE];
static bool unfit[MADE];
static unsigned nmade, started[LINES], ended;
static int start_fails;

static uint64_t
now_ms(void)
{
	return clock_now_ms;
}

static int
start(size_t line, void *arg)
{
	ck_assert_ptr_eq(arg, &base);
	started[line]++;
	if (start_fails)
		return -start_fails;
	ck_assert_uint_lt(nmade, MADE);
	pool_enter(pool, &made[nmade++], line);
	return 0;
}

static bool
is_fit(const struct pool_entry *e, void *arg)
{
	(void)arg;
	return !unfit[e - made];
}

static void
end(struct pool_entry *e, void *arg)
{
	(void)arg;
	ck_assert(!e->waits);
	ended++;
}

static const struct pool_handler handler = { start, is_fit, end, now_ms };

static void
create(unsigned a, unsigned b, unsigned c)
{
	const unsigned want[LINES] = { a, b, c };
	size_t i;

	base = event_base_new();
	clock_now_ms = 1000000;
	nmade = ended = 0;
	start_fails = 0;
	for (i = 0; i < countof(started); i++)
		started[i] = 0;
	for (i = 0; i < countof(unfit); i++)
		unfit[i] = false;
	pool = pool_create(base, want, LINES, &handler, &base);
	ck_assert_ptr_nonnull(pool);
}

static void
destroy(void)
{
	pool_drain(pool);
	pool_destroy(pool);
	event_base_free(base);
}

/* As often as the timer would come, were it always due. */
static void
ticks(unsigned n)
{
	while (n-- > 0)
		pool_tick(pool);
}

START_TEST(nothing_is_started_before_it_is_to_be_filled)
{
	create(2, 1, 0);
	ticks(10);
	ck_assert_uint_eq(nmade, 0);
	ck_assert_ptr_null(pool_take(pool, 0));
	pool_fill(pool);
	pool_fill(pool);
	pool_tick(pool);
	ck_assert_uint_eq(nmade, 1); /* one in each turn of the loop */
	ticks(10);
	ck_assert_uint_eq(started[0], 2);
	ck_assert_uint_eq(started[1], 1);
	ck_assert_uint_eq(started[2], 0);
	destroy();
	ck_assert_uint_eq(ended, 3);
}
END_TEST

START_TEST(the_loop_fills_it_by_itself)
{
	create(40, 0, 24);
	pool_fill(pool);
	while (nmade < 64)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert_int_eq(event_base_loop(base, EVLOOP_NONBLOCK), 1); /* no timer is left */
	ck_assert_uint_eq(started[0], 40);
	ck_assert_uint_eq(started[2], 24);
	destroy();
}
END_TEST

START_TEST(each_is_handed_out_once_the_oldest_first_and_replaced)
{
	struct pool_entry *taken[20];
	unsigned i, j;

	create(3, 1, 0);
	pool_fill(pool);
	ticks(10);
	for (i = 0; i < countof(taken); i++) {
		taken[i] = pool_take(pool, 0);
		ck_assert_ptr_nonnull(taken[i]);
		ck_assert(!taken[i]->waits);
		ck_assert_uint_eq(taken[i]->line, 0);
		for (j = 0; j < i; j++)
			ck_assert_ptr_ne(taken[i], taken[j]);
		if (i > 0)
			ck_assert(taken[i] > taken[i - 1]);
		pool_tick(pool); /* the session's first step comes before its replacement */
		ck_assert_uint_eq(started[0], 3 + i);
		clock_now_ms += 10;
		pool_tick(pool);
		ck_assert_uint_eq(started[0], 4 + i);
	}
	ck_assert_uint_eq(started[1], 1);
	destroy();
}
END_TEST

START_TEST(an_empty_line_gives_none_and_no_other_lines)
{
	create(1, 0, 0);
	pool_fill(pool);
	ticks(3);
	ck_assert_ptr_null(pool_take(pool, 1));
	ck_assert_ptr_nonnull(pool_take(pool, 0));
	ck_assert_ptr_null(pool_take(pool, 0));
	destroy();
}
END_TEST

START_TEST(one_that_is_dead_already_is_passed_over)
{
	struct pool_entry *e;

	create(3, 0, 0);
	pool_fill(pool);
	ticks(3);
	unfit[0] = unfit[1] = true;
	e = pool_take(pool, 0);
	ck_assert_ptr_eq(e, &made[2]);
	ck_assert_ptr_null(pool_take(pool, 0));
	ck_assert(!pool_lost(pool, &made[0], true));
	ck_assert(!pool_lost(pool, &made[1], true));
	destroy();
}
END_TEST

/* Up to the next start: how long it took. */
static uint64_t
pause_ms(size_t line)
{
	unsigned before = started[line];
	uint64_t begun = clock_now_ms;

	while (started[line] == before) {
		ck_assert_uint_lt(clock_now_ms - begun, 120000);
		pool_tick(pool);
		clock_now_ms++;
	}
	return clock_now_ms - 1 - begun;
}

START_TEST(a_start_that_fails_is_tried_again_ever_more_slowly)
{
	uint64_t pause, last = 0;
	unsigned i;

	create(2, 1, 0);
	start_fails = EMFILE;
	pool_fill(pool);
	ck_assert_uint_eq(pause_ms(0), 0);
	for (i = 0; i < 12; i++) {
		pause = pause_ms(0);
		ck_assert_msg(last == 0 || last == 30000 || pause >= 2 * last - 2 ||
				  pause >= 29990,
		    "%ju after %ju", (uintmax_t)pause, (uintmax_t)last);
		ck_assert_uint_le(pause, 30000);
		last = pause;
	}
	ck_assert_uint_gt(started[1], 3); /* one line's trouble is not the other's */
	ck_assert_uint_eq(pool_refuses(pool, 0), 0); /* nothing of it ran */
	start_fails = 0;
	pause_ms(0);
	pool_tick(pool);
	ck_assert_uint_eq(nmade, 3);
	destroy();
}
END_TEST

START_TEST(one_that_has_waited_for_long_is_replaced_soon)
{
	create(1, 0, 0);
	pool_fill(pool);
	pool_tick(pool);
	pool_lost(pool, &made[0], true);
	pause_ms(0);
	pool_lost(pool, &made[1], true);
	ck_assert_uint_ge(pause_ms(0), 199);
	clock_now_ms += 3600000;
	pool_lost(pool, &made[2], true);
	ck_assert_uint_le(pause_ms(0), 100);
	destroy();
}
END_TEST

/* Dies until its line is off; the number of deaths. */
static unsigned
die_until_off(size_t line)
{
	unsigned n = 0;
	bool off;

	do {
		pause_ms(line);
		off = pool_lost(pool, &made[nmade - 1], true);
		n++;
		ck_assert_uint_le(n, 10);
	} while (!off);
	return n;
}

START_TEST(too_many_deaths_at_the_start_put_a_line_off_for_a_while)
{
	create(1, 0, 0);
	pool_fill(pool);
	ck_assert_uint_eq(die_until_off(0), START_DEATHS_MAX + 1);
	ck_assert_uint_eq(pool_refuses(pool, 0), START_DEATHS_MAX + 1);
	ck_assert_uint_eq(pool_refuses(pool, 1), 0);
	ck_assert_ptr_null(pool_take(pool, 0));
	ck_assert_uint_ge(pause_ms(0), START_WINDOW_MS - 1);
	ck_assert_uint_eq(pool_refuses(pool, 0), 0);
	destroy();
}
END_TEST

START_TEST(a_success_in_between_takes_no_death_back)
{
	unsigned i;

	create(1, 0, 0);
	pool_fill(pool);
	pool_tick(pool);
	for (i = 0; i < START_DEATHS_MAX; i++) {
		ck_assert(!pool_died(pool, 0));
		ck_assert_ptr_nonnull(pool_take(pool, 0)); /* that one lives, and serves */
		clock_now_ms += 100;
		pool_tick(pool);
		ck_assert_uint_eq(pool_refuses(pool, 0), 0);
	}
	ck_assert(pool_died(pool, 0));
	ck_assert_uint_eq(pool_refuses(pool, 0), START_DEATHS_MAX + 1);
	ck_assert(!pool_died(pool, 0)); /* said once; one more that was on its way */
	ck_assert_uint_eq(pool_refuses(pool, 0), START_DEATHS_MAX + 2);
	clock_now_ms += START_WINDOW_MS;
	ck_assert_uint_eq(pool_refuses(pool, 0), 0);
	destroy();
}
END_TEST

START_TEST(deaths_far_apart_are_never_too_many)
{
	unsigned i;

	create(0, 0, 0);
	for (i = 0; i < 100; i++) {
		clock_now_ms += START_WINDOW_MS / START_DEATHS_MAX;
		ck_assert(!pool_died(pool, 2));
	}
	destroy();
}
END_TEST

START_TEST(a_drained_pool_starts_nothing_whatever_dies)
{
	unsigned i;

	create(8, 2, 0);
	pool_fill(pool);
	ticks(5);
	pool_drain(pool);
	pool_drain(pool);
	ck_assert_uint_eq(ended, 5);
	for (i = 0; i < 5; i++)
		ck_assert(!pool_lost(pool, &made[i], true)); /* ended by order: no fault of theirs */
	ck_assert_ptr_null(pool_take(pool, 0));
	clock_now_ms += 1000000;
	ticks(10);
	ck_assert_int_eq(event_base_loop(base, EVLOOP_NONBLOCK), 1);
	ck_assert_uint_eq(nmade, 5);
	ck_assert_uint_eq(pool_refuses(pool, 0), 0);
	/* As when a configuration was read again: the new ones are new processes. */
	pool_fill(pool);
	ticks(20);
	ck_assert_uint_eq(nmade, 15);
	ck_assert(pool_take(pool, 0) >= &made[5]);
	destroy();
}
END_TEST

/* As when a configuration follows in which one line is as it was, and stands elsewhere. */
START_TEST(a_line_goes_on_in_another_pool_with_all_that_it_had)
{
	const unsigned want[2] = { 1, 3 };
	struct pool *next;
	unsigned i;

	create(2, 3, 1);
	pool_fill(pool);
	ticks(10);
	for (i = 0; i < START_DEATHS_MAX; i++)
		ck_assert(!pool_died(pool, 1));
	next = pool_create(base, want, 2, &handler, &base);
	ck_assert_ptr_nonnull(next);
	pool_go_on(next, 1, pool, 1);
	pool_drain(pool);
	ck_assert_uint_eq(ended, 3); /* of the two others */
	ck_assert_ptr_null(pool_take(pool, 1));
	pool_destroy(pool);
	pool = next;
	pool_fill(pool);
	ticks(10);
	ck_assert_uint_eq(nmade, 7); /* the one that the other line wants */
	ck_assert(pool_take(pool, 1) == &made[2] && !made[2].waits);
	ck_assert(pool_lost(pool, &made[3], true)); /* one death too many */
	ck_assert(pool_refuses(pool, 1) > 0 && pool_refuses(pool, 0) == 0);
	destroy();
	ck_assert_uint_eq(ended, 5);
}
END_TEST

START_TEST(a_drain_with_a_pause_running_cancels_it)
{
	create(1, 0, 0);
	start_fails = EAGAIN;
	pool_fill(pool);
	pool_tick(pool);
	pool_drain(pool);
	clock_now_ms += 1000000;
	ck_assert_int_eq(event_base_loop(base, EVLOOP_NONBLOCK), 1);
	ck_assert_uint_eq(started[0], 1);
	destroy();
}
END_TEST

/* Whatever comes in whatever order: never more than wanted, never one twice, none when off. */
START_TEST(any_sequence_keeps_the_bounds)
{
	static bool gone[MADE], taken[MADE];
	unsigned waiting, i, k, line;
	struct pool_entry *e;

	srand((unsigned)_i + 1);
	create(1 + (unsigned)_i % 5, 3, 0);
	for (i = 0; i < MADE; i++)
		gone[i] = taken[i] = false;
	for (k = 0; k < 20000 && nmade < MADE - 8; k++) {
		line = (unsigned)rand() % 2;
		i = nmade ? (unsigned)rand() % nmade : 0;
		switch (rand() % 8) {
		case 0: pool_fill(pool); break;
		case 1:
			if (rand() % 50 == 0)
				pool_drain(pool);
			break;
		case 2:
			e = pool_take(pool, line);
			if (e) {
				ck_assert(!taken[e - made] && !gone[e - made]);
				taken[e - made] = true;
			}
			break;
		case 3:
			if (nmade && !gone[i] && rand() % 4 == 0) {
				gone[i] = true;
				pool_lost(pool, &made[i], rand() % 2);
			}
			break;
		case 4: start_fails = rand() % 8 == 0 ? EAGAIN : 0; break;
		default: clock_now_ms += (unsigned)rand() % 400; pool_tick(pool);
		}
		for (line = 0; line < 2; line++) {
			for (i = waiting = 0; i < nmade; i++)
				waiting += made[i].waits && made[i].line == line;
			ck_assert_uint_le(waiting, line ? 3 : 1 + (unsigned)_i % 5);
		}
	}
	ck_assert_uint_gt(nmade, 20);
	destroy();
	for (i = 0; i < nmade; i++)
		ck_assert(!made[i].waits);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("pool");
	TCase *t = tcase_create("pool");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, nothing_is_started_before_it_is_to_be_filled);
	tcase_add_test(t, the_loop_fills_it_by_itself);
	tcase_add_test(t, each_is_handed_out_once_the_oldest_first_and_replaced);
	tcase_add_test(t, an_empty_line_gives_none_and_no_other_lines);
	tcase_add_test(t, one_that_is_dead_already_is_passed_over);
	tcase_add_test(t, a_start_that_fails_is_tried_again_ever_more_slowly);
	tcase_add_test(t, one_that_has_waited_for_long_is_replaced_soon);
	tcase_add_test(t, too_many_deaths_at_the_start_put_a_line_off_for_a_while);
	tcase_add_test(t, a_success_in_between_takes_no_death_back);
	tcase_add_test(t, deaths_far_apart_are_never_too_many);
	tcase_add_test(t, a_drained_pool_starts_nothing_whatever_dies);
	tcase_add_test(t, a_line_goes_on_in_another_pool_with_all_that_it_had);
	tcase_add_test(t, a_drain_with_a_pause_running_cancels_it);
	tcase_add_loop_test(t, any_sequence_keeps_the_bounds, 0, 10);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
