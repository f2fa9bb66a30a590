/*
 * Any bytes, as libcaisson meets them behind a connection: frames of a broker, and the answers
 * and WebSocket messages of a gateway.  Whatever comes out is the same however the bytes were
 * cut, and can be shown.
 */
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* Every event and refusal that a wire hands out, as lines; its end, last. */
static void
drain(struct wire *w, struct buf *out, bool *ended)
{
	struct buf json = { 0 }, code = { 0 };
	struct caisson_event event;
	struct caisson_error error;
	struct incoming in;
	int r;

	while (!*ended && (r = w->ops->next(w, &in, &error)) != 0) {
		*ended = r < 0;
		if (r < 0) {
			must(error.code[0] != '\0' && error.message[0] != '\0');
			buf_add(out, error.code, strlen(error.code));
		} else if (in.refused) {
			buf_add(out, in.refusal.code, strlen(in.refusal.code));
		} else {
			must(event_show(&in.event, &json, &code, &event, &error) == 0);
			must(strlen(event.json) + 1 == json.n);
			buf_add(out, event.json, json.n);
		}
		buf_add(out, "\n", 1);
	}
	buf_finish(&json);
	buf_finish(&code);
}

static void
listen_to(const struct wire_ops *ops, const uint8_t *p, size_t n, size_t step, struct buf *out)
{
	struct channel ch = { .fd = -1, .connected = true };
	struct wire w = { .ops = ops, .ch = &ch, .upgraded = true, .asked = true, .cancels = 2 };
	bool ended = false;

	/* Requests that an answer may name. */
	must(pending_reserve(&w.pending) == 0);
	pending_add(&w.pending, 1, MSG_operation_submit);
	must(pending_reserve(&w.pending) == 0);
	pending_add(&w.pending, 2, MSG_session_heartbeat);
	for (size_t at = 0; at < n && !ended; at += step) {
		buf_add(&ch.in, p + at, n - at < step ? n - at : step);
		drain(&w, out, &ended);
	}
	pending_finish(&w.pending);
	buf_finish(&w.message);
	buf_finish(&w.value);
	buf_finish(&w.data);
	buf_finish(&ch.in);
	buf_finish(&ch.out);
}

static void
try_wire(const struct wire_ops *ops, const uint8_t *p, size_t n)
{
	struct buf whole = { 0 }, parts = { 0 };

	listen_to(ops, p, n, n + 1, &whole);
	listen_to(ops, p, n, n > 0 ? 1 + p[0] % 7 : 1, &parts);
	must(whole.n == parts.n && (whole.n == 0 || memcmp(whole.p, parts.p, whole.n) == 0));
	buf_finish(&whole);
	buf_finish(&parts);
}

static void
try_response(const uint8_t *p, size_t n)
{
	struct wire_response r;
	struct caisson_error error;

	if (wire_parse_response((struct slice){ p, n }, &r, &error) > 0) {
		must(r.head_bytes <= n && r.status >= 100 && r.status <= 999);
		must(memchr(r.accept, '\0', sizeof r.accept) != NULL);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	try_wire(&local_ops, p, n);
	try_wire(&web_ops, p, n);
	try_response(p, n);
	return 0;
}
