/* text and render: what reaches terminals and programs. */
#include "client/render.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "client/text.h"
#include "common/endings.h"
#include "common/event_json.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

static struct buf out;

static void
setup(void)
{
	memset(&out, 0, sizeof(out));
}

static void
teardown(void)
{
	buf_finish(&out);
}

/* `out` as a string; what stood there before is dropped by reset(). */
static const char *
text(void)
{
	static const char nul;
	size_t n = out.n;

	buf_add(&out, &nul, 1);
	ck_assert(!out.failed);
	out.n = n;
	return (const char *)out.p;
}

static void
reset(void)
{
	out.n = 0;
}

/* ---- text -------------------------------------------------------------------------- */

/* Bytes that a terminal could obey, and what a person sees instead. */
static const struct {
	const char *bytes;
	const char *shown;
	const char *why;
} hostile[] = {
	{ "plain", "plain", "nothing to hide" },
	{ "a\tb\n", "a\tb\n", "newline and tab belong to text" },
	{ "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
	    "letters" },
	{ "\033[31m", "\\x1b[31m", "a CSI sequence" },
	{ "\033]0;title\a", "\\x1b]0;title\\x07", "an OSC sequence" },
	{ "x\rfake", "x\\x0dfake", "carriage return overwrites" },
	{ "x\b\b", "x\\x08\\x08", "so does backspace" },
	{ "\v\f", "\\x0b\\x0c", "vertical motion" },
	{ "\x7f", "\\x7f", "DEL" },
	{ "\xc2\x9b"
	  "31m",
	    "\\u009b31m", "C1: the eight-bit CSI, as UTF-8" },
	{ "\x9b"
	  "31m",
	    "\\x9b31m", "and as a raw byte" },
	{ "\xe2\x80\xae"
	  "evil",
	    "\\u202eevil", "right-to-left override" },
	{ "\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069", "isolates" },
	{ "\xe2\x80\xa8", "\\u2028", "line separator" },
	{ "\xef\xbb\xbf", "\\ufeff", "byte order mark" },
	{ "\xf3\xa0\x81\x81", "\\U000e0041", "invisible tag letters" },
	{ "\xff\xfe", "\\xff\\xfe", "never UTF-8" },
	{ "\xc0\xaf", "\\xc0\\xaf", "overlong" },
	{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf", "overlong" },
	{ "\xed\xa0\x80", "\\xed\\xa0\\x80", "a surrogate" },
	{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "beyond Unicode" },
	{ "\xe2\x82", "\\xe2\\x82", "cut short" },
	{ "\xe2\x82x", "\\xe2\\x82x", "broken off" },
	{ "\xc3\033[m", "\\xc3\\x1b[m", "an escape hidden in a broken character" },
};

START_TEST(what_a_terminal_could_obey_becomes_visible)
{
	struct text_filter f = { 0 };
	const char *s = hostile[_i].bytes;

	text_escape(&f, (const uint8_t *)s, strlen(s), &out);
	text_escape_end(&f, &out);
	ck_assert_msg(
	    strcmp(text(), hostile[_i].shown) == 0, "%s: %s", hostile[_i].why, text());
}
END_TEST

START_TEST(chunks_change_nothing)
{
	const char *s = hostile[_i].bytes;
	size_t first, second, n = strlen(s);
	struct text_filter f;

	for (first = 0; first <= n; first++)
		for (second = first; second <= n; second++) {
			memset(&f, 0, sizeof(f));
			reset();
			text_escape(&f, (const uint8_t *)s, first, &out);
			text_escape(&f, (const uint8_t *)s + first, second - first, &out);
			text_escape(&f, (const uint8_t *)s + second, n - second, &out);
			text_escape_end(&f, &out);
			ck_assert_str_eq(text(), hostile[_i].shown);
		}
}
END_TEST

START_TEST(no_byte_sequence_gets_a_control_through)
{
	uint8_t in[3], *p;
	struct text_filter f = { 0 };
	unsigned i, j, bad = 0;

	for (i = 0; i < 0x10000; i++) {
		reset();
		in[0] = (uint8_t)(i >> 8);
		in[1] = (uint8_t)i;
		in[2] = 'x';
		text_escape(&f, in, sizeof(in), &out);
		text_escape_end(&f, &out);
		for (p = out.p, j = 0; j < out.n; j++)
			bad += (p[j] < 0x20 && p[j] != '\n' && p[j] != '\t') || p[j] == 0x7f ||
			       (p[j] == 0xc2 && p[j + 1] < 0xa0);
	}
	ck_assert_uint_eq(bad, 0);
}
END_TEST

START_TEST(a_line_stays_one)
{
	text_escape_line(slice_of("a\nb\tc\xe2"), &out);
	ck_assert_str_eq(text(), "a\\x0ab\\x09c\\xe2");
}
END_TEST

/* ---- events ------------------------------------------------------------------------ */

static struct buf body;

static struct msg_operation_event
event(enum event_type type, const char *json)
{
	struct msg_operation_event e = { .sequence = 7, .type = type };
	char err[JSON_ERROR_MAX];

	buf_finish(&body);
	ck_assert_msg(json_read(json, &body, err) == 0, "%s: %s", json, err);
	e.has_body = true;
	e.body = (struct slice){ body.p, body.n };
	return e;
}

static const struct {
	enum event_type type;
	const char *json;
	const char *line; /* for people */
	const char *verbose;
} progress[] = {
	{ event_type_progress,
	    "{\"kind\":\"tool_call_started\",\"tool\":\"files.read\",\"callId\":\"c\"}", "",
	    "files.read  c  ...\n" },
	{ event_type_progress,
	    "{\"kind\":\"tool_call_finished\",\"tool\":\"files.read\",\"callId\":\"c\","
	    "\"status\":\"denied\",\"code\":\"no_matching_grant\"}",
	    "files.read  denied  no_matching_grant\n",
	    "files.read  c  denied  no_matching_grant\n" },
	{ event_type_progress,
	    "{\"kind\":\"tool_call_finished\",\"tool\":\"a\\u001b\\nb\",\"status\":\"failed\"}",
	    "a\\x1b\\x0ab  failed\n", NULL },
	{ event_type_progress, "{\"kind\":\"text_delta\",\"data\":\"hello\\u009b\"}",
	    "text_delta  hello\\u009b\n", NULL },
	{ event_type_progress, "{\"kind\":\"status\",\"status\":\"thinking\"}",
	    "status  thinking\n", NULL },
	{ event_type_progress,
	    "{\"kind\":\"runtime_event\",\"data\":{\"type\":\"x\",\"n\":[1]}}", "",
	    "runtime_event  {\"type\":\"x\",\"n\":[1]}\n" },
	{ event_type_progress, "{\"kind\":3,\"tool\":null}", "", "" },
	{ event_type_progress, "{}", "", "" },
	{ event_type_gap, "{\"from\":3,\"to\":9}", "events 3 to 9 are lost\n", NULL },
	{ event_type_gap, "{\"from\":\"x\"}", "", "" },
	{ event_type_accepted, "{\"operationID\":\"op-1\"}", "", "" },
};

START_TEST(progress_is_one_line_or_nothing)
{
	struct msg_operation_event e = event(progress[_i].type, progress[_i].json);

	render_progress(&e, false, &out);
	ck_assert_str_eq(text(), progress[_i].line);
	reset();
	render_progress(&e, true, &out);
	if (progress[_i].verbose != NULL)
		ck_assert_str_eq(text(), progress[_i].verbose);
}
END_TEST

static const struct {
	enum event_type type;
	const char *json;
	const char *reason; /* NULL: not looked at */
	int run, exec;	    /* -1: not looked at */
} endings[] = {
	{ event_type_completed, "{\"turn\":{\"status\":\"succeeded\",\"output\":1}}", "", 0,
	    -1 },
	{ event_type_completed,
	    "{\"turn\":{\"status\":\"denied\",\"error\":{\"code\":\"c\",\"message\":\"m\\n\"}}"
	    "}",
	    "the turn ended denied: c: m\\x0a", 3, -1 },
	{ event_type_completed, "{\"turn\":{\"status\":\"escalated\"}}",
	    "the turn ended escalated", 5, -1 },
	{ event_type_completed,
	    "{\"turn\":{\"status\":\"escalated\",\"escalation\":{\"id\":\"e-1\","
	    "\"reason\":\"w\\u001b[2J\"}}}",
	    "the turn ended escalated: w\\x1b[2J (escalation e-1)", 5, -1 },
	{ event_type_completed, "{\"turn\":{\"status\":\"failed\"}}", "the turn ended failed",
	    1, -1 },
	{ event_type_completed, "{\"turn\":{\"status\":\"nonsense\"}}",
	    "the turn ended nonsense", 1, -1 },
	{ event_type_completed, "{\"turn\":{}}", NULL, 125, 125 },
	{ event_type_completed, "{}", "", 125, 125 },
	{ event_type_completed, "{\"command\":{\"exitCode\":0}}", "", -1, 0 },
	{ event_type_completed, "{\"command\":{\"exitCode\":255}}", "", -1, 255 },
	{ event_type_completed, "{\"command\":{\"exitCode\":256}}", "", -1, 125 },
	{ event_type_completed, "{\"command\":{\"exitCode\":-1}}", "", -1, 125 },
	{ event_type_completed, "{\"command\":{\"exitCode\":\"0\"}}", "", -1, 125 },
	{ event_type_completed, "{\"command\":{\"signal\":15,\"timedOut\":false}}", "", -1,
	    143 },
	{ event_type_completed, "{\"command\":{\"signal\":9,\"timedOut\":true}}", "", -1, 124 },
	{ event_type_completed, "{\"command\":{\"cause\":{\"kind\":\"exited\",\"code\":4}}}",
	    "", -1, 4 },
	{ event_type_failed,
	    "{\"message\":\"\",\"cause\":{\"kind\":\"seccomp\",\"syscall\":\"ptrace\"}}",
	    "seccomp (syscall ptrace): the worker made a system call that its profile forbids; "
	    "use a profile that allows it (--profile), or a program that does without",
	    1, 159 },
	{ event_type_failed,
	    "{\"message\":\"m\",\"command\":{\"signal\":25},"
	    "\"cause\":{\"kind\":\"limit\",\"name\":\"file_size\"}}",
	    "limit: m; let it write smaller files, or use a profile with a larger file_size", 1,
	    153 },
	{ event_type_failed,
	    "{\"message\":\"m\",\"command\":{\"exitCode\":7},"
	    "\"cause\":{\"kind\":\"limit\",\"name\":\"pids\"}}",
	    "limit: m; allow it more (--pids)", 1, 7 },
	{ event_type_failed, "{\"message\":\"m\",\"cause\":{\"kind\":\"oom\"}}",
	    "oom: m; give it more memory (--memory), or less to do", 1, 137 },
	{ event_type_failed, "{\"cause\":{\"kind\":\"limit\",\"name\":\"maxSteps\",\"max\":3}}",
	    "limit (name maxSteps, max 3): a limit ended it; the cause names which", 1, 125 },
	{ event_type_failed,
	    "{\"cause\":{\"kind\":\"start_failed\",\"layer\":\"exec\",\"errno\":2}}",
	    "start_failed (layer exec, No such file or directory): "
	    "its chamber or program could not be started",
	    125, 127 },
	{ event_type_failed,
	    "{\"cause\":{\"kind\":\"start_failed\",\"layer\":\"exec\",\"errno\":13}}", NULL,
	    125, 126 },
	{ event_type_failed, "{\"cause\":{\"kind\":\"start_failed\",\"layer\":\"seccomp\"}}",
	    NULL, 125, 125 },
	{ event_type_failed,
	    "{\"cause\":{\"kind\":\"deadline\"},\"message\":\"m\",\"recorded\":true}",
	    "deadline: m; give it more time (--timeout)", 4, 124 },
	{ event_type_failed,
	    "{\"code\":\"internal\",\"cause\":{\"kind\":\"\\u001bnew\"},\"message\":\"m\"}",
	    "\\x1bnew: m", 125, 125 },
	{ event_type_failed, "{\"code\":\"internal\",\"message\":\"m\",\"recorded\":false}",
	    "internal: m (this ending is not in the record)", 125, 125 },
	{ event_type_failed, "{\"cause\":[]}", "failed", 125, 125 },
	{ event_type_failed, "{}", "failed", 125, 125 },
};

START_TEST(every_ending_has_its_reason_and_status)
{
	struct msg_operation_event e = event(endings[_i].type, endings[_i].json);

	render_reason(&e, &out);
	if (endings[_i].reason != NULL)
		ck_assert_str_eq(text(), endings[_i].reason);
	if (endings[_i].run >= 0)
		ck_assert_int_eq(render_exit_run(&e), endings[_i].run);
	if (endings[_i].exec >= 0)
		ck_assert_int_eq(render_exit_exec(&e), endings[_i].exec);
}
END_TEST

START_TEST(every_row_of_the_endings_has_a_status)
{
	const struct ending_desc *d = ending_desc((uint32_t)_i);
	struct msg_operation_event e;
	char json[128];

	snprintf(json, sizeof(json), "{\"cause\":{\"kind\":\"%s\"}}", d->cause);
	e = event(event_type_failed, json);
	ck_assert_int_eq(render_exit_run(&e), d->exit_run >= 0 ? d->exit_run : EXIT_CANNOT);
	if (d->exit_exec >= 0)
		ck_assert_int_eq(render_exit_exec(&e), d->exit_exec);
	render_reason(&e, &out);
	ck_assert(strstr(text(), d->doc) != NULL);
}
END_TEST

START_TEST(an_event_is_one_line_of_json)
{
	struct msg_operation_event e = event(event_type_progress, "{\"kind\":\"a\\nb\"}");

	event_json_write_line(&e, &out);
	ck_assert_str_eq(text(),
	    "{\"sequence\":7,\"type\":\"progress\",\"progress\":{\"kind\":\"a\\nb\"}}\n");
	reset();
	e = (struct msg_operation_event){ .sequence = UINT64_MAX,
		.type = event_type_output,
		.has_stream = true,
		.stream = stream_stderr,
		.has_data = true,
		.data = slice_of("hi") };
	event_json_write_line(&e, &out);
	ck_assert_str_eq(text(), "{\"sequence\":18446744073709551615,\"type\":\"output\","
				 "\"output\":{\"stream\":\"stderr\",\"data\":\"aGk=\"}}\n");
	reset();
	e = (struct msg_operation_event){ .sequence = 1, .type = event_type_gap };
	event_json_write_line(&e, &out);
	ck_assert_str_eq(text(), "{\"sequence\":1,\"type\":\"gap\",\"gap\":{}}\n");
}
END_TEST

START_TEST(a_result_is_pretty_and_absence_is_nothing)
{
	struct msg_operation_event e =
	    event(event_type_completed, "{\"turn\":{\"output\":[1]}}");

	render_result(&e, &out);
	ck_assert_str_eq(text(), "[\n  1\n]\n");
	reset();
	e = event(event_type_completed, "{\"turn\":{\"output\":null}}");
	render_result(&e, &out);
	ck_assert_str_eq(text(), "null\n");
	reset();
	e = event(event_type_completed, "{\"turn\":{}}");
	render_result(&e, &out);
	e = event(event_type_failed, "{}");
	render_result(&e, &out);
	ck_assert_str_eq(text(), "");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("render");
	TCase *t = tcase_create("text"), *e = tcase_create("events");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(
	    t, what_a_terminal_could_obey_becomes_visible, 0, (int)countof(hostile));
	tcase_add_loop_test(t, chunks_change_nothing, 0, (int)countof(hostile));
	tcase_add_test(t, no_byte_sequence_gets_a_control_through);
	tcase_add_test(t, a_line_stays_one);
	tcase_add_checked_fixture(e, setup, teardown);
	tcase_add_loop_test(e, progress_is_one_line_or_nothing, 0, (int)countof(progress));
	tcase_add_loop_test(
	    e, every_ending_has_its_reason_and_status, 0, (int)countof(endings));
	tcase_add_loop_test(
	    e, every_row_of_the_endings_has_a_status, ENDING_none + 1, ENDING_MAX);
	tcase_add_test(e, an_event_is_one_line_of_json);
	tcase_add_test(e, a_result_is_pretty_and_absence_is_nothing);
	suite_add_tcase(s, t);
	suite_add_tcase(s, e);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
