/*
 * world_children: worker and provider of a world (world.h): loops over frames that were packed
 * before.
 */
#ifndef TESTS_BENCH_WORLD_CHILDREN_H
#define TESTS_BENCH_WORLD_CHILDREN_H

#include <signal.h>
#include <sys/prctl.h>

#include "common/link.h"
#include "common/walk.h"
#include "tests/bench/wire.h"
#include "tests/bench/world_types.h"

/* ---- frames ----------------------------------------------------------------------------- */

static void
say_hello(int fd)
{
	struct msg_hello m = { .protocol = PROTOCOL_VERSION };
	struct buf b = { 0 };

	if (protocol_request(&b, MSG_hello, 1, &m) < 0)
		die("hello");
	send_buf(fd, &b);
	receive(fd, &b);
	buf_finish(&b);
}

/* ---- the worker -------------------------------------------------------------------------- */

/* One tool.invoke whose message id and call id are patched before each use. */
struct invocation {
	struct buf frame;
	size_t msgid, id; /* where they stand */
};

static void
invocation_init(struct invocation *i, struct slice operation, size_t payload)
{
	struct buf arguments = { 0 };
	struct msg_tool_invoke m = { .operation = operation, .id = slice_of("call-00000000"),
		.tool = slice_of("files.read") };
	char *data = malloc(payload + 1);

	memset(data, 'x', payload);
	pack_map(&arguments, 2);
	pack_str(&arguments, "data");
	pack_str_n(&arguments, data, payload);
	pack_str(&arguments, "path");
	pack_str(&arguments, "docs/report.txt");
	m.arguments = buf_slice(&arguments);
	*i = (struct invocation){ 0 };
	if (protocol_request(&i->frame, MSG_tool_invoke, FIRST_ID, &m) < 0)
		die("invoke");
	i->msgid = 4 + 2 + 1;
	i->id = (size_t)((uint8_t *)memmem(i->frame.p, i->frame.n, "call-0000", 9) -
	    i->frame.p) + 5;
	buf_finish(&arguments);
	free(data);
}

static void
invocation_set(struct invocation *i, uint32_t n)
{
	put_u32(i->frame.p + i->msgid, FIRST_ID + n);
	for (int d = 7; d >= 0; d--, n /= 10)
		i->frame.p[i->id + (size_t)d] = (uint8_t)('0' + n % 10);
}

/* Only a call that succeeded counts. */
static void
check_reply(const struct buf *reply)
{
	if (memmem(reply->p, reply->n < 200 ? reply->n : 200, "succeeded", 9) == NULL) {
		fprintf(stderr, "bench: a call failed: %.*s\n",
		    (int)(reply->n < 300 ? reply->n : 300), (const char *)reply->p);
		_exit(1);
	}
}

/* Reads whole frames as they come: at least one read(2), and mostly one. */
static size_t
read_frame(int fd, uint8_t *p, size_t cap)
{
	size_t n = 0;
	ssize_t r;

	while (n < 4 || n < 4 + get_u32(p)) {
		r = read(fd, p + n, cap - n);
		if (r <= 0)
			_exit(0);
		n += (size_t)r;
	}
	return n;
}

static void
run_one_by_one(int fd, struct run *run, struct invocation *i)
{
	struct buf reply = { 0 };
	uint64_t begun, start = 0;

	buf_room(&reply, FRAME_MAX);
	for (uint32_t n = 0; n < run->calls; n++) {
		begun = now_ns();
		if (n == run->warm)
			start = begun;
		invocation_set(i, n);
		write_all(fd, i->frame.p, i->frame.n);
		reply.n = read_frame(fd, reply.p, reply.cap);
		if (n == 0)
			check_reply(&reply);
		run->ns[n] = (uint32_t)(now_ns() - begun);
	}
	check_reply(&reply);
	run->reply = (uint32_t)reply.n;
	run->total_ns = now_ns() - start;
	buf_finish(&reply);
}

/* `flight` calls at once: what one read brought is answered by one write. */
static void
run_in_flight(int fd, struct run *run, struct invocation *i)
{
	struct buf out = { 0 };
	static uint8_t in[1 << 20];
	uint32_t sent = 0, got = 0, due = run->flight;
	size_t held = 0, at;
	uint64_t start = 0;
	ssize_t r;

	while (got < run->calls) {
		for (; due > 0 && sent < run->calls; due--) {
			invocation_set(i, sent++);
			buf_add(&out, i->frame.p, i->frame.n);
		}
		due = 0;
		if (out.n > 0)
			send_buf(fd, &out);
		r = read(fd, in + held, sizeof in - held);
		if (r <= 0)
			_exit(0);
		held += (size_t)r;
		for (at = 0; held - at >= 4 && held - at >= 4 + get_u32(in + at);
		    at += 4 + get_u32(in + at)) {
			if (got++ == run->warm)
				start = now_ns();
			due++;
		}
		memmove(in, in + at, held - at);
		held -= at;
	}
	run->total_ns = now_ns() - start;
}

