#include "client/operation.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "client/confine.h"
#include "client/dial.h"
#include "client/loop.h"
#include "client/private.h"
#include "client/render.h"
#include "client/text.h"
#include "common/stop.h"
#include "common/util.h"

#define INTERRUPTS_MAX 3 /* the third Ctrl-C ends the client itself */

/* ---- the end ----------------------------------------------------------------------- */

/* Leaves the loop once nothing is left to wait for. */
static void
operation_settle(struct operation *op)
{
	size_t i;

	if (!op->ended || !op->gone || op->link != NULL)
		return;
	for (i = 0; i < countof(op->sinks); i++)
		if (sink_queued(op->sinks[i]) > 0)
			return;
	event_base_loopbreak(op->base);
}

/* The status stands; everything else is told to end. */
static void
operation_end(struct operation *op, int status)
{
	if (op->ended)
		return;
	op->ended = true;
	op->status = status;
	link_close(op->link);
	if (op->private != NULL)
		private_end(op->private);
	operation_settle(op);
}

/* ---- sinks ------------------------------------------------------------------------- */

static void
operation_check_sinks(struct operation *op)
{
	size_t i, most = 0;

	for (i = 0; i < countof(op->sinks); i++) {
		size_t queued = sink_queued(op->sinks[i]);

		most = queued > most ? queued : most;
		if (sink_error(op->sinks[i]) == 0 || op->closed[i] || op->ended)
			continue;
		op->closed[i] = true;
		if (sink_error(op->sinks[i]) != EPIPE)
			text_say("cannot write %s: %s",
			    i == stream_stdout ? "standard output" : "standard error",
			    strerror(sink_error(op->sinks[i])));
		if (op->attached)
			op->mode->on_closed(op, (enum stream)i);
	}
	if (op->link == NULL)
		return;
	if (most >= SINK_HIGH && !op->paused) {
		op->paused = true;
		link_pause(op->link);
	} else if (most <= SINK_LOW && op->paused) {
		op->paused = false;
		link_resume(op->link);
	}
}

static void
operation_on_sink(struct sink *s, void *arg)
{
	struct operation *op = arg;

	(void)s;
	operation_check_sinks(op);
	operation_settle(op);
}

/* ---- the link ---------------------------------------------------------------------- */

static void
operation_attach(struct operation *op, struct slice id)
{
	int signo;
	size_t i;

	if (op->id == NULL)
		op->id = slice_dup(id);
	if (op->id == NULL) {
		text_say("cannot keep the operation's id: out of memory");
		operation_end(op, EXIT_CANNOT);
		return;
	}
	if (!slice_is(id, op->id)) {
		link_fault(op->link, "another operation");
		return;
	}
	if (op->attached)
		return;
	op->attached = true;
	STOP_POINT("client.attached");
	op->mode->on_attached(op);
	for (i = 0; i < countof(op->closed); i++)
		if (op->closed[i])
			op->mode->on_closed(op, (enum stream)i);
	for (signo = 1; signo < 64; signo++)
		if (op->pending & 1ull << signo)
			op->mode->on_signal(op, signo, op->interrupts);
	op->pending = 0;
}

static void
handle_hello_reply(struct operation *op)
{
	struct msg_operation_attach attach = { 0 };
	struct msg_operation_submit submit = { 0 };
	int r;

	if (!op->submitted) {
		op->submitted = true;
		op->mode->fill(op, &submit);
		r = link_request(op->link, MSG_operation_submit, &submit, NULL);
		STOP_POINT("client.submitted");
	} else {
		attach.has_operation = op->id != NULL;
		attach.operation = slice_of(op->id != NULL ? op->id : "");
		attach.has_after = true;
		attach.after = op->sequence;
		r = link_request(op->link, MSG_operation_attach, &attach, NULL);
	}
	if (r < 0) {
		text_say("cannot submit: %s", strerror(-r));
		operation_end(op, EXIT_CANNOT);
	}
}

