/* Values as the C runtime library writes and reads them, against the codec of the broker. */
#include <check.h>
#include <signal.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/sdk/caisson.h"

/* ---- values -------------------------------------------------------------------------- */

static const uint64_t numbers[] = { 0, 1, 31, 32, 33, 127, 128, 255, 256, 32767, 32768, 65535,
	65536, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
	INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };

START_TEST(every_number_is_written_in_its_shortest_form)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct fault fault;
	int64_t negative = numbers[_i] > INT64_MAX ? INT64_MIN : -(int64_t)numbers[_i];

	caisson_put_uint(&w, numbers[_i]);
	ck_assert_int_eq(walk_value(w.p, w.n, &fault), 0);
	ck_assert_uint_eq(caisson_uint((struct caisson_value){ w.p, w.n }), numbers[_i]);
	caisson_writer_finish(&w);
	caisson_put_int(&w, negative);
	ck_assert_int_eq(walk_value(w.p, w.n, &fault), 0);
	ck_assert_int_eq(caisson_int((struct caisson_value){ w.p, w.n }), negative);
	caisson_writer_finish(&w);
}
END_TEST

static const size_t lengths[] = { 0, 1, 15, 16, 31, 32, 255, 256, 40000, 65535, 65536 };

START_TEST(every_length_is_written_in_its_shortest_form)
{
	static char bytes[65536];
	size_t n = lengths[_i], got, i;
	struct caisson_writer w[3] = { { NULL, 0, 0, 0 } };
	struct caisson_value element;
	struct caisson_cursor it;
	struct fault fault;

	memset(bytes, 'x', sizeof bytes);
	caisson_put_str_n(&w[0], bytes, n);
	caisson_put_bin(&w[1], bytes, n);
	caisson_put_array(&w[2], (uint32_t)(n > 60000 ? 60000 : n));
	for (i = 0; i < n && i < 60000; i++)
		caisson_put_nil(&w[2]);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(walk_value(w[i].p, w[i].n, &fault), 0);
	for (i = 0; i < 2; i++) {
		ck_assert_ptr_nonnull(
		    caisson_bytes((struct caisson_value){ w[i].p, w[i].n }, &got));
		ck_assert_uint_eq(got, n);
	}
	it = caisson_iterate((struct caisson_value){ w[2].p, w[2].n });
	for (i = 0; caisson_next(&it, &element); i++)
		ck_assert_int_eq(caisson_type(element), CAISSON_NIL);
	ck_assert_uint_eq(i, n > 60000 ? 60000 : n);
	for (i = 0; i < 3; i++)
		caisson_writer_finish(&w[i]);
}
END_TEST

START_TEST(what_is_no_number_reads_as_0_and_every_number_as_real)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_cursor it;
	struct caisson_value v;

	caisson_put_array(&w, 5);
	caisson_put_str(&w, "abc");
	caisson_put_bool(&w, true);
	caisson_put_real(&w, 2.5);
	caisson_put_uint(&w, UINT64_MAX);
	caisson_put_int(&w, -7);
	it = caisson_iterate((struct caisson_value){ w.p, w.n });
	ck_assert(caisson_next(&it, &v));
	ck_assert(caisson_int(v) == 0 && caisson_uint(v) == 0 && caisson_real(v) == 0);
	ck_assert(caisson_next(&it, &v));
	ck_assert(caisson_int(v) == 0 && caisson_uint(v) == 0 && caisson_real(v) == 0);
	ck_assert(caisson_next(&it, &v));
	ck_assert(caisson_int(v) == 0 && caisson_uint(v) == 0 && caisson_real(v) == 2.5);
	ck_assert(caisson_next(&it, &v));
	ck_assert(caisson_int(v) == 0 && caisson_real(v) == (double)UINT64_MAX);
	ck_assert(caisson_next(&it, &v));
	ck_assert(caisson_int(v) == -7 && caisson_uint(v) == 0 && caisson_real(v) == -7);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(scalars_come_back_as_they_were)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_value v;
	struct fault fault;

	caisson_put_map(&w, 4);
	caisson_put_str(&w, "yes");
	caisson_put_bool(&w, true);
	caisson_put_str(&w, "no");
	caisson_put_bool(&w, false);
	caisson_put_str(&w, "half");
	caisson_put_real(&w, -0.5);
	caisson_put_str(&w, "nil");
	caisson_put_nil(&w);
	ck_assert_int_eq(walk_value(w.p, w.n, &fault), 0);
	v = (struct caisson_value){ w.p, w.n };
	ck_assert(caisson_bool(caisson_get(v, "yes")));
	ck_assert(!caisson_bool(caisson_get(v, "no")));
	ck_assert(caisson_real(caisson_get(v, "half")) == -0.5);
	ck_assert_int_eq(caisson_type(caisson_get(v, "nil")), CAISSON_NIL);
	ck_assert_int_eq(caisson_type(caisson_get(v, "other")), CAISSON_NONE);
	ck_assert_uint_eq(caisson_uint(caisson_get(caisson_get(v, "other"), "deeper")), 0);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_value v, got;
	uint8_t *exact;
	size_t n;

	caisson_put_map(&w, 3);
	caisson_put_str(&w, "a");
	caisson_put_uint(&w, 70000);
	caisson_put_str(&w, "b");
	caisson_put_array(&w, 2);
	caisson_put_real(&w, 1.5);
	caisson_put_str(&w, "some longer text, some longer text");
	caisson_put_str(&w, "c");
	caisson_put_int(&w, -70000);
	for (n = 0; n <= w.n; n++) {
		exact = malloc(n + 1); /* so that ASan sees one byte too far */
		memcpy(exact + 1, w.p, n);
		v = (struct caisson_value){ exact + 1, n };
		ck_assert_int_eq(caisson_take(&v, &got), n == w.n);
		free(exact);
	}
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(nesting_has_a_bound)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_value v, got;
	unsigned depth, i;

	for (depth = 31; depth <= 34; depth++) {
		for (i = 0; i < depth; i++)
			caisson_put_array(&w, 1);
		caisson_put_nil(&w);
		v = (struct caisson_value){ w.p, w.n };
		ck_assert_int_eq(caisson_take(&v, &got), depth <= 32);
		caisson_writer_finish(&w);
	}
}
END_TEST

static Suite *
sdk_suite(void)
{
	Suite *s = suite_create("sdk_values");
	TCase *values = tcase_create("values");

	tcase_add_loop_test(
	    values, every_number_is_written_in_its_shortest_form, 0, (int)countof(numbers));
	tcase_add_loop_test(
	    values, every_length_is_written_in_its_shortest_form, 0, (int)countof(lengths));
	tcase_add_test(values, scalars_come_back_as_they_were);
	tcase_add_test(values, what_is_no_number_reads_as_0_and_every_number_as_real);
	tcase_add_test(values, every_truncation_is_refused);
	tcase_add_test(values, nesting_has_a_bound);
	suite_add_tcase(s, values);
	return s;
}

int
main(void)
{
	SRunner *runner = srunner_create(sdk_suite());
	int failed;

	(void)signal(SIGPIPE, SIG_IGN);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
