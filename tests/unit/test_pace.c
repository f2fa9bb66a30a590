/*
 * Who is waited for: clients that read, for as long as they do, and those who never read once.
 */
#include <check.h>

#include "broker/pace.h"

START_TEST(who_reads_is_waited_for_until_it_pauses_too_long) /* OP-17 */
{
	struct pace_credit credit = { 0 };
	struct pace p = { 0 };

	ck_assert(pace_look(&p, 1, 5000));
	pace_fill(&p, 5000);
	for (uint64_t now = 5001, n = 2; now < 50000; now += PACE_MS - 1, n++) {
		ck_assert_uint_gt(pace_until(&p, &credit, now), now);
		ck_assert(!pace_look(&p, n, now));
		pace_fill(&p, now); /* that it is full still is nothing that it did */
		ck_assert_uint_eq(pace_until(&p, &credit, now), now + PACE_MS);
	}
	ck_assert(!pace_look(&p, p.nreads, 70000));
	ck_assert_uint_le(pace_until(&p, &credit, 70000), 70000);
	pace_look(&p, p.nreads + 1, 80000);
	ck_assert_uint_eq(pace_until(&p, &credit, 80000), 80000 + PACE_MS);
	ck_assert_uint_eq(credit.until_ms, 0); /* it takes none */
}
END_TEST

START_TEST(who_had_nothing_to_read_has_not_paused) /* OP-17 */
{
	struct pace_credit credit = { 0 };
	struct pace p = { 0 };

	pace_look(&p, 1, 1000);
	pace_fill(&p, 1000);
	pace_empty(&p);
	pace_fill(&p, 90000);
	ck_assert_uint_eq(pace_until(&p, &credit, 90000), 90000 + PACE_MS);
	pace_fill(&p, 90500);
	ck_assert_uint_eq(pace_until(&p, &credit, 90500), 90000 + PACE_MS);
}
END_TEST

START_TEST(those_who_never_read_have_one_credit_together) /* OP-17 */
{
	struct pace_credit credit = { 0 };
	struct pace p[100] = { 0 };

	for (unsigned i = 0; i < 100; i++) {
		pace_fill(&p[i], 1000 + 100 * i);
		ck_assert_uint_eq(
		    pace_until(&p[i], &credit, 1000 + 100 * i), 1000 + PACE_MS);
	}
	/* That its queue moved into the socket is nothing that it read. */
	pace_empty(&p[0]);
	pace_fill(&p[0], 20000);
	ck_assert(!pace_look(&p[0], 0, 20000));
	ck_assert_uint_eq(pace_until(&p[0], &credit, 20000), 1000 + PACE_MS);
	/* One that reads says so once. */
	ck_assert(pace_look(&p[1], 3, 20000));
	ck_assert(!pace_look(&p[1], 4, 20001));
	ck_assert_uint_eq(pace_until(&p[1], &credit, 20001), 20001 + PACE_MS);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("pace");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, who_reads_is_waited_for_until_it_pauses_too_long);
	tcase_add_test(t, who_had_nothing_to_read_has_not_paused);
	tcase_add_test(t, those_who_never_read_have_one_credit_together);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
