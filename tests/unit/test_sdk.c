/*
 * The C runtime library against the codec that the broker uses: nothing that arrives makes it
 * read beyond what it was given.
 */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/sdk/caisson.h"

static struct caisson *sdk;
static int peer = -1; /* the broker's end */
static uint8_t frame_bytes[FRAME_MAX];

static void
give(struct buf *b)
{
	size_t at = 0;

	ck_assert(!b->failed);
	while (at < b->n) {
		ssize_t r = write(peer, b->p + at, b->n - at);

		ck_assert_int_gt(r, 0);
		at += (size_t)r;
	}
	buf_finish(b);
}

static void
take_bytes(uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t r = read(peer, p, n);

		ck_assert_int_gt(r, 0);
		p += r;
		n -= (size_t)r;
	}
}

static int
pending_run(void *arg, uint32_t msgid)
{
	(void)arg;
	return msgid == 7 ? MSG_operation_run : -1;
}

/* The next frame of the runtime's, by the broker's own rules. */
static struct message
taken(enum link_state state)
{
	struct message m;
	struct fault fault = { 0 };
	uint8_t head[4];
	size_t n;

	take_bytes(head, 4);
	n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	ck_assert_uint_le(n, FRAME_MAX);
	take_bytes(frame_bytes, n);
	ck_assert_msg(protocol_decode(frame_bytes, n, ROLE_WORKER, ROLE_BROKER, state,
			  pending_run, NULL, &m, &fault) == 0,
	    "%s %s", fault.rule, fault.field != NULL ? fault.field : "");
	return m;
}

static struct slice
packed_map(struct buf *b)
{
	pack_map(b, 1);
	pack_str(b, "path");
	pack_str(b, "docs");
	return (struct slice){ b->p, b->n };
}

static void
give_run(void)
{
	struct buf b = { 0 }, map = { 0 }, list = { 0 };
	struct msg_operation_run m = {
		.operation = slice_of("op-1"),
		.executionId = slice_of("e-1"),
		.agent = slice_of("agent:test"),
		.maxSteps = 16,
		.maxToolCalls = 32,
		.timeoutMs = 1000,
	};

	m.message = m.context = packed_map(&map);
	pack_array(&list, 0);
	m.tools = (struct slice){ list.p, list.n };
	ck_assert_int_eq(protocol_request(&b, MSG_operation_run, 7, &m), 0);
	give(&b);
	buf_finish(&map);
	buf_finish(&list);
}

static void
give_result(uint32_t msgid, enum call_status status, uint64_t number)
{
	struct buf b = { 0 }, v = { 0 };
	struct msg_tool_invoke_reply m = {
		.callId = slice_of("c"),
		.tool = slice_of("t"),
		.status = status,
		.has_output = status == call_status_succeeded,
		.has_error = status != call_status_succeeded,
		.error = { slice_of("no_matching_grant"), slice_of("no"), true, { NULL, 0 } },
	};

	pack_uint(&v, number);
	m.output = (struct slice){ v.p, v.n };
	ck_assert_int_eq(protocol_reply(&b, MSG_tool_invoke_reply, msgid, &m), 0);
	give(&b);
	buf_finish(&v);
}

static void
connect_peer(void)
{
	char text[16];
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	peer = fd[0];
	(void)snprintf(text, sizeof text, "%d", fd[1]);
	ck_assert_int_eq(setenv("CAISSON_LINK_FD", text, 1), 0);
}

/* A link on which a turn is open. */
static void
setup(void)
{
	struct msg_hello_reply hello = { .protocol = PROTOCOL_VERSION, .frameMax = FRAME_MAX };
	struct caisson_turn turn;
	struct buf b = { 0 };

	connect_peer();
	ck_assert_int_eq(protocol_reply(&b, MSG_hello_reply, 1, &hello), 0);
	give(&b);
	ck_assert_int_eq(caisson_open(&sdk), 0);
	ck_assert_int_eq(taken(LINK_NEW).type, MSG_hello);
	give_run();
	ck_assert_int_eq(caisson_next_turn(sdk, &turn), 0);
	ck_assert(caisson_is(caisson_get(turn.message, "path"), "docs"));
	ck_assert(caisson_is(turn.agent, "agent:test"));
	ck_assert_uint_eq(turn.max_tool_calls, 32);
	ck_assert_uint_eq(turn.timeout_ms, 1000);
}

