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
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/endings.h"
#include "tests/bench/wire.h"
#include "tests/bench/world_broker.h"
#include "tests/bench/world_children.h"
#include "tests/bench/world_types.h"

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
