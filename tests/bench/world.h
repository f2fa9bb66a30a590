/*
 * world: a broker made of the product's objects, in a process of its own, with everything
 * around it scripted: this process is supervisor, ledger and client; worker and provider
 * are forked for every turn, and are plain loops of read(2) and write(2) over frames that
 * were packed before the clock is started.
 *
 * The broker is confined by its own filters, as in service.
 */
#ifndef TESTS_BENCH_WORLD_H
#define TESTS_BENCH_WORLD_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/config.h"
#include "broker/confine.h"
#include "broker/journal.h"
#include "common/child.h"
#include "common/clock.h"
#include "common/control.h"
#include "common/endings.h"
#include "common/link.h"
#include "common/log.h"
#include "common/walk.h"
#include "tests/bench/wire.h"

#define CALLS_MAX  10000 /* of one turn: the protocol's ceiling */
#define SEGMENT    (256u << 20) /* bytes */
#define FLIGHT_MAX 32

/* What a turn of `calls` calls measured; shared with the worker that ran it. */
struct run {
	uint32_t ns[CALLS_MAX]; /* each call, one in flight */
	uint64_t total_ns; /* the calls after the warm-up */
	uint32_t calls, warm; /* of `calls`, not counted */
	uint32_t flight; /* calls in flight */
	size_t payload; /* bytes of the arguments' data and of the result */
	/* bytes of each frame, for the floor */
	uint32_t invoke, call, result, reply;
};

struct world {
	pid_t broker, worker, provider;
	int control, ledger, journal_dir;
	bool null_journal, durable, detached;
	int broker_cpu, worker_cpu;
	unsigned more_grants; /* of the same agent, for other places */
	struct run *run;
	struct control spawned[2]; /* worker, provider: what was asked for */
	uint64_t segments;
};

/* ---- the broker ------------------------------------------------------------------------ */

static ssize_t
null_append(int fd, const struct iovec *iov, int n)
{
	ssize_t sum = 0;

	(void)fd;
	for (int i = 0; i < n; i++)
		sum += (ssize_t)iov[i].iov_len;
	return sum;
}

static int
null_sync(int fd)
{
	(void)fd;
	return 0;
}

static const struct journal_io null_io = { null_append, null_sync };

static void
world_on_journal(struct broker *b)
{
	(void)b;
	if (confine_self(CONFINE_READY) < 0)
		die("second filter");
}

static void
world_on_settled(struct broker *b)
{
	event_base_loopbreak(b->base);
}

static _Noreturn void
broker_process(const struct world *w, int control_fd, int config_fd)
{
	static struct broker b;
	struct fault fault;
	const char *row = "";

	pin(w->broker_cpu);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "bench-broker"); /* for perf report --comm */
	log_init("bench-broker", LOG_ERROR_);
	signal(SIGPIPE, SIG_IGN);
	if (config_read(config_fd, &b.config, &fault, &row) < 0) {
		fprintf(stderr, "bench: %s %s: %s\n", row, fault.field, fault.rule);
		_exit(1);
	}
	b.journal_io = w->null_journal ? &null_io : &journal_io_system;
	b.on_journal = world_on_journal;
	b.on_settled = world_on_settled;
	if (broker_init(&b, control_fd) < 0 || confine_self(CONFINE_START) < 0)
		die("broker");
	event_base_dispatch(b.base);
	_exit(0);
}

/* ---- its configuration ------------------------------------------------------------------ */

static void
pack_schema(struct buf *b)
{
	pack_map(b, 3);
	pack_str(b, "type");
	pack_str(b, "object");
	pack_str(b, "properties");
	pack_map(b, 2);
	pack_str(b, "path");
	pack_map(b, 1);
	pack_str(b, "type");
	pack_str(b, "string");
	pack_str(b, "data");
	pack_map(b, 1);
	pack_str(b, "type");
	pack_str(b, "string");
	pack_str(b, "required");
	pack_array(b, 1);
	pack_str(b, "path");
}

static void
pack_words(struct buf *b, const char *word)
{
	pack_array(b, 1);
	pack_str(b, word);
}

