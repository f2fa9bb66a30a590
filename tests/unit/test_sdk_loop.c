/*
 * What the loop in C takes for a decision, where that is about bytes: the rest is the table of
 * tests/sdk/loop_cases.json.
 */
#include "worker/sdk/caisson_decision.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "common/util.h"

static struct caisson_writer w; /* the decision */

static void
teardown(void)
{
	caisson_writer_finish(&w);
}

static bool
read_at(uint32_t at, struct caisson_plan *ret)
{
	return caisson_decision_read((struct caisson_value){ w.p, w.n }, at, ret);
}

static void
write_call(const uint32_t *step)
{
	struct caisson_writer arguments = { NULL, 0, 0, 0 };

	caisson_put_map(&arguments, 1);
	caisson_put_text(&arguments, "path", "docs");
	ck_assert_int_eq(caisson_decide_call(&w, "files.stat", &arguments, step), 0);
	caisson_writer_finish(&arguments);
}

START_TEST(what_the_helpers_write_is_a_decision)
{
	struct caisson_writer output = { NULL, 0, 0, 0 };
	struct caisson_plan plan;
	uint32_t step = 3;

	write_call(&step);
	ck_assert(read_at(2, &plan));
	ck_assert_int_eq(plan.kind, CAISSON_INVOKE);
	ck_assert(caisson_is(plan.tool, "files.stat"));
	ck_assert(caisson_is(caisson_get(plan.arguments, "path"), "docs"));
	ck_assert_uint_eq(plan.step, 3);
	ck_assert(!read_at(4, &plan));
	caisson_writer_finish(&w);
	write_call(NULL);
	ck_assert(read_at(2, &plan));
	ck_assert_uint_eq(plan.step, 2);
	caisson_writer_finish(&w);
	caisson_put_uint(&output, 7);
	ck_assert_int_eq(caisson_decide_complete(&w, &output), 0);
	ck_assert(read_at(0, &plan));
	ck_assert(plan.kind == CAISSON_COMPLETE && caisson_uint(plan.value) == 7);
	caisson_writer_finish(&w);
	caisson_writer_finish(&output);
	ck_assert_int_eq(caisson_decide_fail(&w, "code", "words"), 0);
	ck_assert(read_at(0, &plan));
	ck_assert(caisson_is(caisson_get(plan.value, "message"), "words"));
	caisson_writer_finish(&w);
	ck_assert_int_eq(caisson_decide_escalate(&w, "may I?"), 0);
	ck_assert(read_at(0, &plan));
	ck_assert(plan.kind == CAISSON_ESCALATE && caisson_is(plan.value, "may I?"));
}
END_TEST

START_TEST(the_error_of_a_value_is_that_of_its_decision)
{
	struct caisson_writer failed = { NULL, 0, 0, -ENOMEM };

	ck_assert_int_eq(caisson_decide_complete(&w, &failed), -ENOMEM);
}
END_TEST

START_TEST(a_decision_with_a_member_twice_is_none)
{
	struct caisson_plan plan;
	unsigned i;

	caisson_put_map(&w, 3);
	caisson_put_text(&w, "type", "escalate");
	for (i = 0; i < 2; i++)
		caisson_put_text(&w, "reason", "may I?");
	ck_assert(!read_at(0, &plan));
}
END_TEST

START_TEST(a_part_of_a_decision_is_none_and_so_is_more_than_one)
{
	struct caisson_plan plan;
	uint8_t *exact;
	uint32_t step = 70000;
	size_t n;

	write_call(&step);
	for (n = 0; n <= w.n; n++) {
		exact = malloc(n + 1); /* so that ASan sees one byte too far */
		memcpy(exact + 1, w.p, n);
		ck_assert_int_eq(
		    caisson_decision_read((struct caisson_value){ exact + 1, n }, 0, &plan),
		    n == w.n);
		free(exact);
	}
	caisson_put_nil(&w);
	ck_assert(!read_at(0, &plan));
}
END_TEST

static const struct {
	const char *bytes;
	size_t n, least;
	bool is;
} texts[] = {
	{ "\xa1x", 2, 1, true },
	{ "\xa0", 1, 0, true },
	{ "\xa0", 1, 1, false },      /* too short */
	{ "\xa4xxxx", 5, 1, false },  /* too long */
	{ "\xa2x\0", 3, 1, false },   /* a NUL */
	{ "\xc4\x01x", 3, 1, false }, /* bytes are no text */
	{ "", 0, 0, false },
};

START_TEST(text_is_a_string_within_its_bounds)
{
	struct caisson_value v = { (const uint8_t *)texts[_i].bytes, texts[_i].n };

	ck_assert_int_eq(caisson_is_text(v, texts[_i].least, 3), texts[_i].is);
}
END_TEST

START_TEST(what_fits_a_frame_is_one_value_of_bounded_depth_and_size)
{
	unsigned depth, i;

	for (depth = 23; depth <= 26; depth++) {
		for (i = 1; i < depth; i++)
			caisson_put_array(&w, 1);
		caisson_put_array(&w, 0); /* the innermost one counts, too */
		ck_assert_int_eq(caisson_fits((struct caisson_value){ w.p, w.n }), depth <= 24);
		caisson_writer_finish(&w);
	}
	for (depth = 32766; depth <= 32769; depth++) {
		caisson_put_array(&w, depth);
		for (i = 0; i < depth; i++)
			caisson_put_nil(&w);
		ck_assert_int_eq(
		    caisson_fits((struct caisson_value){ w.p, w.n }), depth + 1 <= 32768);
		caisson_put_nil(&w);
		ck_assert(!caisson_fits((struct caisson_value){ w.p, w.n }));
		caisson_writer_finish(&w);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("sdk loop");
	TCase *t = tcase_create("decisions");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_test(t, what_the_helpers_write_is_a_decision);
	tcase_add_test(t, the_error_of_a_value_is_that_of_its_decision);
	tcase_add_test(t, a_decision_with_a_member_twice_is_none);
	tcase_add_test(t, a_part_of_a_decision_is_none_and_so_is_more_than_one);
	tcase_add_loop_test(t, text_is_a_string_within_its_bounds, 0, (int)countof(texts));
	tcase_add_test(t, what_fits_a_frame_is_one_value_of_bounded_depth_and_size);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
