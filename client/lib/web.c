#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/base64.h"
#include "common/json.h"
#include "common/utf8.h"
#include "common/util.h"
#include "common/walk.h"

/* HTTP calls, and sessions over a WebSocket, to a gateway. */

#define MESSAGE_MAX (2u << 20) /* bytes of one message of a gateway */

/* Of what a gateway answers: a frame of the broker, with bytes in base64. */
static const struct json_bounds answer_bounds = { MESSAGE_MAX, VALUE_DEPTH_MAX, VALUE_NODES_MAX };

static void
add_text(struct buf *out, const char *s)
{
	buf_add(out, s, strlen(s));
}

static void __attribute__((format(printf, 2, 3)))
addf(struct buf *out, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	add_text(out, line);
}

static void
add_string(struct buf *out, const char *s)
{
	json_write_string((struct slice){ (const uint8_t *)s, strlen(s) }, out);
}

/* ,"name":"value", and the same of numbers; nothing for what is left out. */
static void
add_member(struct buf *out, const char *name, const char *value)
{
	if (value == NULL)
		return;
	addf(out, ",\"%s\":", name);
	add_string(out, value);
}

static void
add_number(struct buf *out, const char *name, uint64_t value)
{
	if (value != 0)
		addf(out, ",\"%s\":%" PRIu64, name, value);
}

/* ---- one request ------------------------------------------------------------------------- */

static void
add_base(struct buf *out, const struct caisson_client *c, const char *runtime, const char *session)
{
	add_text(out, "/v1/namespaces/");
	add_text(out, c->namespace);
	add_text(out, "/runtimes/");
	wire_encode(out, runtime);
	add_text(out, "/sessions");
	if (session != NULL) {
		add_text(out, "/");
		wire_encode(out, session);
	}
}

/* What every request says, and the end of its line before it. */
static void
add_headers(struct buf *out, const struct caisson_client *c)
{
	add_text(out, " HTTP/1.1\r\nHost: ");
	add_text(out, c->target.authority);
	add_text(out, "\r\nUser-Agent: libcaisson/" VERSION "\r\n");
	if (c->token != NULL) {
		add_text(out, "Authorization: Bearer ");
		add_text(out, c->token);
		add_text(out, "\r\n");
	}
}

/* ?name=value, or & before it. */
static void
add_query(struct buf *out, bool *first, const char *name, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	addf(out, "%c%s=", *first ? '?' : '&', name);
	wire_encode(out, value);
	*first = false;
}

static void
add_query_page(struct buf *out, const struct call *c)
{
	bool first = true;
	char limit[16];

	snprintf(limit, sizeof limit, "%" PRIu32, c->limit);
	add_query(out, &first, "path", c->path);
	add_query(out, &first, "limit", limit);
	add_query(out, &first, "cursor", c->cursor);
}

static void
add_acquire_body(struct buf *body, const struct call *c)
{
	size_t at = body->n;

	add_number(body, "leaseMs", c->lease_ms);
	add_number(body, "timeoutMs", c->timeout_ms);
	add_number(body, "queue", c->queue);
	if (body->n > at)
		body->p[at] = '{';
	else
		add_text(body, "{");
	add_text(body, "}");
}

static const struct {
	const char *method, *tail;
} calls[] = {
	[VERB_ACQUIRE] = { "POST", "" },
	[VERB_LIST] = { "GET", "" },
	[VERB_SHOW] = { "GET", "" },
	[VERB_RELEASE] = { "DELETE", "" },
	[VERB_HEARTBEAT] = { "POST", "/heartbeat" },
	[VERB_OPERATIONS] = { "GET", "/operations" },
	[VERB_OPERATION] = { "GET", "/operations/" },
	[VERB_FILES] = { "GET", "/files" },
	[VERB_STAT] = { "GET", "/files/stat" },
	[VERB_READ] = { "GET", "/files/content" },
};

static void
add_call(struct buf *out, const struct caisson_client *client, const struct call *c)
{
	struct buf body = { 0 };
	bool first = true;

	add_text(out, calls[c->verb].method);
	add_text(out, " ");
	add_base(out, client, c->runtime, c->session);
	add_text(out, calls[c->verb].tail);
	if (c->operation != NULL)
		wire_encode(out, c->operation);
	if (c->verb == VERB_LIST || c->verb == VERB_OPERATIONS || c->verb == VERB_FILES) {
		add_query_page(out, c);
	} else if (c->verb == VERB_RELEASE) {
		add_query(out, &first, "mode", c->immediate ? "immediate" : "drain");
		add_query(out, &first, "wait", c->wait ? "true" : NULL);
	} else {
		add_query(out, &first, "path", c->path);
	}
	add_headers(out, client);
	if (c->key != NULL)
		addf(out, "Idempotency-Key: %s\r\n", c->key);
	if (c->verb == VERB_READ)
		addf(out, "Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n", c->offset,
		    c->offset + c->length - 1);
	if (c->verb == VERB_ACQUIRE)
		add_acquire_body(&body, c);
	if (strcmp(calls[c->verb].method, "POST") == 0)
		addf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.n);
	add_text(out, "\r\n");
	buf_add(out, body.p, body.n);
	out->failed |= body.failed;
	buf_finish(&body);
}

