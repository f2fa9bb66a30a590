/*
 * Any bytes, as a client meets them: raw output, and the body of an event.  Nothing that a
 * terminal could obey comes out, wherever the chunks are cut; a line of JSON is one, and
 * reads back.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "client/render.h"
#include "client/text.h"
#include "common/event_json.h"
#include "common/json.h"
#include "common/utf8.h"
#include "common/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* Newlines and tabs belong to text; a line ends in its only newline. */
static void
must_be_harmless(const struct buf *b, bool text)
{
	size_t i = 0;
	uint32_t c;
	int len;

	must(!b->failed);
	while (i < b->n) {
		len = utf8_next(b->p + i, b->n - i, &c);
		must(len > 0);
		must(!utf8_is_control(c) || c == '\n' || (text && c == '\t'));
		must(text || c != '\n' || i == b->n - 1);
		i += (size_t)len;
	}
}

static void
try_text(const uint8_t *p, size_t n)
{
	struct buf whole = { 0 }, parts = { 0 };
	struct text_filter f = { 0 };
	size_t cut = n > 0 ? p[0] % (n + 1) : 0;

	text_escape(&f, p, n, &whole);
	text_escape_end(&f, &whole);
	must_be_harmless(&whole, true);
	text_escape(&f, p, cut, &parts);
	text_escape(&f, p + cut, n - cut, &parts);
	text_escape_end(&f, &parts);
	must(parts.n == whole.n && (whole.n == 0 || memcmp(parts.p, whole.p, whole.n) == 0));
	buf_finish(&whole);
	buf_finish(&parts);
}

static void
try_event(enum event_type type, struct slice body)
{
	struct msg_operation_event e = {
		.sequence = 1, .type = type, .has_body = true, .body = body
	};
	struct buf b = { 0 };
	json_t *json;
	int status;

	event_json_write_line(&e, &b);
	must_be_harmless(&b, false);
	json =
	    json_loadb((const char *)b.p, b.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
	/* Only a key with a NUL in it cannot be read by this reader. */
	must(json != NULL || memmem(b.p, b.n, "\\u0000", 6) != NULL);
	json_decref(json);
	b.n = 0;
	render_progress(&e, true, &b);
	must_be_harmless(&b, false);
	b.n = 0;
	render_reason(&e, &b);
	must_be_harmless(&b, false);
	b.n = 0;
	render_result(&e, &b);
	must_be_harmless(&b, true);
	status = render_exit_run(&e);
	must(status >= 0 && status <= 255);
	status = render_exit_exec(&e);
	must(status >= 0 && status <= 255);
	buf_finish(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct fault fault;
	struct slice s = { p, n };

	try_text(p, n);
	if (walk_value(p, n, &fault) < 0 || value_open(&s).type != VALUE_MAP)
		return 0;
	s = (struct slice){ p, n };
	try_event(event_type_progress, s);
	try_event(event_type_completed, s);
	try_event(event_type_failed, s);
	try_event(event_type_gap, s);
	return 0;
}