static void
handle_event(struct operation *op, const struct msg_operation_event *e)
{
	if (e->sequence <= op->sequence) {
		link_fault(op->link, "the sequence goes back");
		return;
	}
	operation_attach(op, e->operation);
	if (!op->attached || op->ended)
		return;
	op->sequence = e->sequence;
	op->mode->on_event(op, e);
	if (e->type == event_type_completed || e->type == event_type_failed) {
		STOP_POINT("client.ending_seen");
		int status = op->mode->exit_status(e);
		int error = sink_error(op->sinks[stream_stdout]);

		/* What was asked for did not arrive, and nobody else will say so. */
		if (status == 0 && error != 0 && error != EPIPE)
			status = EXIT_CANNOT;
		operation_end(op, status);
		return;
	}
	operation_check_sinks(op);
}

static void
handle_refusal(struct operation *op, const struct message *m)
{
	/* A stop or a signal for what is over already. */
	if (m->type == MSG_operation_cancel_reply || m->type == MSG_operation_signal_reply)
		return;
	if (m->type == MSG_operation_attach_reply)
		text_say("the broker died, and the next one knows no such operation: %.*s",
		    (int)m->error.message.n, (const char *)m->error.message.p);
	else
		text_say("refused: %.*s: %.*s", (int)m->error.code.n,
		    (const char *)m->error.code.p, (int)m->error.message.n,
		    (const char *)m->error.message.p);
	operation_end(op, EXIT_CANNOT);
}

static void
operation_on_message(struct link *l, const struct message *m, void *arg)
{
	struct operation *op = arg;

	if (op->ended)
		return;
	if (m->kind == MSG_RESPONSE && m->failed) {
		handle_refusal(op, m);
		return;
	}
	switch (m->type) {
	case MSG_hello_reply: handle_hello_reply(op); break;
	case MSG_operation_submit_reply:
		operation_attach(op, m->u.operation_submit_reply.operation);
		break;
	case MSG_operation_attach_reply:
		operation_attach(op, m->u.operation_attach_reply.operation);
		break;
	case MSG_operation_event: handle_event(op, &m->u.operation_event); break;
	case MSG_input_credit:
		if (op->mode->on_credit == NULL)
			link_fault(l, "input was never offered");
		else
			op->mode->on_credit(op, (uint32_t)m->u.input_credit.bytes);
		break;
	case MSG_operation_cancel_reply:
	case MSG_operation_signal_reply: break;
	default: link_fault(l, "no message for a client"); break;
	}
}

static void operation_open(struct operation *op, int fd);
static void operation_redial(struct operation *op);

/* No link, no caissond, no ending: nobody can say any more. */
static void
operation_lost(struct operation *op)
{
	if (op->submitted)
		text_say(
		    "outcome unknown: the broker ended before it told how the operation did");
	operation_end(op, EXIT_CANNOT);
}

static void
operation_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct operation *op = arg;

	(void)l;
	op->link = NULL;
	op->attached = op->paused = false;
	if (op->mode->on_detached != NULL)
		op->mode->on_detached(op);
	if (op->ended) {
		operation_settle(op);
	} else if (end == LINK_END_FAULT) {
		text_say("the broker broke the protocol: %s", fault->rule);
		operation_end(op, EXIT_CANNOT);
	} else if (end == LINK_END_SLOW || end == LINK_END_ERROR) {
		text_say("cannot talk to the broker: %s",
		    end == LINK_END_SLOW ? "it does not read" : strerror(error));
		operation_end(op, EXIT_CANNOT);
	} else if (op->next_fd >= 0) {
		operation_open(op, steal_fd(&op->next_fd));
	} else if (op->dial != NULL) {
		operation_redial(op);
	} else if (op->gone) {
		operation_lost(op);
	}
}

static const struct link_handler link_handler = {
	.on_message = operation_on_message,
	.on_end = operation_on_end,
};

static void
operation_open(struct operation *op, int fd)
{
	if (op->submitted && op->options->verbose)
		text_say("the broker died; asking the next one how the operation ended");
	op->link = link_open(op->base, fd, ROLE_CLIENT, ROLE_BROKER, &link_handler, op);
	if (op->link == NULL || link_hello(op->link, "caisson") < 0) {
		text_say("cannot talk to the broker: %s", strerror(errno));
		operation_end(op, EXIT_CANNOT);
	}
}

/* ---- caissond ---------------------------------------------------------------------- */