static void
teardown(void)
{
	caisson_close(sdk);
	sdk = NULL;
	if (peer >= 0)
		close(peer);
}

static uint32_t
start(const char *tool)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	uint32_t call = 0;

	caisson_put_map(&w, 1);
	caisson_put_str(&w, "path");
	caisson_put_str(&w, "docs/a");
	ck_assert_int_eq(caisson_call_start(sdk, tool, &w, &call), 0);
	caisson_writer_finish(&w);
	return call;
}

/* ---- a turn -------------------------------------------------------------------------- */

START_TEST(results_may_come_out_of_order)
{
	struct caisson_result r;
	uint32_t a = start("t.a"), b = start("t.b"), c = start("t.c");

	ck_assert(slice_is(taken(LINK_BUSY).u.tool_invoke.tool, "t.a"));
	(void)taken(LINK_BUSY);
	(void)taken(LINK_BUSY);
	give_result(c, call_status_succeeded, 3);
	give_result(a, call_status_succeeded, 1);
	give_result(b, call_status_denied, 0);
	ck_assert_int_eq(caisson_call_wait(sdk, a, &r), 0);
	ck_assert_uint_eq(caisson_uint(r.output), 1);
	caisson_result_finish(&r);
	ck_assert_int_eq(caisson_call_wait(sdk, 0, &r), 0);
	ck_assert_uint_eq(r.call, c);
	caisson_result_finish(&r);
	ck_assert_int_eq(caisson_call_wait(sdk, b, &r), 0);
	ck_assert_int_eq(r.status, CAISSON_DENIED);
	ck_assert(caisson_is(r.code, "no_matching_grant") && r.retryable);
	caisson_result_finish(&r);
	ck_assert_int_eq(caisson_call_wait(sdk, 0, &r), -EINVAL);
}
END_TEST

START_TEST(an_outcome_ends_the_turn_and_the_next_one_is_clean)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_turn turn;
	struct message m;
	uint32_t late = start("t.late"), call;

	(void)taken(LINK_BUSY);
	caisson_put_str(&w, "done");
	ck_assert_int_eq(caisson_complete(sdk, &w), 0);
	m = taken(LINK_BUSY);
	ck_assert_int_eq(m.type, MSG_operation_run_reply);
	ck_assert_int_eq(m.u.operation_run_reply.status, outcome_status_complete);
	ck_assert_int_eq(caisson_complete(sdk, &w), -EINVAL);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EINVAL);
	give_result(late, call_status_succeeded, 1);
	give_run();
	ck_assert_int_eq(caisson_next_turn(sdk, &turn), 0);
	ck_assert_uint_gt(start("t.new"), late);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(a_turn_can_fail_and_escalate)
{
	struct caisson_turn turn;
	struct message m;

	ck_assert_int_eq(caisson_fail(sdk, "bad_day", "nothing worked"), 0);
	m = taken(LINK_BUSY);
	ck_assert_int_eq(m.u.operation_run_reply.status, outcome_status_fail);
	ck_assert(slice_is(m.u.operation_run_reply.error.code, "bad_day"));
	give_run();
	ck_assert_int_eq(caisson_next_turn(sdk, &turn), 0);
	ck_assert_int_eq(caisson_escalate(sdk, "may I?"), 0);
	m = taken(LINK_BUSY);
	ck_assert_int_eq(m.u.operation_run_reply.status, outcome_status_escalate);
	ck_assert(slice_is(m.u.operation_run_reply.reason, "may I?"));
}
END_TEST

