/* Links against peers of every kind: the greeting, frames, and requests that are open. */
#include <check.h>
#include <dirent.h>
#include <signal.h>

#include "common/inbox.h"
#include "common/pending.h"
#include "common/walk.h"
#include "tests/unit/link_fixture.h"

static void
add_hello(struct buf *b, uint32_t version)
{
	struct msg_hello m = { .protocol = version };

	ck_assert_int_eq(protocol_request(b, MSG_hello, 1, &m), 0);
}

static unsigned
open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* ---- hello ------------------------------------------------------------------------------- */

START_TEST(hello_is_answered_by_the_link_and_heard_by_its_owner)
{
	struct buf b = { 0 }, answer = { 0 }, want = { 0 };
	struct msg_hello_reply reply = { .protocol = PROTOCOL_VERSION, .frameMax = FRAME_MAX };
	struct host h;

	host_open(&h);
	ck_assert_int_eq(link_get_state(h.link), LINK_NEW);
	add_hello(&b, PROTOCOL_VERSION);
	peer_write(&h, b.p, b.n);
	turn(&h);
	ck_assert_uint_eq(h.messages, 1);
	ck_assert_int_eq(h.last, MSG_hello);
	ck_assert_int_eq(link_get_state(h.link), LINK_READY);
	/* The answer left in the same turn. */
	peer_read(&h, &answer);
	protocol_reply(&want, MSG_hello_reply, 1, &reply);
	ck_assert_uint_eq(answer.n, want.n);
	ck_assert_mem_eq(answer.p, want.p, want.n);
	/* Twice is once too often. */
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_FAULT);
	ck_assert_str_eq(h.rule, "not in this state");
	buf_finish(&b);
	buf_finish(&answer);
	buf_finish(&want);
	host_finish(&h);
}
END_TEST