static void
operation_on_broker(int fd, void *arg)
{
	struct operation *op = arg;

	if (op->ended || op->next_fd >= 0)
		close(fd);
	else if (op->link != NULL)
		op->next_fd = fd; /* what the last one still said comes first */
	else
		operation_open(op, fd);
}

static void
operation_on_failed(void *arg)
{
	operation_end(arg, EXIT_CANNOT);
}

static void
operation_on_gone(int status, void *arg)
{
	struct operation *op = arg;

	op->gone = true;
	if (op->mode->on_gone != NULL)
		op->mode->on_gone(op, status);
	if (WIFSIGNALED(status))
		text_say("caissond was killed by signal %d", WTERMSIG(status));
	else if (!op->ended && WEXITSTATUS(status) == 0)
		text_say("caissond ended before the operation did");
	/* A broker settles what is open when its supervisor dies: read it to its end. */
	if (!op->ended && op->link == NULL)
		operation_lost(op);
	operation_settle(op);
}

static const struct private_handler private_handler = {
	.on_broker = operation_on_broker,
	.on_failed = operation_on_failed,
	.on_gone = operation_on_gone,
};

/* ---- or a daemon ------------------------------------------------------------------- */

static void
operation_on_connection(int fd, void *arg)
{
	struct operation *op = arg;

	if (op->ended)
		close(fd);
	else
		operation_open(op, fd);
}

static void
operation_on_no_connection(int error, void *arg)
{
	struct operation *op = arg;

	if (op->ended)
		return;
	dial_explain("run", op->options->socket, error);
	operation_lost(op);
}

static const struct dial_handler dial_handler = {
	.on_connection = operation_on_connection,
	.on_failed = operation_on_no_connection,
};

/* The daemon goes on, whatever becomes of its broker: the next one knows how it ended. */
static void
operation_redial(struct operation *op)
{
	if (!op->submitted) {
		text_say("run: %s closed the connection: it has too many, or is ending",
		    op->options->socket);
		operation_end(op, EXIT_CANNOT);
	} else if (op->id == NULL) {
		operation_lost(op); /* of several, none can be told to be ours */
	} else {
		dial_again(op->dial);
	}
}

static int
operation_dial(struct operation *op, const char *command)
{
	const char *path = op->options->socket;
	int r, fd = dial_connect(path);

	if (fd < 0) {
		dial_explain(command, path, -fd);
		return fd;
	}
	op->gone = true; /* no process of ours is to be reaped */
	r = dial_start(op->base, path, &dial_handler, op, &op->dial);
	if (r < 0) {
		text_say("%s: cannot start: %s", command, strerror(-r));
		close(fd);
		return r;
	}
	operation_open(op, fd);
	return 0;
}

/* ---- signals ----------------------------------------------------------------------- */

static bool
is_interrupt(const struct operation *op, int signo)
{
	return signo == SIGINT || op->mode->every_signal_cancels;
}

static void
operation_die(int signo)
{
	/* The life pipe closes with us, and caissond ends what it started; in a daemon the
	 * operation goes on (D-4). */
	signal(signo, SIG_DFL);
	raise(signo);
}

static void
operation_on_signal(evutil_socket_t signo, short events, void *arg)
{
	struct operation *op = arg;
	unsigned nth = 1;

	(void)events;
	if (is_interrupt(op, (int)signo))
		nth = ++op->interrupts;
	if (nth >= INTERRUPTS_MAX)
		operation_die((int)signo);
	if (op->ended)
		return;
	if (op->attached)
		op->mode->on_signal(op, (int)signo, nth);
	else if (!op->submitted)
		operation_end(op, op->mode->exit_signaled((int)signo));
	else
		op->pending |= 1ull << signo;
}