START_TEST(a_request_refused_as_a_whole_is_EPERM)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct buf b = { 0 };

	caisson_put_str(&w, "x");
	ck_assert_int_eq(
	    protocol_refuse(&b, 2, "failed_precondition", "host is closed", false), 0);
	give(&b);
	ck_assert_int_eq(caisson_emit(sdk, "note", &w), -EPERM);
	ck_assert_int_eq(taken(LINK_BUSY).type, MSG_event_emit);
	b = (struct buf){ 0 };
	ck_assert_int_eq(protocol_reply(&b, MSG_turn_annotate_reply, 3,
			     &(struct msg_turn_annotate_reply){ 0 }),
	    0);
	give(&b);
	ck_assert_int_eq(caisson_annotate(sdk, "key", &w), 0);
	ck_assert_int_eq(taken(LINK_BUSY).type, MSG_turn_annotate);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(drain_is_seen_and_cancel_ends_every_wait)
{
	struct msg_operation_drain drain = { .operation = slice_of("op-1"), .graceMs = 5 };
	struct msg_operation_abort abort_m = { .operation = slice_of("op-1"),
		.cause = slice_of("deadline") };
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_result r;
	struct buf b = { 0 };
	uint32_t call = start("t.slow"), other;

	ck_assert_uint_eq(caisson_state(sdk), 0);
	ck_assert_int_eq(protocol_notify(&b, MSG_operation_drain, &drain), 0);
	give(&b);
	ck_assert_uint_eq(caisson_state(sdk), CAISSON_DRAINING);
	b = (struct buf){ 0 };
	ck_assert_int_eq(protocol_notify(&b, MSG_operation_abort, &abort_m), 0);
	give(&b);
	ck_assert_int_eq(caisson_call_wait(sdk, call, &r), -ECANCELED);
	caisson_put_map(&w, 0);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &other), -ECANCELED);
	ck_assert_uint_eq(caisson_state(sdk), CAISSON_DRAINING | CAISSON_CANCELLED);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(who_only_looks_never_waits_for_the_rest_of_a_frame)
{
	struct msg_operation_drain drain = { .operation = slice_of("op-1"), .graceMs = 5 };
	struct buf whole = { 0 }, b = { 0 };
	size_t i;

	ck_assert_int_eq(protocol_notify(&whole, MSG_operation_drain, &drain), 0);
	for (i = 0; i < whole.n; i++) {
		ck_assert_uint_eq(caisson_state(sdk), 0);
		b = (struct buf){ 0 };
		buf_add(&b, whole.p + i, 1);
		give(&b);
	}
	ck_assert_uint_eq(caisson_state(sdk), CAISSON_DRAINING);
	buf_finish(&whole);
}
END_TEST

static const struct {
	const char *name, *value; /* packed */
	size_t n;
	bool fits;
} claims[] = {
	{ "step", "\x03", 1, true },
	{ "step", "\xff", 1, false },				    /* negative */
	{ "step", "\xcb\0\0\0\0\0\0\0\0", 9, false },		    /* fractional */
	{ "step", "\xcf\0\0\0\1\0\0\0\0", 9, false },		    /* beyond 32 bits */
	{ "idempotencyKey", "\xa3key", 4, true },
	{ "idempotencyKey", "\xa0", 1, false },			    /* empty */
	{ "idempotencyKey", "\xa2k\0", 3, false },			    /* a NUL */
	{ "idempotencyKey", "\x07", 1, false },			    /* no text */
	{ "idempotencyKey", "\xa3ke", 3, false },			    /* cut short */
	{ "grant", "\xa1g", 2, false },				    /* nobody's */
};