START_TEST(another_version_is_a_fault)
{
	struct buf b = { 0 };
	struct host h;

	host_open(&h);
	add_hello(&b, PROTOCOL_VERSION + 1);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_int_eq(h.end, LINK_END_FAULT);
	ck_assert_str_eq(h.rule, "another protocol version: copy the SDK again");
	ck_assert_uint_eq(h.messages, 0);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(nothing_comes_before_hello)
{
	struct buf b = { 0 };
	struct host h;

	host_open(&h);
	add_outputs(&b, 1);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_str_eq(h.rule, "not in this state");
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

/* _i: what is wrong with the version that the other side names. */
START_TEST(the_side_that_says_hello_is_ready_with_its_answer)
{
	struct msg_hello_reply reply = { .protocol = PROTOCOL_VERSION + _i,
		.frameMax = FRAME_MAX };
	struct buf b = { 0 };
	struct host h;

	open_on(&h, event_base_new(), ROLE_WORKER, ROLE_BROKER);
	ck_assert_int_eq(link_hello(h.link, "a worker"), 0);
	/* Not from within link_hello(). */
	ck_assert_uint_eq(peer_read(&h, NULL), 0);
	turn(&h);
	ck_assert_uint_gt(peer_read(&h, NULL), 0);
	protocol_reply(&b, MSG_hello_reply, 1, &reply);
	peer_write(&h, b.p, b.n);
	if (_i == 0) {
		turn_until(&h, &h.messages, 1);
		ck_assert_int_eq(h.last, MSG_hello_reply);
		ck_assert_int_eq(link_get_state(h.link), LINK_READY);
	} else {
		turn_until(&h, &h.ended, 1);
		ck_assert_str_eq(h.rule, "another protocol version: copy the SDK again");
	}
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

/* ---- frames ------------------------------------------------------------------------------ */

START_TEST(frames_arrive_byte_by_byte)
{
	struct buf b = { 0 };
	struct host h;
	size_t i;

	host_open(&h);
	add_hello(&b, PROTOCOL_VERSION);
	add_outputs(&b, 3);
	for (i = 0; i < b.n; i++) {
		peer_write(&h, b.p + i, 1);
		turn(&h);
	}
	ck_assert_uint_eq(h.messages, 4);
	ck_assert_uint_eq(h.sum, 3);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(many_frames_in_one_write_arrive_in_one_turn)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	add_outputs(&b, 200);
	ck_assert_uint_lt(b.n, 16 << 10);
	peer_write(&h, b.p, b.n);
	turn(&h);
	ck_assert_uint_eq(h.messages, 200);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(frames_of_every_size_arrive_whole)
{
	static const size_t sizes[] = { 1, 100, 4096, 16384, 40000, OUTPUT_CHUNK_MAX };
	static uint8_t bytes[OUTPUT_CHUNK_MAX];
	struct buf b = { 0 };
	uint64_t sum = 0;
	struct host h;
	size_t i, round, sent = 0;
	ssize_t n;

	memset(bytes, 1, sizeof bytes);
	host_open_ready(&h);
	for (round = 0; round < 20; round++)
		for (i = 0; i < countof(sizes); i++) {
			add_output(&b, bytes, sizes[i]);
			sum += sizes[i];
		}
	while (sent < b.n) {
		n = write(h.peer, b.p + sent, b.n - sent);
		if (n > 0)
			sent += (size_t)n;
		turn(&h);
	}
	turn_until(&h, &h.messages, 20 * countof(sizes));
	ck_assert_uint_eq(h.sum, sum);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(the_largest_frame_arrives_and_small_ones_after_it)
{
	struct buf b = { 0 }, value = { 0 };
	static const char zeroes[RESULT_MAX];
	struct msg_tool_call call = { .call = slice_of("c"), .tool = slice_of("t"),
		.arguments = { (const uint8_t *)"\x80", 1 }, .action = slice_of("a"),
		.namespace = slice_of("n"), .path = { (const uint8_t *)"\x90", 1 } };
	struct msg_tool_call_reply reply = { .callId = slice_of("c"), .has_output = true };
	uint32_t msgid;
	struct host h;
	size_t sent = 0, i;
	ssize_t n;

	open_on(&h, event_base_new(), ROLE_BROKER, ROLE_PROVIDER);
	link_set_state(h.link, LINK_READY);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(link_request(h.link, MSG_tool_call, &call, &msgid), 0);
		value.n = 0;
		pack_bin(&value, zeroes, i == 1 ? 10 : sizeof zeroes - 5);
		reply.output = (struct slice) { value.p, value.n };
		ck_assert_int_eq(protocol_reply(&b, MSG_tool_call_reply, msgid, &reply), 0);
	}
	while (sent < b.n) {
		n = write(h.peer, b.p + sent, b.n - sent);
		if (n > 0)
			sent += (size_t)n;
		turn(&h);
	}
	turn_until(&h, &h.messages, 3);
	buf_finish(&b);
	buf_finish(&value);
	host_finish(&h);
}
END_TEST

static const struct {
	const char *bytes;
	size_t n;
	const char *rule;
} broken[] = {
	{ "\0\0\0\0", 4, "frame length" },
	{ "\0\x10\0\1", 4, "frame length" },
	{ "\xff\xff\xff\xff", 4, "frame length" },
	{ "\0\0\0\5\xdd\x10\0\0\0", 9, "truncated value" },
	{ "\0\0\0\1\xc1", 5, "byte c1" },
	{ "\0\0\0\x0a\x93\x02\xa4what\x91\x80\xc0", 14, "bytes left over" },
	{ "\0\0\0\x09\x93\x02\xa4what\x91\x80", 13, "unknown method" },
	{ "\0\0\0\x05\x94\x01\x07\xc0\x80", 9, "reply to nothing" },
	{ "GET / HTTP/1.1\r\n\r\n", 18, "frame length" },
};

START_TEST(a_malformed_frame_ends_the_link_and_what_came_before_it_counts)
{
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	add_outputs(&b, 2);
	buf_add(&b, broken[_i].bytes, broken[_i].n);
	add_outputs(&b, 2);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_uint_eq(h.messages, 2);
	ck_assert_int_eq(h.end, LINK_END_FAULT);
	ck_assert_str_eq(h.rule, broken[_i].rule);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(a_request_is_answered_once)
{
	struct msg_operation_run m = { .operation = slice_of("op"),
		.executionId = slice_of("e"),
		.agent = slice_of("a:b"),
		.message = { (const uint8_t *)"\xc0", 1 },
		.tools = { (const uint8_t *)"\x90", 1 },
		.context = { (const uint8_t *)"\x80", 1 } };
	struct msg_operation_run_reply reply = { .status = outcome_status_complete };
	uint32_t first, second;
	struct buf b = { 0 };
	struct host h;

	host_open_ready(&h);
	ck_assert_int_eq(link_request(h.link, MSG_operation_run, &m, &first), 0);
	ck_assert_int_eq(link_request(h.link, MSG_operation_run, &m, &second), 0);
	ck_assert_uint_ne(first, second);
	/* Out of order. */
	protocol_reply(&b, MSG_operation_run_reply, second, &reply);
	protocol_refuse(&b, first, "failed", "", false);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.messages, 2);
	ck_assert_int_eq(h.last, MSG_operation_run_reply);
	ck_assert_uint_eq(h.last_msgid, first);
	peer_write(&h, b.p, b.n);
	turn_until(&h, &h.ended, 1);
	ck_assert_str_eq(h.rule, "reply to nothing");
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

START_TEST(descriptors_that_nobody_asked_for_are_discarded)
{
	struct buf b = { 0 };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} cmsg = { .bytes = { 0 } };
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = cmsg.bytes,
		.msg_controllen = sizeof cmsg.bytes };
	struct host h;
	unsigned before, i;
	int fd;

	host_open_ready(&h);
	add_outputs(&b, 1);
	iov = (struct iovec) { b.p, b.n };
	turn(&h);
	before = open_descriptors();
	for (i = 1; i <= 20; i++) {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		cmsg.align = (struct cmsghdr) { CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&cmsg.align), &fd, sizeof fd);
		ck_assert_int_eq(sendmsg(h.peer, &msg, 0), (ssize_t)b.n);
		close(fd);
		turn_until(&h, &h.messages, i);
	}
	ck_assert_uint_eq(open_descriptors(), before);
	buf_finish(&b);
	host_finish(&h);
}
END_TEST

/* ---- open requests ----------------------------------------------------------------------- */

START_TEST(an_empty_inbox_gives_its_buffer_to_the_next)
{
	const uint8_t half[] = { 0, 0, 0, 2, 'a' };
	struct inbox a = { NULL }, b = { NULL };
	struct slice frame;
	uint8_t *first, *p;
	size_t room;

	ck_assert_int_eq(inbox_room(&a, &first, &room), 0);
	memcpy(first, half, sizeof(half));
	inbox_filled(&a, sizeof(half), room);
	ck_assert_int_eq(inbox_take(&a, &frame), 0);
	inbox_rest(&a); /* half a frame is not let go */
	ck_assert(inbox_holds(&a));
	ck_assert_int_eq(inbox_room(&a, &p, &room), 0);
	*p = 'b';
	inbox_filled(&a, 1, room);
	ck_assert_int_eq(inbox_take(&a, &frame), 1);
	ck_assert_uint_eq(frame.n, 2);
	ck_assert_mem_eq(frame.p, "ab", 2);
	inbox_rest(&a);
	ck_assert_ptr_null(a.p);
	ck_assert_int_eq(inbox_room(&b, &p, &room), 0);
	ck_assert_ptr_eq(p, first);
	ck_assert_int_eq(inbox_room(&a, &p, &room), 0); /* and another is made */
	ck_assert_ptr_ne(p, first);
	inbox_finish(&a);
	inbox_finish(&b);
}
END_TEST

START_TEST(open_requests_are_found_added_and_removed)
{
	struct pending p = { 0 };
	int model[512];
	uint32_t seed = 1;
	unsigned i, id, n = 0;

	memset(model, -1, sizeof model);
	ck_assert_int_eq(pending_get(&p, 5), -1);
	pending_remove(&p, 5);
	for (i = 0; i < 200000; i++) {
		seed = seed * 1664525 + 1013904223;
		/* Few home slots: long runs that wrap around. */
		id = (seed >> 8) % countof(model);
		if (model[id] < 0 && (seed & 3) != 0) {
			ck_assert_int_eq(pending_reserve(&p), 0);
			pending_add(&p, id * 64, (int)(seed >> 24));
			model[id] = (int)(seed >> 24);
			n++;
		} else {
			n -= model[id] >= 0;
			pending_remove(&p, id * 64);
			model[id] = -1;
		}
		id = (seed >> 4) % countof(model);
		ck_assert_int_eq(pending_get(&p, id * 64), model[id]);
		ck_assert_uint_eq(p.n, n);
	}
	for (id = 0; id < countof(model); id++)
		ck_assert_int_eq(pending_get(&p, id * 64), model[id]);
	pending_finish(&p);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("link");
	TCase *hello = tcase_create("hello"), *frames = tcase_create("frames");
	TCase *moods = tcase_create("moods");
	TCase *cases[] = { hello, frames, moods };
	SRunner *runner;
	size_t i;
	int failed;

	tcase_add_test(hello, hello_is_answered_by_the_link_and_heard_by_its_owner);
	tcase_add_test(hello, another_version_is_a_fault);
	tcase_add_test(hello, nothing_comes_before_hello);
	tcase_add_loop_test(hello, the_side_that_says_hello_is_ready_with_its_answer, 0, 2);
	tcase_add_test(frames, frames_arrive_byte_by_byte);
	tcase_add_test(frames, many_frames_in_one_write_arrive_in_one_turn);
	tcase_add_test(frames, frames_of_every_size_arrive_whole);
	tcase_add_test(frames, the_largest_frame_arrives_and_small_ones_after_it);
	tcase_add_loop_test(frames,
	    a_malformed_frame_ends_the_link_and_what_came_before_it_counts, 0,
	    (int)countof(broken));
	tcase_add_test(frames, a_request_is_answered_once);
	tcase_add_test(frames, descriptors_that_nobody_asked_for_are_discarded);
	tcase_add_test(moods, an_empty_inbox_gives_its_buffer_to_the_next);
	tcase_add_test(moods, open_requests_are_found_added_and_removed);
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
