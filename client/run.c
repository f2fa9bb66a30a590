#include "client/run.h"

#include <signal.h>
#include <unistd.h>

#include "client/input.h"
#include "client/operation.h"
#include "client/render.h"
#include "client/text.h"
#include "common/endings.h"
#include "common/event_json.h"
#include "common/util.h"
#include "common/walk.h"

struct run {
	struct buf message;	       /* packed */
	struct buf tools, namespaces;  /* packed lists */
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
	m->has_tools = o->has_tools;
	m->tools = buf_slice(&run->tools);
	m->has_namespaces = o->has_namespaces;
	m->namespaces = buf_slice(&run->namespaces);
	m->has_purpose = o->has_run_purpose;
	m->purpose = slice_of(o->has_run_purpose ? o->run_purpose : "");
	m->has_trace = o->has_trace;
	m->trace = slice_of(o->has_trace ? o->trace : "");
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
		event_json_write_line(e, &b);
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

/* "a,b" as a list. */
static void
pack_names(const char *text, struct buf *out)
{
	uint32_t n = 1;
	const char *s;

	for (s = text; *s != '\0'; s++)
		n += *s == ',';
	pack_array(out, n);
	for (s = text; n > 0; n--, s += strcspn(s, ",") + 1)
		pack_str_n(out, s, strcspn(s, ","));
}

int
run_main(const struct options *o, int argc, char **argv)
{
	struct run run = { 0 };
	char err[JSON_ERROR_MAX];
	int status = EXIT_CANNOT;

	run.terminal[stream_stdout] = isatty(STDOUT_FILENO);
	run.terminal[stream_stderr] = isatty(STDERR_FILENO);
	err[0] = '\0';
	if (input_pack(o->has_message ? o->message : "{}", &run.message, err) < 0)
		text_say("--message: %s", err);
	pack_names(o->has_tools ? o->tools : "", &run.tools);
	pack_names(o->has_namespaces ? o->namespaces : "", &run.namespaces);
	if (run.tools.failed || run.namespaces.failed)
		text_say("out of memory");
	else if (err[0] == '\0')
		status = operation_perform(&run_mode, &run, o, argc, argv);
	buf_finish(&run.message);
	buf_finish(&run.tools);
	buf_finish(&run.namespaces);
	return status;
}