START_TEST(a_call_may_claim_a_step_and_a_key_within_their_bounds)
{
	struct caisson_option o = { claims[_i].name,
		{ (const uint8_t *)claims[_i].value, claims[_i].n } };
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct message m;
	uint32_t call;

	caisson_put_map(&w, 0);
	ck_assert_int_eq(caisson_start_with(sdk, CAISSON_INVOKE, "t", &w, &o, 1, &call),
	    claims[_i].fits ? 0 : -EMSGSIZE);
	caisson_writer_finish(&w);
	if (!claims[_i].fits)
		return;
	m = taken(LINK_BUSY);
	ck_assert_int_eq(m.type, MSG_tool_invoke);
	ck_assert_int_eq(m.u.tool_invoke.has_step, strcmp(o.name, "step") == 0);
	ck_assert_int_eq(m.u.tool_invoke.has_idempotencyKey, strcmp(o.name, "step") != 0);
}
END_TEST

START_TEST(a_drain_of_another_operation_is_none_of_ours)
{
	struct msg_operation_drain drain = { .operation = slice_of("op-2"), .graceMs = 5 };
	struct buf b = { 0 };

	ck_assert_int_eq(protocol_notify(&b, MSG_operation_drain, &drain), 0);
	give(&b);
	ck_assert_uint_eq(caisson_state(sdk), 0);
}
END_TEST

START_TEST(what_is_over_its_bound_is_not_sent)
{
	static char big[800 << 10];
	struct caisson_writer w = { NULL, 0, 0, 0 };
	uint32_t call;

	caisson_put_map(&w, 1);
	caisson_put_str(&w, "x");
	caisson_put_bin(&w, big, sizeof big);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EMSGSIZE);
	ck_assert_int_eq(caisson_emit(sdk, "t", &w), -EMSGSIZE);
	ck_assert_int_eq(caisson_annotate(sdk, "t", &w), -EMSGSIZE);
	ck_assert_int_eq(caisson_complete(sdk, &w), -EMSGSIZE);
	caisson_writer_finish(&w);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EINVAL);
	caisson_put_map(&w, 0);
	ck_assert_int_eq(caisson_call_start(sdk, "", &w, &call), -EINVAL);
	ck_assert_int_eq(caisson_complete(sdk, &w), 0);
	ck_assert_int_eq(taken(LINK_BUSY).type, MSG_operation_run_reply);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(what_is_not_one_value_is_not_sent)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	uint32_t call;
	unsigned i;

	caisson_put_map(&w, 1);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EMSGSIZE);
	caisson_put_str(&w, "x");
	for (i = 0; i < 24; i++)
		caisson_put_array(&w, 1);
	caisson_put_nil(&w);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EMSGSIZE);
	caisson_writer_finish(&w);
	caisson_put_array(&w, 0);
	ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), -EINVAL); /* no map */
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(the_end_of_the_link_is_EPIPE)
{
	struct caisson_result r;
	uint32_t call = start("t.lost");

	close(peer);
	peer = -1;
	ck_assert_int_eq(caisson_call_wait(sdk, call, &r), -EPIPE);
}
END_TEST

static const struct {
	const char *bytes;
	size_t n;
} garbage[] = {
#define G(s)                                                                                   \
	{                                                                                      \
		s, sizeof(s) - 1                                                               \
	}
	G("\xff\xff\xff\xff"),			    /* 4 GiB */
	G("\x00\x00\x00\x01\xc1"),		    /* no type */
	G("\x00\x00\x00\x05\xdd\xff\xff\xff\xff"),  /* 2^32 elements */
	G("\x00\x00\x00\x02\x90\xc0"),		    /* bytes left over */
	G("\x00\x00\x00\x01\x90"),		    /* nothing in it */
	G("\x00\x00\x00\x05\x93\x02\xa1x\x90"),	    /* no params */
	G("\x00\x00\x00\x06\x93\x02\xa1x\x91\x80"), /* unknown method */
	G("\x00\x00\x00\x24\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91"
	  "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0"),
#undef G
};