static _Noreturn void
worker_process(const struct world *w, int fd)
{
	struct buf b = { 0 };
	struct invocation i;
	struct message m;
	struct fault fault;
	struct msg_operation_run_reply outcome = { .status = outcome_status_complete,
		.has_output = true, .output = { (const uint8_t *)"\xc0", 1 } };

	pin(w->worker_cpu);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	say_hello(fd);
	receive(fd, &b);
	if (protocol_decode(b.p + 4, b.n - 4, ROLE_BROKER, ROLE_WORKER, LINK_READY, NULL, NULL,
		&m, &fault) < 0)
		die("operation.run");
	invocation_init(&i, m.u.operation_run.operation, w->run->payload);
	w->run->invoke = (uint32_t)i.frame.n;
	if (w->run->flight > 1)
		run_in_flight(fd, w->run, &i);
	else
		run_one_by_one(fd, w->run, &i);
	b.n = 0;
	if (protocol_reply(&b, MSG_operation_run_reply, m.msgid, &outcome) < 0)
		die("outcome");
	send_buf(fd, &b);
	for (;;)
		receive(fd, &b); /* ends with the link */
}

/* ---- the provider ------------------------------------------------------------------------ */

/* The answer to any call: everything behind the message id, with a place for the call's. */
static void
answer_init(struct buf *tail, size_t *ret_id, size_t payload)
{
	char id[] = "c-00000000000000000000000000000000", *data = malloc(payload + 1);
	struct buf output = { 0 }, frame = { 0 };
	struct msg_tool_call_reply m = { .callId = slice_of(id),
		.status = call_status_succeeded, .has_output = true };

	memset(data, 'y', payload);
	pack_str_n(&output, data, payload);
	m.output = buf_slice(&output);
	if (protocol_reply(&frame, MSG_tool_call_reply, FIRST_ID, &m) < 0)
		die("answer");
	buf_add(tail, frame.p + 4 + 2 + 5, frame.n - 4 - 2 - 5);
	*ret_id = (size_t)((uint8_t *)memmem(tail->p, tail->n, id, 34) - tail->p);
	buf_finish(&output);
	buf_finish(&frame);
	free(data);
}

/* Appends the answer to the frame at `p`. */
static void
answer(struct buf *out, const uint8_t *p, const struct buf *tail, size_t id)
{
	const uint8_t *msgid = p + 4 + 2, *call;
	size_t width = uint_width(msgid), at = out->n;
	uint8_t head[4 + 2] = { 0, 0, 0, 0, 0x94, 1 };

	/* "tool.call" (10), array of one, map of seven, "call" (5), str 8 or 6-bit header */
	call = msgid + width + 10 + 1 + 1 + 5;
	call += *call == 0xd9 ? 2 : 1;
	put_u32(head, (uint32_t)(2 + width + tail->n));
	buf_add(out, head, sizeof head);
	buf_add(out, msgid, width);
	buf_add(out, tail->p, tail->n);
	memcpy(out->p + at + sizeof head + width + id, call, 34);
}

static _Noreturn void
provider_process(const struct world *w, int fd)
{
	struct buf tail = { 0 }, out = { 0 };
	static uint8_t in[1 << 20];
	size_t held = 0, at, id;
	ssize_t r;

	pin(w->worker_cpu);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	answer_init(&tail, &id, w->run->payload);
	say_hello(fd);
	for (;;) {
		r = read(fd, in + held, sizeof in - held);
		if (r <= 0)
			_exit(0);
		held += (size_t)r;
		for (at = 0; held - at >= 4 && held - at >= 4 + get_u32(in + at);
		    at += 4 + get_u32(in + at)) {
			answer(&out, in + at, &tail, id);
			w->run->call = 4 + get_u32(in + at);
			w->run->result = 4 + get_u32(out.p);
		}
		if (out.n > 0)
			send_buf(fd, &out);
		memmove(in, in + at, held - at);
		held -= at;
	}
}

#endif /* TESTS_BENCH_WORLD_CHILDREN_H */