/* ---- its answer -------------------------------------------------------------------------- */

/* {"error":{"code":...,"message":...}}: what the gateway says, else what the status does. */
static int
refusal(unsigned status, struct slice body, struct caisson_error *error)
{
	struct value inner, code, message;
	struct buf value = { 0 };
	char err[JSON_ERROR_MAX], name[65];

	error_set(error, status == 401 ? "unauthenticated" : status == 503 ? "unavailable" : "protocol",
	    "the gateway answered with status %u", status);
	if (json_read_bounded(body, &answer_bounds, &value, err) == 0 &&
	    value_get(buf_slice(&value), "error", &inner) && inner.type == VALUE_MAP &&
	    value_get(inner.raw, "code", &code) && code.type == VALUE_STR &&
	    value_get(inner.raw, "message", &message) && message.type == VALUE_STR) {
		snprintf(name, sizeof name, "%.*s", (int)code.bytes.n, (const char *)code.bytes.p);
		error_set(error, name, "%.*s", (int)message.bytes.n, (const char *)message.bytes.p);
	}
	error->retryable = status == 429 || status == 503;
	buf_finish(&value);
	return -1;
}

/* Waits for a head and all of its body, which stay in the channel. */
static int
await_response(struct wire *w, struct wire_response *ret, struct caisson_error *error)
{
	int r;

	for (;;) {
		r = wire_parse_response(channel_input(w->ch), ret, error);
		if (r < 0)
			return -1;
		if (r > 0 && channel_input(w->ch).n >= ret->head_bytes + ret->body_bytes)
			return 0;
		if (wire_more(w, error) < 0)
			return -1;
	}
}

static int
check_part(const char *what, const char *name, struct caisson_error *error)
{
	if (wire_is_part(name))
		return 0;
	return error_set(error, "usage", "%.80s: this is no id of %s", name != NULL ? name : "", what);
}

/* Before anything is said: what the path of the request will be made of. */
static int
check_parts(const char *runtime, const char *session, const char *operation,
    struct caisson_error *error)
{
	if (check_part("a runtime", runtime, error) < 0)
		return -1;
	if (session != NULL && check_part("a session", session, error) < 0)
		return -1;
	return operation != NULL ? check_part("an operation", operation, error) : 0;
}

static int
web_call(struct wire *w, const struct call *c, struct buf *ret, struct caisson_error *error)
{
	struct wire_response response;
	struct slice body;
	int r = 0;

	if (check_parts(c->runtime, c->session, c->operation, error) < 0)
		return -1;

	add_call(&w->ch->out, w->client, c);
	if (await_response(w, &response, error) < 0)
		return -1;
	body = channel_input(w->ch);
	body = (struct slice){ body.p + response.head_bytes, response.body_bytes };
	/* A range behind the end of a file holds nothing, which is no failure. */
	if (response.status == 416 && c->verb == VERB_READ)
		body.n = 0;
	else if (response.status / 100 != 2)
		r = refusal(response.status, body, error);
	if (r == 0)
		buf_add(ret, body.p, body.n);
	channel_consume(w->ch, response.head_bytes + response.body_bytes);
	w->ch->ended |= response.close;
	if (ret->failed)
		return error_set(error, "transport", "out of memory");
	return r;
}

