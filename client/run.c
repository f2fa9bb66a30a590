#include "client/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/json.h"
#include "client/operation.h"
#include "client/render.h"
#include "client/text.h"
#include "common/endings.h"
#include "common/util.h"

/* bytes of JSON: over ARGUMENTS_MAX packed, blanks and all */
#define MESSAGE_TEXT_MAX (2u << 20)

struct run {
	struct buf message;	       /* packed */
	struct text_filter filters[2]; /* by enum stream; used for terminals only */
	bool terminal[2];
	bool mid_line; /* the runtime's last byte on standard output was no newline */
};

static void
run_fill(struct operation *op, struct msg_operation_submit *m)
{
	const struct options *o = op->options;
	struct run *run = op->arg;

	m->kind = operation_kind_turn;
	m->has_runtime = o->has_runtime;
	m->runtime = slice_of(o->has_runtime ? o->runtime : "");
	m->has_message = true;
	m->message = (struct slice){ run->message.p, run->message.n };
	m->has_timeoutMs = o->has_timeout;
	m->timeoutMs = o->timeout_ms;
	m->has_maxSteps = o->has_max_steps;
	m->maxSteps = o->max_steps;
	m->has_maxToolCalls = o->has_max_tool_calls;
	m->maxToolCalls = o->max_tool_calls;
}

static void
write_buf(struct operation *op, enum stream stream, struct buf *b)
{
	if (!b->failed)
		sink_write(op->sinks[stream], b->p, b->n);
	buf_finish(b);
}

static void
print_output(struct operation *op, const struct msg_operation_event *e)
{
	enum stream stream = e->has_stream ? e->stream : stream_stdout;
	struct run *run = op->arg;
	struct buf b = { 0 };

	if (!e->has_data || e->data.n == 0)
		return;
	if (stream == stream_stdout)
		run->mid_line = e->data.p[e->data.n - 1] != '\n';
	if (!run->terminal[stream]) {
		sink_write(op->sinks[stream], e->data.p, e->data.n);
		return;
	}
	text_escape(&run->filters[stream], e->data.p, e->data.n, &b);
	write_buf(op, stream, &b);
}

static void
print_end(struct operation *op, const struct msg_operation_event *e)
{
	struct run *run = op->arg;
	struct buf b = { 0 };
	unsigned i;

	for (i = 0; i < 2; i++) {
		text_escape_end(&run->filters[i], &b);
		if (i == stream_stdout && run->terminal[i] && run->mid_line)
			buf_add(&b, "\n", 1);
		write_buf(op, (enum stream)i, &b);
	}
	render_result(e, &b);
	write_buf(op, stream_stdout, &b);
	if (!op->options->quiet || render_exit_run(e) == EXIT_CANNOT)
		operation_say_reason(op, e);
}

static void
run_on_event(struct operation *op, const struct msg_operation_event *e)
{
	const struct options *o = op->options;
	struct run *run = op->arg;
	struct buf b = { 0 };

	if (o->output == OUTPUT_JSONL) {
		render_jsonl(e, &b);
		write_buf(op, stream_stdout, &b);
	} else if (e->type == event_type_output) {
		print_output(op, e);
	} else if (e->type == event_type_completed || e->type == event_type_failed) {
		print_end(op, e);
	} else if (!o->quiet && (o->verbose || run->terminal[stream_stderr])) {
		render_progress(e, o->verbose, &b);
		write_buf(op, stream_stderr, &b);
	}
}

static void
run_on_attached(struct operation *op)
{
	(void)op;
}

static void
run_on_signal(struct operation *op, int signo, unsigned nth)
{
	(void)signo;
	operation_stop(op, nth > 1);
}

/* Nobody sees the events or the result: what nobody waits for is cancelled. */
static void
run_on_closed(struct operation *op, enum stream stream)
{
	if (stream == stream_stdout)
		operation_stop(op, false);
}

static int
run_exit_signaled(int signo)
{
	(void)signo;
	return ending_desc(ENDING_canceled)->exit_run;
}

static const int run_signals[] = { SIGINT, SIGTERM, SIGHUP, 0 };

static const struct operation_mode run_mode = {
	.fill = run_fill,
	.on_attached = run_on_attached,
	.on_event = run_on_event,
	.on_signal = run_on_signal,
	.on_closed = run_on_closed,
	.exit_status = render_exit_run,
	.exit_signaled = run_exit_signaled,
	.signals = run_signals,
	.every_signal_cancels = true,
};

/* `-m @FILE`, or `@-` for standard input: one word of a command line ends at 128 KiB. */
static char *
read_message(const char *path, char err[JSON_ERROR_MAX])
{
	bool input = strcmp(path, "-") == 0;
	FILE *f = input ? stdin : fopen(path, "re");
	char *text = f != NULL ? malloc(MESSAGE_TEXT_MAX + 1) : NULL;
	size_t n = text != NULL ? fread(text, 1, MESSAGE_TEXT_MAX + 1, f) : 0;

	err[0] = '\0';
	if (text == NULL || ferror(f))
		snprintf(err, JSON_ERROR_MAX, "%.200s: %s", path, strerror(errno));
	else if (n > MESSAGE_TEXT_MAX)
		snprintf(err, JSON_ERROR_MAX, "%.200s: is more than %u bytes", path,
		    MESSAGE_TEXT_MAX);
	else if (memchr(text, '\0', n) != NULL)
		snprintf(err, JSON_ERROR_MAX, "%.200s: holds a NUL byte", path);
	else
		text[n] = '\0';
	if (f != NULL && !input)
		fclose(f);
	if (err[0] == '\0')
		return text;
	free(text);
	return NULL;
}

static int
pack_message(const struct options *o, struct buf *out, char err[JSON_ERROR_MAX])
{
	cleanup_free char *text = NULL;

	if (!o->has_message)
		return json_read("{}", out, err);
	if (o->message[0] != '@') /* which begins no JSON */
		return json_read(o->message, out, err);
	text = read_message(o->message + 1, err);
	return text != NULL ? json_read(text, out, err) : -EINVAL;
}

int
run_main(const struct options *o, int argc, char **argv)
{
	struct run run = { 0 };
	char err[JSON_ERROR_MAX];
	int status = EXIT_CANNOT;

	run.terminal[stream_stdout] = isatty(STDOUT_FILENO);
	run.terminal[stream_stderr] = isatty(STDERR_FILENO);
	if (pack_message(o, &run.message, err) < 0)
		text_say("--message: %s", err);
	else
		status = operation_perform(&run_mode, &run, o, argc, argv);
	buf_finish(&run.message);
	return status;
}