static int
operation_watch_signals(struct operation *op)
{
	unsigned n = 0;
	const int *s;

	while (op->mode->signals[n] != 0)
		n++;
	op->signals = calloc(n, sizeof(struct event *));
	if (op->signals == NULL)
		return -ENOMEM;
	for (s = op->mode->signals; *s != 0; s++) {
		struct sigaction old;

		/* nohup, or a job of a shell that does not want it: stays ignored. */
		if (sigaction(*s, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		op->signals[op->nsignals] = evsignal_new(op->base, *s, operation_on_signal, op);
		if (op->signals[op->nsignals] == NULL ||
		    event_add(op->signals[op->nsignals++], NULL) < 0)
			return -ENOMEM;
	}
	return 0;
}

void
operation_stop(struct operation *op, bool kill)
{
	struct msg_operation_cancel m = { 0 };

	m.operation = slice_of(op->id);
	m.has_kill = m.kill = kill;
	link_request(op->link, MSG_operation_cancel, &m, NULL);
}

/* What the command line names is named; of a configuration's command it is "the program". */
static void
add_start_fault(struct operation *op, int error, struct buf *b)
{
	const struct options *o = op->options;
	const char *name = o->command != NULL ? o->command[0] : "the program";
	const char *why = error == ENOENT
	    ? ": it, or the interpreter that it names, is not in the chamber"
	    : error == EACCES ? ": mode, or a directory that can be written" : "";

	text_escape_line(slice_of(name), b);
	buf_add(b, ": cannot be executed: ", strlen(": cannot be executed: "));
	buf_add(b, strerror(error), strlen(strerror(error)));
	buf_add(b, why, strlen(why));
}

void
operation_say_reason(struct operation *op, const struct msg_operation_event *e)
{
	struct buf b = { 0 };
	bool program;
	size_t n;
	int error;

	buf_add(&b, "caisson: ", strlen("caisson: "));
	n = b.n;
	if (op->dial != NULL || !render_start_fault(e, &program, &error))
		render_reason(e, &b);
	else if (program)
		add_start_fault(op, error, &b);
	/* else caissond, which shares our standard error, has said it */
	buf_add(&b, "\n", 1);
	if (!b.failed && b.n > n + 1)
		sink_write(op->sinks[stream_stderr], b.p, b.n);
	buf_finish(&b);
}

/* ---- all of it --------------------------------------------------------------------- */

static void
operation_finish(struct operation *op)
{
	unsigned i;

	for (i = 0; i < op->nsignals; i++)
		if (op->signals[i] != NULL)
			event_free(op->signals[i]);
	free(op->signals);
	for (i = 0; i < countof(op->sinks); i++)
		sink_destroy(op->sinks[i]);
	private_destroy(op->private);
	dial_destroy(op->dial);
	util_close(&op->next_fd);
	free(op->id);
	if (op->base != NULL)
		event_base_free(op->base);
}

int
operation_perform(const struct operation_mode *mode, void *arg, const struct options *options,
    int argc, char **argv)
{
	struct operation op = {
		.mode = mode,
		.arg = arg,
		.options = options,
		.next_fd = -1,
		.status = EXIT_CANNOT,
	};
	int r = -ENOMEM;

	closefrom(STDERR_FILENO + 1); /* whatever a caller forgot: it is none of ours */
	op.base = loop_create();
	if (op.base == NULL)
		goto out;
	op.sinks[stream_stdout] = sink_create(op.base, STDOUT_FILENO, operation_on_sink, &op);
	op.sinks[stream_stderr] = sink_create(op.base, STDERR_FILENO, operation_on_sink, &op);
	if (op.sinks[stream_stdout] == NULL || op.sinks[stream_stderr] == NULL)
		goto out;
	r = operation_watch_signals(&op);
	if (r < 0)
		goto out;
	if (options->has_socket)
		r = operation_dial(&op, argv[0]);
	else
		r = private_start(op.base, argc, argv,
		    mode->proposal_fd != 0 ? mode->proposal_fd : -1, &private_handler, &op,
		    &op.private);
	if (r < 0)
		goto out;
	r = client_confine();
	if (r < 0) {
		text_say("cannot confine itself: %s", strerror(-r));
		operation_end(&op, EXIT_CANNOT);
		r = 0; /* what was started is still to be reaped */
	}
	if (!op.ended || !op.gone || op.link != NULL) /* else nothing would end the loop */
		event_base_dispatch(op.base);
out:
	if (r < 0 && !options->has_socket)
		text_say("cannot start caissond: %s", strerror(-r));
	operation_finish(&op);
	return op.status;
}
