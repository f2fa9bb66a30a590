/* Links that are paused, that queue, and that are written a little at a time. */
#include <check.h>
#include <signal.h>

#include "tests/unit/link_fixture.h"

/* ---- flow -------------------------------------------------------------------------------- */

static void
pause_at_second(struct host *h, const struct message *m)
{
	(void)m;
	if (h->messages == 2)
		link_pause(h->link);
}

START_TEST(a_paused_link_holds_back_what_it_has_read)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	h.then = pause_at_second;
	add_outputs(&b, 5);
	peer_write(&h, b.p, b.n);
	close(h.peer);
	h.peer = -1;
	turn(&h);
	turn(&h);
	ck_assert_uint_eq(h.messages, 2);
	ck_assert_uint_eq(h.ended, 0);
	link_resume(h.link);
	link_resume(h.link);
	ck_assert_uint_eq(h.messages, 2); /* from the loop, not from within */
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, 5);
	ck_assert_int_eq(h.end, LINK_END_EOF);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

static void
pause_and_resume(struct host *h, const struct message *m)
{
	(void)m;
	link_pause(h->link);
	link_resume(h->link);
}

START_TEST(pausing_and_resuming_in_the_handler_loses_nothing)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	h.then = pause_and_resume;
	add_outputs(&b, 50);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.messages, 50);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(a_paused_link_still_writes_and_can_be_closed)
{
	struct host h;

	host_open_ready(&h);
	link_pause(h.link);
	ck_assert_int_eq(drain(h.link), 0);
	turn(&h);
	ck_assert_uint_gt(peer_read(&h, NULL), 0);
	link_close(h.link);
	turn_until(&h, &h.ended, 1);
	host_finish(&h);
}
END_TEST

START_TEST(the_owner_hears_once_that_the_queue_has_drained)
{
	struct host h;
	unsigned turns = 0;

	host_open_ready(&h);
	link_watch(h.link, 0);
	ck_assert_uint_eq(h.drained, 0); /* from the loop */
	turn(&h);
	ck_assert_uint_eq(h.drained, 1);
	fill_queue(&h, 2 << 20);
	link_watch(h.link, 1 << 20);
	turn(&h);
	ck_assert_uint_eq(h.drained, 1);
	while (h.drained == 1) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		peer_read(&h, NULL);
		turn(&h);
	}
	ck_assert_uint_le(link_queued(h.link), 1 << 20);
	while (link_queued(h.link) > 0) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		peer_read(&h, NULL);
		turn(&h);
	}
	ck_assert_uint_eq(h.drained, 2);
	host_finish(&h);
}
END_TEST

static const struct link_io counting_io = { read, counting_write };

static void
notify_both(struct host *h, const struct message *m)
{
	(void)m;
	ck_assert_int_eq(drain(h->link), 0);
	ck_assert_int_eq(drain(h->other->link), 0);
}

START_TEST(what_a_turn_queues_leaves_in_that_turn_with_one_write_a_link)
{
	struct buf b = { 0 };
	struct host h, other;

	host_open_ready(&h);
	open_on(&other, h.base, ROLE_BROKER, ROLE_WORKER);
	link_set_io(h.link, &counting_io);
	link_set_io(other.link, &counting_io);
	h.then = notify_both;
	h.other = &other;
	add_outputs(&b, 100);
	peer_write(&h, b.p, b.n);
	writes = 0;
	turn(&h);
	ck_assert_uint_eq(h.messages, 100);
	ck_assert_uint_eq(writes, 2);
	ck_assert_uint_gt(peer_read(&h, NULL), 100);
	ck_assert_uint_gt(peer_read(&other, NULL), 100);
	link_close(other.link);
	turn_until(&h, &other.ended, 1);
	close(other.peer);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

/* ---- a kernel of moods ------------------------------------------------------------------- */

static unsigned mood;

/* Interrupted, empty, and short in turn. */
static ssize_t
moody_read(int fd, void *p, size_t n)
{
	switch (mood++ % 4) {
	case 0: errno = EINTR; return -1;
	case 1: errno = EAGAIN; return -1;
	default: return read(fd, p, n < 1 + mood % 7 ? n : 1 + mood % 7);
	}
}

static ssize_t
moody_write(int fd, const void *p, size_t n)
{
	switch (mood++ % 4) {
	case 0: errno = EINTR; return -1;
	case 1: errno = EAGAIN; return -1;
	default: return send(fd, p, n < 1 + mood % 5 ? n : 1 + mood % 5, MSG_NOSIGNAL);
	}
}

static const struct link_io moody_io = { moody_read, moody_write };

static void
echo_drain(struct host *h, const struct message *m)
{
	(void)m;
	ck_assert_int_eq(drain(h->link), 0);
}

START_TEST(short_and_interrupted_calls_lose_nothing)
{
	struct msg_operation_drain m = { .operation = slice_of("op"), .graceMs = 5 };
	struct buf b = { 0 }, got = { 0 }, want = { 0 };
	unsigned turns = 0, i;
	struct host h;

	host_open_ready(&h);
	link_set_io(h.link, &moody_io);
	h.then = echo_drain;
	add_outputs(&b, 200);
	for (i = 0; i < 200; i++)
		protocol_notify(&want, MSG_operation_drain, &m);
	peer_write(&h, b.p, b.n);
	while (got.n < want.n) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		turn(&h);
		peer_read(&h, &got);
	}
	ck_assert_uint_eq(h.messages, 200);
	ck_assert_uint_eq(got.n, want.n);
	ck_assert_mem_eq(got.p, want.p, want.n);
	buf_finish(&b);
	buf_finish(&got);
	buf_finish(&want);
	link_set_io(h.link, &counting_io);
	host_finish(&h);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("link_flow");
	TCase *flow = tcase_create("flow");
	TCase *moods = tcase_create("moods");
	TCase *cases[] = { flow, moods };
	SRunner *runner;
	size_t i;
	int failed;

	tcase_add_test(flow, a_paused_link_holds_back_what_it_has_read);
	tcase_add_test(flow, pausing_and_resuming_in_the_handler_loses_nothing);
	tcase_add_test(flow, a_paused_link_still_writes_and_can_be_closed);
	tcase_add_test(flow, the_owner_hears_once_that_the_queue_has_drained);
	tcase_add_test(flow, what_a_turn_queues_leaves_in_that_turn_with_one_write_a_link);
	tcase_add_test(moods, short_and_interrupted_calls_lose_nothing);
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
