#include "client/render.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/text.h"
#include "common/endings.h"
#include "common/json.h"
#include "common/walk.h"

static void
add_text(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

/* ---- members of a body ------------------------------------------------------------- */

static bool
get(struct slice map, const char *key, enum value_type type, struct value *ret)
{
	return map.n > 0 && value_get(map, key, ret) && ret->type == type;
}

static struct slice
get_map(struct slice map, const char *key)
{
	struct value v;

	return get(map, key, VALUE_MAP, &v) ? v.raw : (struct slice){ NULL, 0 };
}

static struct slice
get_str(struct slice map, const char *key)
{
	struct value v;

	return get(map, key, VALUE_STR, &v) ? v.bytes : (struct slice){ NULL, 0 };
}

/* The number, or a negative one if there is none or it is over `max`. */
static int
get_uint(struct slice map, const char *key, uint64_t max)
{
	struct value v;

	return get(map, key, VALUE_UINT, &v) && v.uint <= max ? (int)v.uint : -ENOENT;
}

static struct slice
body_of(const struct msg_operation_event *e)
{
	return e->has_body ? e->body : (struct slice){ NULL, 0 };
}

static enum ending
cause_of(const struct msg_operation_event *e)
{
	struct slice kind = get_str(get_map(body_of(e), "cause"), "kind");

	return kind.n > 0 ? ending_named((const char *)kind.p, kind.n) : ENDING_none;
}

/* ---- for people -------------------------------------------------------------------- */

/* "  word": nothing for an empty one. */
static void
add_word(struct buf *out, struct slice word)
{
	if (word.n == 0)
		return;
	add_text(out, "  ");
	text_escape_line(word, out);
}

static void
render_call(struct slice body, bool started, bool verbose, struct buf *out)
{
	struct slice error = get_map(body, "error"), code = get_str(body, "code");

	if (started && !verbose)
		return;
	text_escape_line(get_str(body, "tool"), out);
	if (verbose)
		add_word(out, get_str(body, "callId"));
	if (started)
		add_text(out, "  ...");
	add_word(out, get_str(body, "status"));
	add_word(out, code.n > 0 ? code : get_str(error, "code"));
	add_text(out, "\n");
}

static void
render_other(struct slice body, struct slice kind, bool verbose, struct buf *out)
{
	struct buf json = { 0 };
	struct value data;
	struct slice message = get_str(body, "message");
	bool known = message.n == 0 &&
	    (slice_is(kind, "status") || slice_is(kind, "text_delta"));

	if ((!known && !verbose) || kind.n == 0)
		return;
	if (!value_get(body, "data", &data))
		data.raw.n = 0;
	text_escape_line(kind, out);
	add_word(out, get_str(body, "status"));
	add_word(out, message); /* the turn's own: it started, it drains */
	if (data.raw.n > 0 && data.type == VALUE_STR) {
		add_word(out, data.bytes);
	} else if (data.raw.n > 0) {
		json_write(data.raw, &json);
		add_word(out, (struct slice){ json.p, json.failed ? 0 : json.n });
		buf_finish(&json);
	}
	add_text(out, "\n");
}

void
render_progress(const struct msg_operation_event *e, bool verbose, struct buf *out)
{
	struct slice body = body_of(e), kind = get_str(body, "kind");
	struct value from, to;
	char text[96];

	if (e->type == event_type_gap) {
		if (!get(body, "from", VALUE_UINT, &from) || !get(body, "to", VALUE_UINT, &to))
			return;
		snprintf(text, sizeof(text), "events %" PRIu64 " to %" PRIu64 " are lost\n",
		    from.uint, to.uint);
		add_text(out, text);
	} else if (e->type == event_type_progress) {
		if (slice_is(kind, "tool_call_started"))
			render_call(body, true, verbose, out);
		else if (slice_is(kind, "tool_call_finished"))
			render_call(body, false, verbose, out);
		else
			render_other(body, kind, verbose, out);
	}
}

void
render_result(const struct msg_operation_event *e, struct buf *out)
{
	struct slice turn = get_map(body_of(e), "turn");
	struct value output;

	if (turn.n == 0 || !value_get(turn, "output", &output))
		return;
	json_write_pretty(output.raw, out);
	add_text(out, "\n");
}

/* "(code 3)", "(layer exec, No such file or directory)": every scalar of a cause but kind. */
static void
render_detail(struct slice cause, struct buf *out)
{
	struct slice at = cause;
	struct value map, key, v;
	const char *before = " (";
	char number[32];
	uint32_t i;

	if (cause.n == 0)
		return;
	map = value_open(&at);
	for (i = 0; i < map.count; i++) {
		key = value_open(&at);
		v = value_skip(&at);
		if (slice_is(key.bytes, "kind") ||
		    (v.type != VALUE_STR && v.type != VALUE_UINT))
			continue;
		add_text(out, before);
		before = ", ";
		if (v.type == VALUE_UINT && slice_is(key.bytes, "errno") && v.uint <= 4095) {
			add_text(out, strerror((int)v.uint));
			continue;
		}
		text_escape_line(key.bytes, out);
		add_text(out, " ");
		if (v.type == VALUE_UINT) {
			snprintf(number, sizeof(number), "%" PRIu64, v.uint);
			add_text(out, number);
		} else {
			text_escape_line(v.bytes, out);
		}
	}
	if (before[0] == ',')
		add_text(out, ")");
}

static void
render_completed(struct slice turn, struct buf *out)
{
	struct slice status = get_str(turn, "status"), error = get_map(turn, "error"), s;
	struct slice escalation = get_map(turn, "escalation");

	if (turn.n == 0 || slice_is(status, "succeeded"))
		return;
	add_text(out, "the turn ended ");
	text_escape_line(status, out);
	s = get_str(error, "code");
	if (s.n > 0) {
		add_text(out, ": ");
		text_escape_line(s, out);
	}
	s = get_str(error, "message");
	if (s.n > 0) {
		add_text(out, ": ");
		text_escape_line(s, out);
	}
	s = get_str(escalation, "reason");
	if (s.n > 0) {
		add_text(out, ": ");
		text_escape_line(s, out);
		add_text(out, " (escalation ");
		text_escape_line(get_str(escalation, "id"), out);
		add_text(out, ")");
	}
}

/* What to do about it, where somebody can. */
static void
render_next(struct slice cause, const struct ending_desc *ending, struct buf *out)
{
	struct slice name = get_str(cause, "name");
	const struct limit_desc *limit =
	    name.n > 0 ? limit_named((const char *)name.p, name.n) : NULL;
	const char *next = limit != NULL ? limit->next : ending != NULL ? ending->next : "";

	if (*next == '\0')
		return;
	add_text(out, "; ");
	add_text(out, next);
}

void
render_reason(const struct msg_operation_event *e, struct buf *out)
{
	struct slice body = body_of(e), cause = get_map(body, "cause"), s;
	const struct ending_desc *ending = ending_desc(cause_of(e));
	struct value recorded;

	if (e->type == event_type_completed) {
		render_completed(get_map(body, "turn"), out);
		return;
	}
	s = get_str(cause, "kind");
	if (s.n == 0)
		s = get_str(body, "code");
	text_escape_line(s.n > 0 ? s : slice_of("failed"), out);
	s = get_str(body, "message");
	if (s.n == 0) /* the broker's message has it all in words */
		render_detail(cause, out);
	if (s.n > 0 || ending != NULL)
		add_text(out, ": ");
	text_escape_line(s.n > 0 || ending == NULL ? s : slice_of(ending->doc), out);
	render_next(cause, ending, out);
	if (get(body, "recorded", VALUE_BOOL, &recorded) && !recorded.boolean)
		add_text(out, " (this ending is not in the record)");
}

/* ---- exit status ------------------------------------------------------------------- */

/* What the kernel said of a command: 0..255, 128 + signal, or negative for nothing. */
static int
exit_from_facts(const struct msg_operation_event *e)
{
	struct slice body = body_of(e), command = get_map(body, "command"),
		     cause = get_map(body, "cause");
	int n;

	if (cause.n == 0)
		cause = get_map(command, "cause");
	/* SIGKILL was ours; what it would have been without a listener is SIGSYS. */
	if (slice_is(get_str(cause, "kind"), "seccomp"))
		return 128 + SIGSYS;
	if ((n = get_uint(command, "exitCode", 255)) >= 0)
		return n;
	if ((n = get_uint(command, "signal", 64)) >= 0)
		return 128 + n;
	if ((n = get_uint(cause, "code", 255)) >= 0)
		return n;
	if ((n = get_uint(cause, "signo", 64)) >= 0)
		return 128 + n;
	if (slice_is(get_str(cause, "kind"), "oom"))
		return 128 + SIGKILL;
	return -ENOENT;
}

bool
render_start_fault(const struct msg_operation_event *e, bool *ret_program, int *ret_error)
{
	struct slice cause = get_map(body_of(e), "cause");
	int error = get_uint(cause, "errno", 4095);

	if (e->type != event_type_failed || cause_of(e) != ENDING_start_failed)
		return false;
	*ret_program = slice_is(get_str(cause, "layer"), "exec");
	*ret_error = error > 0 ? error : 0;
	return true;
}

/* As a shell says it. */
static int
exit_from_start(const struct msg_operation_event *e)
{
	bool program = false;
	int error = 0;

	if (!render_start_fault(e, &program, &error) || !program)
		return EXIT_CANNOT;
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

int
render_exit_run(const struct msg_operation_event *e)
{
	struct slice turn = get_map(body_of(e), "turn"), status = get_str(turn, "status");
	const struct ending_desc *ending;
	char name[32];

	if (e->type == event_type_completed) {
		snprintf(name, sizeof(name), "%.*s", (int)(status.n < 31 ? status.n : 31),
		    status.n > 0 ? (const char *)status.p : "");
		return status.n > 0 ? ending_turn_exit(name) : EXIT_CANNOT;
	}
	ending = ending_desc(cause_of(e));
	return ending == NULL || ending->exit_run < 0 ? EXIT_CANNOT : ending->exit_run;
}

int
render_exit_exec(const struct msg_operation_event *e)
{
	enum ending cause = cause_of(e);
	const struct ending_desc *ending = ending_desc(cause);
	struct value timed_out;
	int n;

	if (get(get_map(body_of(e), "command"), "timedOut", VALUE_BOOL, &timed_out) &&
	    timed_out.boolean)
		return ending_desc(ENDING_deadline)->exit_exec;
	if (e->type == event_type_completed ||
	    (ending != NULL && ending->exit_exec == EXIT_FROM_FACTS)) {
		n = exit_from_facts(e);
		return n >= 0 ? n : EXIT_CANNOT;
	}
	if (cause == ENDING_start_failed)
		return exit_from_start(e);
	return ending == NULL || ending->exit_exec < 0 ? EXIT_CANNOT : ending->exit_exec;
}
