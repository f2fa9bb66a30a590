/* The table of endings.  D-2, D-13, and the exit statuses of the command line. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/control.h"
#include "common/endings.h"
#include "common/util.h"

START_TEST(every_ending_is_found_by_its_name)
{
	const struct ending_desc *d = ending_desc((uint32_t)_i);
	char longer[80];

	ck_assert_ptr_nonnull(d);
	ck_assert_int_eq(ending_named(d->cause, strlen(d->cause)), _i);
	ck_assert_int_eq(ending_named(d->cause, strlen(d->cause) - 1), ENDING_none);
	memset(longer, 'x', sizeof longer);
	memcpy(longer, d->cause, strlen(d->cause));
	ck_assert_int_eq(ending_named(longer, strlen(d->cause) + 1), ENDING_none);
}
END_TEST

START_TEST(every_ending_says_something_in_every_column)
{
	static const char *const statuses[] = { "succeeded", "failed", "denied", "cancelled" };
	const struct ending_desc *d = ending_desc((uint32_t)_i);
	bool known = false;
	size_t i;

	for (i = 0; i < countof(statuses); i++)
		known |= strcmp(d->turn_status, statuses[i]) == 0;
	ck_assert(known);
	ck_assert_str_ne(d->doc, "");
	ck_assert_int_ge(d->http, 200);
	ck_assert_int_lt(d->http, 600);
	ck_assert_int_ge(d->exit_run, EXIT_FROM_TURN);
	ck_assert_int_le(d->exit_run, 125);
	ck_assert_int_ge(d->exit_exec, EXIT_FROM_FACTS);
	ck_assert_int_le(d->exit_exec, 128 + 9);
	/* Only success may look like it. */
	if (d->operation_code[0] != '\0') {
		ck_assert_str_ne(d->turn_status, "succeeded");
		ck_assert_int_gt(d->exit_run, 0);
		ck_assert_int_ne(d->exit_exec, 0);
		ck_assert_int_ge(d->http, 400);
	}
}
END_TEST

START_TEST(numbers_and_names_of_nothing_are_nothing)
{
	ck_assert_ptr_null(ending_desc(ENDING_none));
	ck_assert_ptr_null(ending_desc(ENDING_MAX));
	ck_assert_ptr_null(ending_desc(UINT32_MAX));
	ck_assert_int_eq(ending_named("", 0), ENDING_none);
	ck_assert_int_eq(ending_named("nothing", 7), ENDING_none);
}
END_TEST

START_TEST(the_status_of_a_turn_is_an_exit_status)
{
	ck_assert_int_eq(ending_turn_exit("succeeded"), 0);
	ck_assert_int_eq(ending_turn_exit("failed"), 1);
	ck_assert_int_eq(ending_turn_exit("denied"), 3);
	ck_assert_int_eq(ending_turn_exit("cancelled"), 4);
	ck_assert_int_eq(ending_turn_exit("escalated"), 5);
	ck_assert_int_eq(ending_turn_exit("anything else"), 1);
}
END_TEST

START_TEST(every_limit_is_found_by_its_name_and_says_what_to_do)
{
	const struct limit_desc *d = limit_desc((uint32_t)_i);

	ck_assert_ptr_nonnull(d);
	ck_assert_ptr_eq(limit_named(d->name, strlen(d->name)), d);
	ck_assert_ptr_null(limit_named(d->name, strlen(d->name) - 1));
	ck_assert_str_ne(d->text, "");
	ck_assert_str_ne(d->next, "");
}
END_TEST

START_TEST(no_limit_is_no_row)
{
	ck_assert_ptr_null(limit_desc(EXIT_LIMIT_none));
	ck_assert_ptr_null(limit_desc(EXIT_LIMIT_MAX));
	ck_assert_ptr_null(limit_desc(UINT32_MAX));
	ck_assert_ptr_null(limit_named("", 0));
	ck_assert_ptr_null(limit_named("refused calls", 13)); /* the broker's own */
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("endings");
	TCase *tc = tcase_create("endings");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, every_ending_is_found_by_its_name, ENDING_none + 1, ENDING_MAX);
	tcase_add_loop_test(
	    tc, every_ending_says_something_in_every_column, ENDING_none + 1, ENDING_MAX);
	tcase_add_test(tc, numbers_and_names_of_nothing_are_nothing);
	tcase_add_loop_test(tc, every_limit_is_found_by_its_name_and_says_what_to_do,
	    EXIT_LIMIT_none + 1, EXIT_LIMIT_MAX);
	tcase_add_test(tc, no_limit_is_no_row);
	tcase_add_test(tc, the_status_of_a_turn_is_an_exit_status);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
