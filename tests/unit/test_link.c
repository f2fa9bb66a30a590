/* Links against peers of every kind.  A peer is a plain descriptor: what it does is bytes. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/inbox.h"
#include "common/link.h"
#include "common/pending.h"
#include "common/util.h"
#include "common/walk.h"

#define TURNS_MAX 200000 /* a test that needs more hangs */

/* The broker's end of a link to a worker, and the bare other end. */
struct host {
	struct event_base *base;
	struct link *link;
	int peer;
	unsigned messages, ended, drained, depth;
	enum msg_type last;
	uint32_t last_msgid;
	uint64_t sum; /* of the bytes of output.write */
	enum link_end end;
	char rule[64];
	int error;
	void (*then)(struct host *h, const struct message *m);
	struct host *other;
};

static void
on_message(struct link *l, const struct message *m, void *arg)
{
	struct host *h = arg;
	size_t i;

	ck_assert_ptr_eq(l, h->link);
	ck_assert_uint_eq(h->ended, 0);
	ck_assert_uint_eq(h->depth++, 0);
	h->messages++;
	h->last = m->type;
	h->last_msgid = m->msgid;
	if (m->type == MSG_output_write)
		for (i = 0; i < m->u.output_write.data.n; i++)
			h->sum += m->u.output_write.data.p[i];
	if (h->then != NULL)
		h->then(h, m);
	h->depth--;
}

static void
on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct host *h = arg;

	ck_assert_ptr_eq(h->link, l);
	ck_assert_int_eq(fault != NULL, end == LINK_END_FAULT);
	h->ended++;
	h->end = end;
	h->error = error;
	if (fault != NULL)
		snprintf(h->rule, sizeof h->rule, "%s", fault->rule);
	/* Nothing may bring it back. */
	link_close(l);
	link_resume(l);
	link_watch(l, 0);
	ck_assert_int_eq(link_notify(l, MSG_operation_drain, NULL), -EPIPE);
	h->link = NULL;
}

static void
on_drained(struct link *l, void *arg)
{
	(void)l;
	((struct host *)arg)->drained++;
}

static const struct link_handler handler = {
	.on_message = on_message,
	.on_end = on_end,
	.on_drained = on_drained,
};

static void
open_on(struct host *h, struct event_base *base, enum role self, enum role peer)
{
	int fds[2];

	*h = (struct host) { .base = base };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	h->peer = fds[1];
	h->link = link_open(base, fds[0], self, peer, &handler, h);
	ck_assert_ptr_nonnull(h->link);
}

static void
host_open(struct host *h)
{
	open_on(h, event_base_new(), ROLE_BROKER, ROLE_WORKER);
}

static void
host_open_ready(struct host *h)
{
	host_open(h);
	link_set_state(h->link, LINK_READY);
}

/* One turn of the loop; waits for nothing. */
static void
turn(struct host *h)
{
	event_base_loop(h->base, EVLOOP_NONBLOCK);
}

static void
turn_until(struct host *h, const unsigned *counter, unsigned value)
{
	unsigned turns = 0;

	while (*counter < value) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		event_base_loop(h->base, EVLOOP_ONCE);
	}
	ck_assert_uint_eq(*counter, value);
}

static void
host_finish(struct host *h)
{
	if (h->link != NULL) {
		link_close(h->link);
		turn_until(h, &h->ended, 1);
	}
	ck_assert_uint_eq(h->ended, 1);
	if (h->peer >= 0)
		close(h->peer);
	event_base_free(h->base);
}

static void
peer_write(struct host *h, const void *p, size_t n)
{
	ck_assert_int_eq(write(h->peer, p, n), (ssize_t)n);
}

/* Reads all that is there. */
static size_t
peer_read(struct host *h, struct buf *b)
{
	uint8_t bytes[65536];
	size_t total = 0;
	ssize_t n;

	while ((n = read(h->peer, bytes, sizeof bytes)) > 0) {
		if (b != NULL)
			buf_add(b, bytes, (size_t)n);
		total += (size_t)n;
	}
	return total;
}

static void
add_hello(struct buf *b, uint32_t version)
{
	struct msg_hello m = { .protocol = version };

	ck_assert_int_eq(protocol_request(b, MSG_hello, 1, &m), 0);
}

static void
add_output(struct buf *b, const void *p, size_t n)
{
	struct msg_output_write m = { .operation = slice_of("op"), .data = { p, n } };

	ck_assert_int_eq(protocol_notify(b, MSG_output_write, &m), 0);
}

static void
add_outputs(struct buf *b, unsigned n)
{
	while (n-- > 0)
		add_output(b, "\x01", 1);
}

static int
drain(struct link *l)
{
	struct msg_operation_drain m = { .operation = slice_of("op"), .graceMs = 5 };

	return link_notify(l, MSG_operation_drain, &m);
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

static void
fill_queue(struct host *h, size_t bytes)
{
	while (link_queued(h->link) < bytes)
		ck_assert_int_eq(drain(h->link), 0);
	turn(h);
	ck_assert_uint_gt(link_queued(h->link), 0);
}

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

static unsigned writes;

static ssize_t
counting_write(int fd, const void *p, size_t n)
{
	writes++;
	return send(fd, p, n, MSG_NOSIGNAL);
}

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
	TCase *end = tcase_create("end"), *flow = tcase_create("flow");
	TCase *moods = tcase_create("moods");
	TCase *cases[] = { hello, frames, end, flow, moods };
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
	tcase_add_test(flow, a_paused_link_holds_back_what_it_has_read);
	tcase_add_test(flow, pausing_and_resuming_in_the_handler_loses_nothing);
	tcase_add_test(flow, a_paused_link_still_writes_and_can_be_closed);
	tcase_add_test(flow, the_owner_hears_once_that_the_queue_has_drained);
	tcase_add_test(flow, what_a_turn_queues_leaves_in_that_turn_with_one_write_a_link);
	tcase_add_test(moods, short_and_interrupted_calls_lose_nothing);
	tcase_add_test(moods, an_error_of_the_system_ends_the_link);
	tcase_add_test(moods, a_peer_that_stopped_reading_is_still_heard);
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
