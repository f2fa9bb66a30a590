#include "client/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "client/lib/session.h"
#include "client/loop.h"
#include "client/render.h"
#include "client/sink.h"
#include "client/text.h"
#include "common/endings.h"
#include "common/event_json.h"
#include "common/util.h"
#include "common/walk.h"

static const int watched_signals[] = { SIGINT, SIGTERM, SIGHUP };

struct following {
	const struct follow *f;
	struct event_base *base;
	struct event *readable, *writable, *signals[countof(watched_signals)];
	struct sink *sinks[2]; /* by enum stream */
	struct text_filter filters[2];
	bool terminal[2];
	bool mid_line;
	bool ended, paused, cancelling;
	unsigned interrupts;
	int status;
};

static void
end(struct following *w, int status)
{
	if (w->ended)
		return;
	w->ended = true;
	w->status = status;
	event_del(w->readable);
	event_del(w->writable);
}

/* The loop ends when what was written is out. */
static void
settle(struct following *w)
{
	size_t i, waiting = 0;

	for (i = 0; i < 2; i++)
		waiting += sink_error(w->sinks[i]) == 0 ? sink_queued(w->sinks[i]) : 0;
	if (w->ended && waiting == 0)
		event_base_loopbreak(w->base);
}

static void
write_buf(struct following *w, enum stream stream, struct buf *b)
{
	if (!b->failed && b->n > 0)
		sink_write(w->sinks[stream], b->p, b->n);
	buf_finish(b);
}

/* ---- one event --------------------------------------------------------------------------- */

static bool
has_body(const struct msg_operation_event *e, const char *member)
{
	struct value v;

	return e->has_body && value_get(e->body, member, &v);
}

/* A file operation has neither turn nor command. */
static int
exit_status(const struct msg_operation_event *e)
{
	int status;

	if (has_body(e, "command"))
		return render_exit_exec(e);
	if (has_body(e, "turn"))
		return render_exit_run(e);
	if (e->type == event_type_completed)
		return 0;
	status = render_exit_run(e);
	return status == EXIT_CANNOT ? 1 : status;
}

static void
show_output(struct following *w, const struct msg_operation_event *e)
{
	enum stream stream = e->has_stream ? e->stream : stream_stdout;
	struct buf b = { 0 };

	if (!e->has_data || e->data.n == 0)
		return;
	if (stream == stream_stdout)
		w->mid_line = e->data.p[e->data.n - 1] != '\n';
	if (!w->terminal[stream]) {
		sink_write(w->sinks[stream], e->data.p, e->data.n);
		return;
	}
	text_escape(&w->filters[stream], e->data.p, e->data.n, &b);
	write_buf(w, stream, &b);
}

static void
show_end(struct following *w, const struct msg_operation_event *e)
{
	struct buf b = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		text_escape_end(&w->filters[i], &b);
		if (i == stream_stdout && w->terminal[i] && w->mid_line)
			buf_add(&b, "\n", 1);
		write_buf(w, (enum stream)i, &b);
	}
	render_result(e, &b);
	write_buf(w, stream_stdout, &b);
	if (w->f->options->quiet)
		return;
	render_reason(e, &b);
	if (b.n > 0 && !b.failed)
		text_say("%.*s", (int)b.n, (const char *)b.p);
	buf_finish(&b);
}

static void
show_accepted(struct following *w)
{
	const char *id = w->f->session->operation;
	struct buf b = { 0 };

	buf_add(&b, id, strlen(id));
	buf_add(&b, "\n", 1);
	write_buf(w, stream_stdout, &b);
}

static void
ask_cancel(struct following *w)
{
	struct caisson_error error;

	if (w->cancelling || w->f->session->operation[0] == '\0')
		return;
	w->cancelling = true;
	if (caisson_cancel(w->f->session, w->f->session->operation, &error) < 0 &&
	    strcmp(error.code, "usage") != 0)
		end(w, remote_explain(w->f->command, &error));
}

