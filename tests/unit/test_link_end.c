/* How links end: by their peer, their owner, or a kernel that fails. */
#include <check.h>
#include <signal.h>

#include "tests/unit/link_fixture.h"

/* ---- the end ----------------------------------------------------------------------------- */

/* _i: bytes of the last frame that never come. */
START_TEST(what_came_before_end_of_file_is_heard_and_half_a_frame_is_not)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	add_outputs(&b, 5);
	peer_write(&h, b.p, b.n - (size_t)_i);
	close(h.peer);
	h.peer = -1;
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, _i == 0 ? 5 : 4);
	ck_assert_int_eq(h.end, LINK_END_EOF);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(a_peer_that_died_with_our_frames_unread_is_read_to_its_end)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	ck_assert_int_eq(drain(h.link), 0);
	turn(&h);
	add_outputs(&b, 5);
	peer_write(&h, b.p, b.n);
	close(h.peer); /* ECONNRESET for us */
	h.peer = -1;
	ck_assert_int_eq(drain(h.link), 0); /* EPIPE for this one */
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, 5);
	ck_assert_int_eq(h.end, LINK_END_EOF);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(a_peer_that_never_reads_is_cut_off_at_the_bound)
{
	struct host h;
	size_t most = 0;
	int r;

	host_open_ready(&h);
	while ((r = drain(h.link)) == 0) {
		if (link_queued(h.link) > most)
			most = link_queued(h.link);
		if (most % 1000 < 40)
			turn(&h);
	}
	ck_assert_int_eq(r, -EPIPE);
	ck_assert_uint_le(most, LINK_QUEUE_MAX);
	ck_assert_uint_gt(most, LINK_QUEUE_MAX - 100);
	ck_assert_int_eq(drain(h.link), -EPIPE);
	ck_assert_uint_eq(h.ended, 0); /* from the loop, not from within */
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_SLOW);
	host_finish(&h);
}
END_TEST

static void
close_at_second(struct host *h, const struct message *m)
{
	(void)m;
	if (h->messages == 2) {
		ck_assert_int_eq(drain(h->link), 0);
		link_close(h->link);
		link_close(h->link);
		link_fault(h->link, "too late");
		ck_assert_uint_eq(h->ended, 0);
		ck_assert_int_eq(drain(h->link), -EPIPE);
	}
}

START_TEST(the_handler_may_close_the_link)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	h.then = close_at_second;
	add_outputs(&b, 5);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, 2);
	ck_assert_int_eq(h.end, LINK_END_CLOSED);
	/* What was queued before has been written. */
	ck_assert_uint_gt(peer_read(&h, NULL), 0);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

static void
fault_at_second(struct host *h, const struct message *m)
{
	(void)m;
	if (h->messages == 2)
		link_fault(h->link, "said twice");
}

START_TEST(the_handler_may_call_it_a_fault)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	h.then = fault_at_second;
	add_outputs(&b, 5);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, 2);
	ck_assert_int_eq(h.end, LINK_END_FAULT);
	ck_assert_str_eq(h.rule, "said twice");
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(a_closed_link_ends_once_and_from_the_loop)
{
	struct host h;

	host_open_ready(&h);
	link_close(NULL);
	link_close_drained(NULL, 1);
	link_close(h.link);
	link_close_drained(h.link, 1000);
	ck_assert_uint_eq(h.ended, 0);
	turn_until(&h, &h.ended, 1);
	turn(&h);
	ck_assert_uint_eq(h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_CLOSED);
	host_finish(&h);
}
END_TEST

START_TEST(a_drained_close_waits_for_the_peer)
{
	struct host h;
	unsigned turns = 0;

	host_open_ready(&h);
	fill_queue(&h, 2 << 20);
	link_close_drained(h.link, 3600 * 1000);
	ck_assert_int_eq(drain(h.link), -EPIPE);
	turn(&h);
	ck_assert_uint_eq(h.ended, 0);
	while (h.ended == 0) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		peer_read(&h, NULL);
		turn(&h);
	}
	ck_assert_int_eq(h.end, LINK_END_CLOSED);
	host_finish(&h);
}
END_TEST

