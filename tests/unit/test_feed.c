/* What is kept of an operation, a gap for what is gone, and how it ended. */
#include <check.h>

#include "tests/unit/feed_fixture.h"

/* ---- the tests ------------------------------------------------------------------------ */

START_TEST(what_is_gone_is_named_and_what_it_began_with_is_known)
{
	struct feed *f = begun("op-1");
	struct reader *r = reader_open(0), *later = reader_open(1);

	for (unsigned i = 0; i < 40; i++)
		output(f, sizeof bytes);
	attach(r, f, 0);
	attach(later, f, 5);
	run();
	ck_assert_uint_eq(r->ngaps, 1);
	ck_assert_uint_eq(r->lost, f->log.first - 2); /* but for the first, `accepted` */
	ck_assert_uint_eq(later->lost, f->log.first - 6);
	ck_assert_uint_eq(r->expected, feed_last(f) + 1);
	completed(f);
	run();
	check_done(r, f);
	check_done(later, f);
}
END_TEST

START_TEST(an_ending_that_is_not_kept_is_told_as_the_record_has_it) /* D-16 */
{
	struct feed *f = begun("op-1");
	struct reader *r = reader_open(0), *behind = reader_open(1), *up = reader_open(2);
	struct past past = { .kind = operation_kind_command, .ending = ENDING_oom };
	struct msg_operation_event e = { .type = event_type_failed, .has_body = true };
	struct buf body = { 0 };

	output(f, 10);
	pack_map(&body, 1);
	pack_str(&body, "code");
	pack_str(&body, "as it was");
	e.sequence = f->log.next;
	e.body = buf_slice(&body);
	feed_end(f, &past, &e);
	attach(r, f, 0);
	run();
	ck_assert_str_eq(r->code, "as it was");
	event_store_expire(&broker.feeds->store, UINT64_MAX / 2);
	ck_assert_uint_eq(broker.feeds->store.bytes, 0);
	attach(behind, f, 0);
	attach(up, f, 2);
	run();
	check_done(behind, f);
	check_done(up, f);
	ck_assert_uint_eq(behind->lost, 1);
	ck_assert_uint_eq(behind->nevents, 3); /* accepted, gap, ending */
	ck_assert_uint_eq(up->ngaps, 0);
	ck_assert_str_eq(behind->code, "resource_exhausted");
	ck_assert_str_eq(up->code, "resource_exhausted");
	buf_finish(&body);
}
END_TEST

START_TEST(without_retention_who_keeps_up_reads_all_and_who_comes_late_the_ending)
{
	struct reader *r = reader_open(0), *slow = reader_open(1), *late = reader_open(2);
	struct feed *f;

	config.retention = retention_none;
	config.retained.operation_bytes = 0;
	feeds_on_config(broker.feeds);
	f = begun("op-1");
	attach(r, f, 0);
	attach(slow, f, 0);
	run();
	link_pause(slow->link);
	for (unsigned i = 0; i < 40; i++) {
		output(f, sizeof bytes);
		/* no more than what is on its way to the slow one */
		ck_assert_uint_le(broker.feeds->store.bytes, FEED_FLIGHT_BYTES);
		run();
	}
	completed(f);
	run();
	check_done(r, f);
	ck_assert_uint_eq(r->ngaps, 0);
	ck_assert_uint_gt(broker.feeds->store.bytes, 0); /* the ending, for the slow one */
	link_resume(slow->link);
	run();
	check_done(slow, f);
	ck_assert_uint_eq(slow->ngaps, 1);
	ck_assert_uint_eq(broker.feeds->store.bytes, 0);
	attach(late, f, 0);
	run();
	check_done(late, f);
	ck_assert_uint_eq(late->nevents, 3);
}
END_TEST

/* ---- who is waited for ---------------------------------------------------------------- */

START_TEST(a_forgotten_session_tells_who_still_reads_how_it_ended) /* D-2 */
{
	struct reader *r = reader_open(0);
	struct feed *f = begun("op-1");

	attach(r, f, 0);
	run();
	link_pause(r->link);
	for (unsigned i = 0; i < 100; i++) {
		output(f, sizeof bytes);
		run();
	}
	completed(f);
	run();
	ck_assert_uint_eq(r->client.nsubscriptions, 1);
	feed_list_finish(&list);
	ck_assert_uint_eq(r->client.nsubscriptions, 0);
	link_resume(r->link);
	run();
	ck_assert_uint_eq(r->expected, 103);
	ck_assert_int_eq(r->last, event_type_completed);
	ck_assert_uint_eq(r->ngaps, 1);
}
END_TEST