START_TEST(garbage_is_EPROTO)
{
	struct buf b = { 0 };
	struct caisson_result r;
	uint32_t call = start("t");

	buf_add(&b, garbage[_i].bytes, garbage[_i].n);
	give(&b);
	ck_assert_int_eq(caisson_call_wait(sdk, call, &r), -EPROTO);
}
END_TEST

#define FLOOD 24

/* Writes large results before it reads a single call. */
static void *
flood(void *arg)
{
	static uint8_t result[512 << 10];
	struct buf b = { 0 }, v = { 0 };
	struct msg_tool_invoke_reply m = {
		.callId = slice_of("c"), .tool = slice_of("t"), .has_output = true
	};
	uint32_t i;

	(void)arg;
	pack_bin(&v, result, sizeof result);
	m.output = (struct slice){ v.p, v.n };
	for (i = 0; i < FLOOD; i++) {
		ck_assert_int_eq(protocol_reply(&b, MSG_tool_invoke_reply, 2 + i, &m), 0);
		give(&b);
	}
	for (i = 0; i < FLOOD; i++)
		ck_assert_int_eq(taken(LINK_BUSY).type, MSG_tool_invoke);
	buf_finish(&v);
	return NULL;
}

START_TEST(two_full_sockets_do_not_block_each_other)
{
	static char big[200 << 10];
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_result r;
	pthread_t thread;
	uint32_t call, i;

	caisson_put_map(&w, 1);
	caisson_put_str(&w, "x");
	caisson_put_bin(&w, big, sizeof big);
	ck_assert_int_eq(pthread_create(&thread, NULL, flood, NULL), 0);
	for (i = 0; i < FLOOD; i++)
		ck_assert_int_eq(caisson_call_start(sdk, "t", &w, &call), 0);
	for (i = 0; i < FLOOD; i++) {
		ck_assert_int_eq(caisson_call_wait(sdk, 2 + i, &r), 0);
		caisson_result_finish(&r);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	caisson_writer_finish(&w);
}
END_TEST

START_TEST(without_a_link_there_is_nothing_to_open)
{
	struct caisson *c = NULL;

	ck_assert_int_eq(unsetenv("CAISSON_LINK_FD"), 0);
	ck_assert_int_eq(caisson_open(&c), -EBADF);
	connect_peer();
	close(peer);
	peer = -1;
	ck_assert_int_eq(caisson_open(&c), -EPIPE);
}
END_TEST

static Suite *
sdk_suite(void)
{
	Suite *s = suite_create("sdk");
	TCase *turn = tcase_create("turn"),
	      *none = tcase_create("no link");

	tcase_add_checked_fixture(turn, setup, teardown);
	tcase_set_timeout(turn, 30);
	tcase_add_test(turn, results_may_come_out_of_order);
	tcase_add_test(turn, an_outcome_ends_the_turn_and_the_next_one_is_clean);
	tcase_add_test(turn, a_turn_can_fail_and_escalate);
	tcase_add_test(turn, a_request_refused_as_a_whole_is_EPERM);
	tcase_add_test(turn, drain_is_seen_and_cancel_ends_every_wait);
	tcase_add_test(turn, who_only_looks_never_waits_for_the_rest_of_a_frame);
	tcase_add_loop_test(turn, a_call_may_claim_a_step_and_a_key_within_their_bounds, 0,
	    (int)countof(claims));
	tcase_add_test(turn, a_drain_of_another_operation_is_none_of_ours);
	tcase_add_test(turn, what_is_over_its_bound_is_not_sent);
	tcase_add_test(turn, what_is_not_one_value_is_not_sent);
	tcase_add_test(turn, the_end_of_the_link_is_EPIPE);
	tcase_add_loop_test(turn, garbage_is_EPROTO, 0, (int)countof(garbage));
	tcase_add_test(turn, two_full_sockets_do_not_block_each_other);
	tcase_add_test(none, without_a_link_there_is_nothing_to_open);
	suite_add_tcase(s, turn);
	suite_add_tcase(s, none);
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