static int
web_greet(struct wire *w, const char *runtime, const char *session, struct caisson_error *error)
{
	struct wire_response response;
	struct buf *out = &w->ch->out;
	char key[WSHEAD_KEY + 1], accept[WSHEAD_ACCEPT + 1];
	struct slice body;
	bool is_key;

	if (session == NULL)
		return 0;
	if (check_parts(runtime, session, NULL, error) < 0)
		return -1;
	wire_key(key);
	is_key = wshead_accept(slice_of(key), accept);
	assert(is_key);
	add_text(out, "GET ");
	add_base(out, w->client, runtime, session);
	add_text(out, "/operations:ws");
	add_headers(out, w->client);
	addf(out, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: %s\r\n\r\n", key);
	if (await_response(w, &response, error) < 0)
		return -1;
	if (response.status != 101) {
		body = channel_input(w->ch);
		body = (struct slice){ body.p + response.head_bytes, response.body_bytes };
		return refusal(response.status, body, error);
	}
	if (!response.upgrade || !response.connection_upgrade || response.unasked)
		return error_set(error, "protocol", "the gateway agrees to what was not asked of it");
	if (strcmp(response.accept, accept) != 0)
		return error_set(error, "protocol", "the gateway's handshake answers another one");
	channel_consume(w->ch, response.head_bytes);
	w->upgraded = true;
	return 0;
}

/* ---- what is said on a WebSocket --------------------------------------------------------- */

static void
say(struct wire *w, struct buf *text)
{
	wire_frame(&w->ch->out, WSHEAD_TEXT, text->p, text->n);
	w->ch->out.failed |= text->failed;
	buf_finish(text);
}

/* One send or resume is under way at a time; a cancellation of what was before may still be. */
static void
note_asked(struct wire *w)
{
	w->older_cancels += w->cancels;
	w->cancels = 0;
	w->asked = true;
}

static void
add_command(struct buf *out, const struct caisson_operation *op)
{
	if (op->argv != NULL) {
		add_text(out, ",\"argv\":[");
		for (size_t i = 0; op->argv[i] != NULL; i++) {
			add_text(out, i > 0 ? "," : "");
			add_string(out, op->argv[i]);
		}
		add_text(out, "]");
	}
	add_member(out, "shell", op->shell);
	add_member(out, "directory", op->directory);
	if (op->env != NULL) {
		add_text(out, ",\"env\":{");
		for (size_t i = 0; op->env[i] != NULL; i++) {
			const char *equals = strchr(op->env[i], '=');

			add_text(out, i > 0 ? "," : "");
			json_write_string((struct slice){ (const uint8_t *)op->env[i],
					      (size_t)(equals - op->env[i]) },
			    out);
			add_text(out, ":");
			add_string(out, equals + 1);
		}
		add_text(out, "}");
	}
	if (op->content != NULL) {
		add_text(out, ",\"stdin\":");
		json_write_base64((struct slice){ op->content, op->content_bytes }, out);
	}
}

static void
add_turn(struct buf *out, const struct caisson_operation *op)
{
	add_text(out, ",\"message\":");
	add_text(out, op->message != NULL ? op->message : "{}");
	add_number(out, "maxSteps", op->max_steps);
	add_number(out, "maxToolCalls", op->max_tool_calls);
	add_member(out, "purpose", op->purpose);
}

static void
add_file(struct buf *out, const struct caisson_operation *op)
{
	bool rename = op->kind == CAISSON_RENAME_FILE;

	add_member(out, rename ? "from" : "path", op->path);
	add_member(out, "to", op->to);
	if (op->kind == CAISSON_WRITE_FILE) {
		add_text(out, ",\"data\":");
		json_write_base64((struct slice){ op->content, op->content_bytes }, out);
	}
	if (op->append)
		add_text(out, ",\"append\":true");
	if (op->recursive)
		add_text(out, ",\"recursive\":true");
}

static const struct {
	const char *name;
	void (*add)(struct buf *out, const struct caisson_operation *op);
} payloads[] = {
	[CAISSON_TURN] = { "turn", add_turn },
	[CAISSON_COMMAND] = { "command", add_command },
	[CAISSON_WRITE_FILE] = { "writeFile", add_file },
	[CAISSON_CREATE_DIRECTORY] = { "createDirectory", add_file },
	[CAISSON_DELETE_FILE] = { "deleteFile", add_file },
	[CAISSON_RENAME_FILE] = { "renameFile", add_file },
};

static int
web_send(struct wire *w, const char *session, const struct caisson_operation *op,
    struct caisson_error *error)
{
	struct buf out = { 0 }, ignored = { 0 };
	char err[JSON_ERROR_MAX];
	size_t at;
	int r;

	(void)session;
	if (op->message != NULL && (r = json_read(op->message, &ignored, err)) < 0) {
		buf_finish(&ignored);
		return error_set(error, "usage", "message: %s", err);
	}
	buf_finish(&ignored);
	add_text(&out, "{\"type\":\"send\"");
	add_member(&out, "idempotencyKey", op->idempotency_key);
	add_member(&out, "traceparent", op->traceparent);
	addf(&out, ",\"operation\":{\"%s\":", payloads[op->kind].name);
	at = out.n;
	payloads[op->kind].add(&out, op);
	add_number(&out, "timeoutMs", op->timeout_ms);
	if (!out.failed && out.n > at)
		out.p[at] = '{'; /* in place of the first comma */
	else
		add_text(&out, "{");
	add_text(&out, "}}}");
	say(w, &out);
	note_asked(w);
	return 0;
}

static int
web_resume(struct wire *w, const char *operation, uint64_t after, struct caisson_error *error)
{
	struct buf out = { 0 };

	(void)error;
	add_text(&out, "{\"type\":\"resume\"");
	add_member(&out, "operationID", operation);
	addf(&out, ",\"after\":%" PRIu64 "}", after);
	say(w, &out);
	note_asked(w);
	return 0;
}

static int
web_cancel(struct wire *w, const char *operation, struct caisson_error *error)
{
	struct buf out = { 0 };

	(void)error;
	add_text(&out, "{\"type\":\"cancel\"");
	add_member(&out, "operationID", operation);
	add_text(&out, "}");
	say(w, &out);
	w->cancels++;
	return 0;
}

static int
web_heartbeat(struct wire *w, const char *session, struct caisson_error *error)
{
	static const char text[] = "{\"type\":\"heartbeat\"}";

	(void)session;
	(void)error;
	wire_frame(&w->ch->out, WSHEAD_TEXT, text, sizeof text - 1);
	return 0;
}

const struct wire_ops web_ops = {
	.greet = web_greet,
	.call = web_call,
	.send = web_send,
	.resume = web_resume,
	.cancel = web_cancel,
	.heartbeat = web_heartbeat,
	.next = web_next,
};
