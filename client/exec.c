#include "client/exec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "client/operation.h"
#include "client/render.h"
#include "client/text.h"
#include "common/event_json.h"

struct exec {
	struct event *input; /* readiness of standard input; pending while it may be read */
	uint64_t credit;     /* bytes that may still be sent */
	bool input_over;     /* end-of-file, or the command reads no more */
	/* its output goes to standard error, as ours is for something else */
	bool aside;
	int gone_status;     /* of caissond, as waitpid() has it */
	uint8_t chunk[OUTPUT_CHUNK_MAX];
};

static void
exec_fill(struct operation *op, struct msg_operation_submit *m)
{
	m->kind = operation_kind_command;
	m->has_timeoutMs = op->options->has_timeout;
	m->timeoutMs = op->options->timeout_ms;
	m->has_input = m->input = true;
}

/* ---- standard input ---------------------------------------------------------------- */

static void
exec_end_input(struct operation *op)
{
	struct msg_input_close m = { 0 };
	struct exec *x = op->arg;

	x->input_over = true;
	event_del(x->input);
	m.operation = slice_of(op->id);
	link_notify(op->link, MSG_input_close, &m);
}

static void
exec_on_input(evutil_socket_t fd, short events, void *arg)
{
	struct operation *op = arg;
	struct msg_input_write m = { 0 };
	struct exec *x = op->arg;
	ssize_t n;

	(void)events;
	n = read(
	    (int)fd, x->chunk, x->credit < sizeof(x->chunk) ? x->credit : sizeof(x->chunk));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		if (n < 0)
			text_say("cannot read standard input: %s", strerror(errno));
		exec_end_input(op);
		return;
	}
	x->credit -= (uint64_t)n;
	if (x->credit == 0)
		event_del(x->input);
	m.operation = slice_of(op->id);
	m.data = (struct slice){ x->chunk, (size_t)n };
	link_notify(op->link, MSG_input_write, &m);
}

static void
exec_on_credit(struct operation *op, uint32_t bytes)
{
	struct exec *x = op->arg;

	if (x->input_over || !op->attached)
		return;
	if (bytes == 0) {
		x->input_over = true;
		event_del(x->input);
		return;
	}
	/* The queue of the link is bounded by the window, whatever the broker says. */
	if (bytes > INPUT_WINDOW - x->credit) {
		link_fault(op->link, "more credit than the window");
		return;
	}
	x->credit += bytes;
	event_add(x->input, NULL);
}

static void
exec_on_attached(struct operation *op)
{
	struct exec *x = op->arg;

	if (x->input != NULL) /* a second broker: the command died with the first */
		return;
	x->input = event_new(op->base, STDIN_FILENO, EV_READ | EV_PERSIST, exec_on_input, op);
	x->credit = INPUT_WINDOW;
	if (x->input == NULL || event_add(x->input, NULL) < 0) {
		text_say("cannot watch standard input: out of memory");
		operation_stop(op, true);
	}
}

static void
exec_on_detached(struct operation *op)
{
	struct exec *x = op->arg;

	x->input_over = true;
	if (x->input != NULL)
		event_del(x->input);
}

/* ---- output ------------------------------------------------------------------------ */

/* Its own exit is told by our status alone, as a shell would. */
static bool
exec_says_reason(struct operation *op, const struct msg_operation_event *e)
{
	if (e->type != event_type_failed)
		return false;
	if (render_exit_exec(e) >= EXIT_CANNOT && render_exit_exec(e) <= EXIT_NOT_FOUND)
		return true;
	return !op->options->quiet;
}

static void
exec_on_event(struct operation *op, const struct msg_operation_event *e)
{
	struct buf b = { 0 };
	struct exec *x = op->arg;

	if (op->options->output == OUTPUT_JSONL) {
		event_json_write_line(e, &b);
		if (!b.failed)
			sink_write(op->sinks[stream_stdout], b.p, b.n);
	} else if (e->type == event_type_output && e->has_data) {
		sink_write(op->sinks[x->aside	       ? stream_stderr
				     : e->has_stream ? e->stream
						     : stream_stdout],
		    e->data.p, e->data.n);
	} else if (exec_says_reason(op, e)) {
		operation_say_reason(op, e);
	}
	buf_finish(&b);
}

static void
exec_close_output(struct operation *op, enum stream stream)
{
	struct msg_output_close m = { 0 };

	m.operation = slice_of(op->id);
	m.stream = stream;
	link_notify(op->link, MSG_output_close, &m);
}

static void
exec_on_closed(struct operation *op, enum stream stream)
{
	struct exec *x = op->arg;

	if (x->aside && stream == stream_stdout)
		return;
	exec_close_output(op, stream);
	if (x->aside)
		exec_close_output(op, stream_stdout);
	/* As lines of JSON both streams leave through one. */
	if (op->options->output == OUTPUT_JSONL && stream == stream_stdout)
		exec_close_output(op, stream_stderr);
}

static void
exec_on_signal(struct operation *op, int signo, unsigned nth)
{
	struct msg_operation_signal m = { 0 };

	if (signo == SIGINT && nth > 1) {
		operation_stop(op, true);
		return;
	}
	m.operation = slice_of(op->id);
	m.signo = (uint64_t)signo;
	link_request(op->link, MSG_operation_signal, &m, NULL);
}

static int
exec_exit_signaled(int signo)
{
	return 128 + signo;
}

static void
exec_on_gone(struct operation *op, int status)
{
	struct exec *x = op->arg;

	x->gone_status = status;
}

static const int exec_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0 };

static const struct operation_mode exec_mode = {
	.fill = exec_fill,
	.on_attached = exec_on_attached,
	.on_event = exec_on_event,
	.on_credit = exec_on_credit,
	.on_detached = exec_on_detached,
	.on_signal = exec_on_signal,
	.on_closed = exec_on_closed,
	.on_gone = exec_on_gone,
	.exit_status = render_exit_exec,
	.exit_signaled = exec_exit_signaled,
	.signals = exec_signals,
};

int
exec_main(const struct options *o, int argc, char **argv)
{
	static struct exec x; /* 64 KiB: too much for a stack */

	return operation_perform(&exec_mode, &x, o, argc, argv);
}

int
exec_learn(const struct options *o, int argc, char **argv, bool *ret_proposed)
{
	static struct exec x;
	struct operation_mode mode = exec_mode;
	int status;

	x.gone_status = -1;
	x.aside = !o->has_proposal;
	if (!o->has_proposal)
		mode.proposal_fd = STDOUT_FILENO;
	status = operation_perform(&mode, &x, o, argc, argv);
	*ret_proposed = x.gone_status != -1 && WIFEXITED(x.gone_status) &&
	    WEXITSTATUS(x.gone_status) == 0;
	return status;
}