START_TEST(a_drained_close_does_not_wait_for_ever)
{
	struct host h;

	host_open_ready(&h);
	fill_queue(&h, 2 << 20);
	link_close_drained(h.link, 1);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_CLOSED);
	host_finish(&h);
}
END_TEST

START_TEST(a_drained_close_ends_with_the_peer)
{
	struct host h;

	host_open_ready(&h);
	fill_queue(&h, 2 << 20);
	link_close_drained(h.link, 3600 * 1000);
	close(h.peer);
	h.peer = -1;
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_CLOSED);
	host_finish(&h);
}
END_TEST

START_TEST(a_descriptor_that_cannot_be_used_is_an_error)
{
	struct event_base *base = event_base_new();

	ck_assert_ptr_null(link_open(base, 9999, ROLE_BROKER, ROLE_WORKER, &handler, NULL));
	ck_assert_int_eq(errno, EBADF);
	event_base_free(base);
}
END_TEST

/* ---- a kernel of moods ------------------------------------------------------------------- */

static int failure;

static ssize_t
failing_read(int fd, void *p, size_t n)
{
	(void)fd;
	(void)p;
	(void)n;
	errno = failure;
	return -1;
}

static ssize_t
failing_write(int fd, const void *p, size_t n)
{
	(void)fd;
	(void)p;
	(void)n;
	errno = failure;
	return -1;
}

static const struct link_io failing_reads = { failing_read, counting_write };
static const struct link_io failing_writes = { read, failing_write };

START_TEST(an_error_of_the_system_ends_the_link)
{
	struct host h;

	host_open_ready(&h);
	link_set_io(h.link, &failing_reads);
	failure = EIO;
	peer_write(&h, "x", 1);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_ERROR);
	ck_assert_int_eq(h.error, EIO);
	host_finish(&h);

	host_open_ready(&h);
	link_set_io(h.link, &failing_reads);
	failure = ECONNRESET;
	peer_write(&h, "x", 1);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_EOF);
	host_finish(&h);

	host_open_ready(&h);
	link_set_io(h.link, &failing_writes);
	failure = ENOBUFS;
	ck_assert_int_eq(drain(h.link), 0);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_ERROR);
	ck_assert_int_eq(h.error, ENOBUFS);
	host_finish(&h);
}
END_TEST

START_TEST(a_peer_that_stopped_reading_is_still_heard)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	ck_assert_int_eq(shutdown(h.peer, SHUT_RD), 0);
	ck_assert_int_eq(drain(h.link), 0);
	turn(&h);
	ck_assert_uint_eq(h.ended, 0);
	ck_assert_int_eq(drain(h.link), -EPIPE);
	add_outputs(&b, 3);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.messages, 3);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("link_end");
	TCase *end = tcase_create("end");
	TCase *moods = tcase_create("moods");
	TCase *cases[] = { end, moods };
	SRunner *runner;
	size_t i;
	int failed;

	tcase_add_loop_test(
	    end, what_came_before_end_of_file_is_heard_and_half_a_frame_is_not, 0, 12);
	tcase_add_test(end, a_peer_that_died_with_our_frames_unread_is_read_to_its_end);
	tcase_add_test(end, a_peer_that_never_reads_is_cut_off_at_the_bound);
	tcase_add_test(end, the_handler_may_close_the_link);
	tcase_add_test(end, the_handler_may_call_it_a_fault);
	tcase_add_test(end, a_closed_link_ends_once_and_from_the_loop);
	tcase_add_test(end, a_drained_close_waits_for_the_peer);
	tcase_add_test(end, a_drained_close_does_not_wait_for_ever);
	tcase_add_test(end, a_drained_close_ends_with_the_peer);
	tcase_add_test(end, a_descriptor_that_cannot_be_used_is_an_error);
	tcase_add_test(moods, an_error_of_the_system_ends_the_link);
	tcase_add_test(moods, a_peer_that_stopped_reading_is_still_heard);
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < countof(cases); i++) {
		tcase_set_timeout(cases[i], 60);
		suite_add_tcase(s, cases[i]);
	}
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