static void
on_event(struct following *w, const struct msg_operation_event *e)
{
	bool terminal = e->type == event_type_completed || e->type == event_type_failed;
	struct buf b = { 0 };

	if (w->f->options->output == OUTPUT_JSONL) {
		event_json_write_line(e, &b);
		write_buf(w, stream_stdout, &b);
	} else if (w->f->detach && e->type == event_type_accepted) {
		show_accepted(w);
	} else if (e->type == event_type_output) {
		show_output(w, e);
	} else if (terminal) {
		show_end(w, e);
	} else if (!w->f->options->quiet &&
	    (w->f->options->verbose || w->terminal[stream_stderr] ||
		e->type == event_type_gap)) {
		render_progress(e, w->f->options->verbose || e->type == event_type_gap, &b);
		write_buf(w, stream_stderr, &b);
	}
	if (terminal)
		end(w, exit_status(e));
	else if (w->f->detach)
		end(w, 0);
	else if (w->f->cancel || w->interrupts > 0)
		ask_cancel(w);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void
lost(struct following *w, const struct caisson_error *error)
{
	struct caisson_session *s = w->f->session;

	remote_explain(w->f->command, error);
	if (s->operation[0] != '\0')
		text_say("%s: its outcome is not known here; caisson receive SESSION %s --from %llu "
			 "goes on behind what was seen",
		    w->f->command, s->operation, (unsigned long long)s->last + 1);
	end(w, EXIT_CANNOT);
}

static void
pump(struct following *w)
{
	struct msg_operation_event e;
	struct caisson_error error;
	int r = 0;

	while (!w->ended && !w->paused && (r = session_next(w->f->session, &e, &error)) > 0) {
		if (r == 2)
			end(w, remote_explain(w->f->command, &error));
		else
			on_event(w, &e);
		w->paused = sink_queued(w->sinks[0]) >= SINK_HIGH ||
		    sink_queued(w->sinks[1]) >= SINK_HIGH;
	}
	if (r < 0)
		lost(w, &error);
	if (w->paused)
		event_del(w->readable);
	else if (!w->ended && caisson_session_poll(w->f->session) & POLLOUT)
		event_add(w->writable, NULL);
}

static void
on_ready(evutil_socket_t fd, short events, void *arg)
{
	struct following *w = arg;
	struct caisson_error error;

	(void)fd;
	(void)events;
	/* What came before a failure is shown before it. */
	caisson_session_step(w->f->session, &error);
	pump(w);
	settle(w);
}

static void
on_sink(struct sink *s, void *arg)
{
	struct following *w = arg;

	/* Nobody reads it any more: the operation is left to itself. */
	if (sink_error(s) != 0 && !w->ended) {
		if (sink_error(s) != EPIPE)
			text_say("%s: cannot write: %s", w->f->command, strerror(sink_error(s)));
		end(w, EXIT_CANNOT);
	}
	if (w->paused && !w->ended && sink_queued(w->sinks[0]) <= SINK_LOW &&
	    sink_queued(w->sinks[1]) <= SINK_LOW) {
		w->paused = false;
		event_add(w->readable, NULL);
		pump(w);
	}
	settle(w);
}

static void
on_signal(evutil_socket_t signo, short events, void *arg)
{
	struct following *w = arg;

	(void)events;
	if (++w->interrupts > 1)
		end(w, 128 + (int)signo);
	else
		ask_cancel(w);
	settle(w);
}

static bool
start(struct following *w)
{
	int fd = caisson_session_fd(w->f->session);
	bool ok;

	w->base = loop_create();
	if (w->base == NULL)
		return false;
	w->readable = event_new(w->base, fd, EV_READ | EV_PERSIST, on_ready, w);
	w->writable = event_new(w->base, fd, EV_WRITE, on_ready, w);
	w->sinks[stream_stdout] = sink_create(w->base, STDOUT_FILENO, on_sink, w);
	w->sinks[stream_stderr] = sink_create(w->base, STDERR_FILENO, on_sink, w);
	ok = w->readable != NULL && w->writable != NULL && w->sinks[0] != NULL &&
	    w->sinks[1] != NULL && event_add(w->readable, NULL) == 0;
	for (size_t i = 0; i < countof(watched_signals); i++) {
		w->signals[i] = evsignal_new(w->base, watched_signals[i], on_signal, w);
		ok = ok && w->signals[i] != NULL && event_add(w->signals[i], NULL) == 0;
	}
	return ok;
}

static void
finish(struct following *w)
{
	size_t i;

	for (i = 0; i < 2; i++)
		if (w->sinks[i] != NULL)
			sink_destroy(w->sinks[i]);
	for (i = 0; i < countof(w->signals); i++)
		if (w->signals[i] != NULL)
			event_free(w->signals[i]);
	if (w->readable != NULL)
		event_free(w->readable);
	if (w->writable != NULL)
		event_free(w->writable);
	if (w->base != NULL)
		event_base_free(w->base);
}

int
follow_operation(const struct follow *f)
{
	struct following w = { .f = f, .status = EXIT_CANNOT };

	w.terminal[stream_stdout] = isatty(STDOUT_FILENO);
	w.terminal[stream_stderr] = isatty(STDERR_FILENO);
	if (!start(&w)) {
		text_say("%s: out of memory", f->command);
	} else if (remote_confine(f->command) == 0) {
		if (f->cancel)
			ask_cancel(&w);
		event_active(w.readable, EV_READ, 0);
		event_base_dispatch(w.base);
	}
	finish(&w);
	return w.status;
}