static void
add_grant(struct buf *out, const char *id, const char *namespace, const char *path,
    const char *action)
{
	struct buf segments = { 0 }, actions = { 0 };
	struct msg_config_grant g = { .id = slice_of(id), .subject = slice_of("agent:bench"),
		.issuer = slice_of("human:op"), .namespace = slice_of("default") };
	struct msg_config_capability c = { .namespace = slice_of(namespace),
		.scope = scope_descendants };

	pack_words(&segments, path);
	pack_words(&actions, action);
	c.path = buf_slice(&segments);
	c.actions = buf_slice(&actions);
	if (protocol_notify(out, MSG_config_grant, &g) < 0 ||
	    protocol_notify(out, MSG_config_capability, &c) < 0)
		die("grant");
	buf_finish(&segments);
	buf_finish(&actions);
}

static int
config_memfd(const struct world *w)
{
	uint8_t key[32] = { 1 };
	struct buf out = { 0 }, schema = { 0 };
	struct msg_config_broker broker = { .namespace = slice_of("default"),
		.authority = slice_of("human:op"), .owner = slice_of("human:op"),
		.purpose = slice_of("bench"), .key = { key, sizeof key },
		.durability = w->durable ? durability_full : durability_relaxed, .maxSteps = 16,
		.maxToolCalls = CALLS_MAX, .timeoutMs = 600000, .operator = getuid() };
	struct msg_config_runtime runtime = { .id = slice_of("bench"), .version = slice_of("1"),
		.kind = operation_kind_turn };
	struct msg_config_provider provider = { .id = slice_of("bench"), .concurrency = 100 };
	struct msg_config_tool tool = { .name = slice_of("files.read"),
		.namespace = slice_of("files"), .effect = effect_read, .action = slice_of("read"),
		.resource = slice_of("workspace"), .path = slice_of("{path}") };
	struct msg_config_end end;
	int fd = memfd_create("config", MFD_CLOEXEC);

	pack_schema(&schema);
	tool.input = buf_slice(&schema);
	if (protocol_notify(&out, MSG_config_broker, &broker) < 0 ||
	    protocol_notify(&out, MSG_config_runtime, &runtime) < 0 ||
	    protocol_notify(&out, MSG_config_provider, &provider) < 0 ||
	    protocol_notify(&out, MSG_config_tool, &tool) < 0)
		die("configuration");
	add_grant(&out, "run", EXECUTION_NAMESPACE, "bench", EXECUTION_ACTION);
	add_grant(&out, "docs", "workspace", "docs", "read");
	for (unsigned i = 0; i < w->more_grants; i++) {
		char id[32], path[32];

		snprintf(id, sizeof id, "more-%u", i);
		snprintf(path, sizeof path, "more%u", i);
		add_grant(&out, id, "workspace", path, "read");
	}
	protocol_notify(&out, MSG_config_end, &end);
	if (fd < 0 || write(fd, out.p, out.n) != (ssize_t)out.n)
		die("configuration");
	lseek(fd, 0, SEEK_SET);
	buf_finish(&out);
	buf_finish(&schema);
	return fd;
}

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

/* ---- supervisor, ledger, client ----------------------------------------------------------- */

static void
tell(const struct world *w, struct control c, const int *fds, unsigned n)
{
	if (control_send(w->control, &c, fds, n) < 0)
		die("control");
}

static void
give_segment(struct world *w, uint32_t number, uint64_t count)
{
	struct control c = { .verb = CONTROL_SEGMENT, .index = number, .count = SEGMENT };
	char name[32];
	int fd;

	(void)count;
	snprintf(name, sizeof name, "journal.%08u", number);
	if (w->null_journal)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	else
		fd = openat(w->journal_dir, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die("segment");
	/* As the supervisor reserves it. */
	if (!w->null_journal && (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, SEGMENT) < 0 || fsync(fd) < 0))
		die("fallocate");
	tell(w, c, &fd, 1);
	close(fd);
	w->segments++;
}

static void
spawn(struct world *w, const struct control *c)
{
	bool turn = c->kind == CHILD_TURN;
	int link[2], out[2], err[2], fds[3];
	struct control m = { .verb = CONTROL_LINK, .kind = c->kind, .session = c->session,
		.index = c->index, .generation = c->generation };
	unsigned n = 0;
	pid_t pid;

	pair(SOCK_STREAM, link, true);
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		close(w->control);
		close(link[1]);
		if (turn)
			worker_process(w, link[0]);
		provider_process(w, link[0]);
	}
	fds[n++] = link[1];
	if (turn)
		fds[n++] = out[0];
	fds[n++] = err[0];
	tell(w, m, fds, n);
	m.verb = CONTROL_STARTED;
	tell(w, m, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(link[i]);
		close(out[i]);
		close(err[i]);
	}
	w->spawned[!turn] = *c;
	*(turn ? &w->worker : &w->provider) = pid;
}