START_TEST(operations_that_ended_are_bounded)
{
	char id[FEED_ID_MAX];
	struct feed *open = begun("op-open");

	for (unsigned i = 0; i < FEEDS_LIST_MAX + 10; i++) {
		snprintf(id, sizeof id, "op-%u", i);
		completed(begun(id));
	}
	ck_assert_uint_eq(list.nended, FEEDS_LIST_MAX);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-9")));
	ck_assert_ptr_nonnull(feed_find(broker.feeds, slice_of("op-10")));
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of("op-open")), open);
	completed(open); /* the oldest of all is the last to end: another one goes */
	ck_assert_uint_eq(list.nended, FEEDS_LIST_MAX);
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of("op-open")), open);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-10")));
	for (unsigned i = 0; i < FEEDS_LOOSE_MAX + 10; i++) {
		struct past past = { .ending = ENDING_host_lost };

		snprintf(id, sizeof id, "op-loose-%u", i);
		ck_assert_int_eq(feeds_keep(broker.feeds, NULL, id, &past, 7, NULL), 0);
	}
	ck_assert_uint_eq(broker.feeds->loose.nended, FEEDS_LOOSE_MAX);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-loose-9")));
	ck_assert_ptr_nonnull(feed_find(broker.feeds, slice_of("op-loose-10")));
}
END_TEST

START_TEST(what_a_broker_before_left_is_a_gap_and_its_ending) /* D-11, OP-41 */
{
	struct past past = { .kind = operation_kind_turn, .ending = ENDING_host_lost };
	struct reader *r = reader_open(0), *mine = reader_open(1);

	ck_assert_int_eq(feeds_keep(broker.feeds, NULL, "op-loose", &past, 1002, NULL), 0);
	ck_assert_int_eq(feeds_keep(broker.feeds, &list, "op-1", &past, 1002, NULL), 0);
	attach(r, feed_find(broker.feeds, slice_of("op-loose")), 3);
	attach(mine, feed_find(broker.feeds, slice_of("op-1")), 0);
	run();
	ck_assert_uint_eq(r->lost, 1001 - 3);
	ck_assert_uint_eq(r->nevents, 2);
	ck_assert_str_eq(r->code, "unavailable");
	ck_assert_uint_eq(mine->lost, 1000);
	ck_assert_uint_eq(mine->nevents, 3);
	ck_assert_str_eq(mine->code, "unavailable");
}
END_TEST

START_TEST(what_is_shown_of_one)
{
	struct feed *f = submitted("op-1");
	struct buf b = { 0 };
	struct value v;

	accepted(f);
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "queued"));
	ck_assert(value_get(buf_slice(&b), "sequence", &v) && v.uint == 1);
	ck_assert(value_get(buf_slice(&b), "session", &v) && slice_is(v.bytes, "s-1"));
	ck_assert(value_get(buf_slice(&b), "kind", &v) && slice_is(v.bytes, "command"));
	ck_assert(value_get(buf_slice(&b), "acceptedAt", &v) && v.uint > 0);
	ck_assert(!value_get(buf_slice(&b), "startedAt", &v));
	feed_begin(f);
	for (unsigned i = 0; i < 40; i++)
		output(f, sizeof bytes);
	b.n = 0;
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "running"));
	ck_assert(value_get(buf_slice(&b), "retainedFrom", &v) && v.uint == f->log.first);
	completed(f);
	b.n = 0;
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "succeeded"));
	ck_assert(value_get(buf_slice(&b), "endedAt", &v) && !value_get(buf_slice(&b), "code", &v));
	buf_finish(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("feed");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, what_is_gone_is_named_and_what_it_began_with_is_known);
	tcase_add_test(t, an_ending_that_is_not_kept_is_told_as_the_record_has_it);
	tcase_add_test(t, without_retention_who_keeps_up_reads_all_and_who_comes_late_the_ending);
	tcase_add_test(t, a_forgotten_session_tells_who_still_reads_how_it_ended);
	tcase_add_test(t, operations_that_ended_are_bounded);
	tcase_add_test(t, what_a_broker_before_left_is_a_gap_and_its_ending);
	tcase_add_test(t, what_is_shown_of_one);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