static void
reap(struct world *w, bool turn)
{
	pid_t *pid = turn ? &w->worker : &w->provider;
	struct control m = w->spawned[!turn];

	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
	m.verb = CONTROL_EXIT;
	m.exit.kind = EXIT_SIGNALED;
	m.exit.status = SIGKILL;
	m.exit.cause = ENDING_released;
	tell(w, m, NULL, 0);
}

/* One order of the broker's.  Returns its verb. */
static uint32_t
serve(struct world *w)
{
	int fds[CONTROL_FDS_MAX];
	struct control c;
	unsigned n;

	if (control_recv(w->control, &c, fds, &n) <= 0)
		die("the broker is gone");
	if (c.verb == CONTROL_MORE)
		give_segment(w, c.index, c.count);
	else if (c.verb == CONTROL_SPAWN)
		spawn(w, &c);
	else if (c.verb == CONTROL_KILL)
		reap(w, c.kind == CHILD_TURN);
	return c.verb;
}

static void
world_open(struct world *w)
{
	int control[2], ledger[2], config = config_memfd(w);
	const struct slice none = { (const uint8_t *)"\x90", 1 };
	struct msg_state_load_reply state = { .operations = none, .grants = none,
		.revocations = none, .uses = none, .escalations = none, .keys = none };
	uint8_t zero[32] = { 0 };
	struct buf b = { 0 };
	struct control m = { .verb = CONTROL_LEDGER };

	w->run = shared(sizeof *w->run);
	pair(SOCK_SEQPACKET, control, true);
	w->broker = fork();
	if (w->broker == 0) {
		close(control[0]);
		broker_process(w, control[1], config);
	}
	close(control[1]);
	close(config);
	w->control = control[0];
	pair(SOCK_STREAM, ledger, true);
	tell(w, m, &ledger[1], 1);
	close(ledger[1]);
	w->ledger = ledger[0];
	receive(w->ledger, &b);
	state.hash = (struct slice){ zero, sizeof zero };
	b.n = 0;
	if (protocol_reply(&b, MSG_state_load_reply, 1, &state) < 0)
		die("state");
	send_buf(w->ledger, &b);
	while (serve(w) != CONTROL_READY)
		;
	buf_finish(&b);
}

static void
world_close(struct world *w)
{
	struct control m = { .verb = CONTROL_SHUTDOWN };

	tell(w, m, NULL, 0);
	waitpid(w->broker, NULL, 0);
	close(w->control);
	close(w->ledger);
	munmap(w->run, sizeof *w->run);
}

/* Reads a client's link to its end. */
static _Noreturn void
client_process(int fd)
{
	static uint8_t in[1 << 16];

	pin(1);
	while (read(fd, in, sizeof in) > 0)
		;
	_exit(0);
}

/* One turn as w->run says; on return its figures are there, and its processes are gone. */
static void
world_turn(struct world *w)
{
	struct control m = { .verb = CONTROL_CLIENT, .uid = getuid(), .gid = getgid(),
		.pid = (uint32_t)getpid() };
	struct msg_operation_submit submit = { .kind = operation_kind_turn, .has_message = true,
		.message = { (const uint8_t *)"\xa2hi", 3 } };
	struct buf b = { 0 };
	pid_t client;
	int link[2];

	pair(SOCK_STREAM, link, true);
	tell(w, m, &link[1], 1);
	close(link[1]);
	say_hello(link[0]);
	if (protocol_request(&b, MSG_operation_submit, 2, &submit) < 0)
		die("submit");
	send_buf(link[0], &b);
	receive(link[0], &b);
	client = w->detached ? 0 : fork();
	if (client == 0 && !w->detached)
		client_process(link[0]);
	close(link[0]);
	buf_finish(&b);
	while (w->worker == 0 || w->provider == 0)
		serve(w);
	while (w->worker != 0 || w->provider != 0)
		serve(w);
	if (client > 0) {
		kill(client, SIGKILL);
		waitpid(client, NULL, 0);
	}
}

#endif /* TESTS_BENCH_WORLD_H */
