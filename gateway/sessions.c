#include "gateway/sessions.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/request_key.h"
#include "common/walk.h"
#include "gateway/caller.h"

#define PAGE_DEFAULT   100
#define PAGE_MAX       1000
#define NAME_MAX_BYTES 256 /* of a runtime's id */
#define ID_MAX_BYTES   64  /* of an operation's */

/* The cursor of a listing whose pages are numbered. */
static void
answer_page(struct caller *x, const char *name, struct slice list, uint64_t next)
{
	char text[24] = "";

	if (next > 0)
		snprintf(text, sizeof(text), "%" PRIu64, next);
	caller_answer_page(x, name, list, slice_of(text));
}

static bool
read_page(struct caller *x, uint64_t *ret_cursor, uint64_t *ret_limit)
{
	return caller_number(x, "limit", 1, PAGE_MAX, PAGE_DEFAULT, ret_limit) &&
	       caller_number(x, "cursor", 0, UINT64_MAX, 0, ret_cursor);
}

/* ---- acquire ----------------------------------------------------------------------------- */

#define MEMBER(name, max)                                                                      \
	JSON_MEMBER(#name, NUMBER, false, 0, max, struct msg_session_acquire, name)
static const struct json_member acquire_members[] = {
	MEMBER(leaseMs, UINT32_MAX),
	MEMBER(timeoutMs, UINT32_MAX),
	MEMBER(queue, UINT32_MAX),
	{ .name = NULL },
};

static void
on_acquired(struct caller *x, const struct message *m)
{
	const struct msg_session_acquire_reply *reply = &m->u.session_acquire_reply;

	caller_answer_value(
	    x, reply->has_existing && reply->existing ? 200 : 201, reply->session);
}

void
sessions_acquire(struct caller *x)
{
	const struct request *r = caller_request(x);
	struct msg_session_acquire m = { .has_runtime = true, .runtime = routes_runtime(r) };
	int key = fields_key(r, &m.idempotencyKey), trace = fields_trace(r, &m.trace);
	struct buf json = { 0 };

	m.has_idempotencyKey = key > 0;
	m.has_trace = trace > 0;
	if (m.runtime.n > NAME_MAX_BYTES)
		caller_refuse(x, "not_found", "there is no such runtime");
	else if (key < 0)
		caller_refuse(x, "invalid_argument",
		    "Idempotency-Key: is not " REQUEST_KEY_RULE);
	else if (trace < 0)
		caller_refuse(x, "invalid_argument", "traceparent: is not of the W3C's form");
	else if (caller_body(x, acquire_members, &m, &json))
		caller_ask(x, MSG_session_acquire, &m, on_acquired);
	buf_finish(&json);
}

/* ---- one, and all ------------------------------------------------------------------------ */

static void
on_sessions(struct caller *x, const struct message *m)
{
	answer_page(
	    x, "sessions", m->u.session_list_reply.sessions, m->u.session_list_reply.next);
}

void
sessions_list(struct caller *x)
{
	struct msg_session_list m = { .has_runtime = true,
		.runtime = routes_runtime(caller_request(x)) };

	if (m.runtime.n > NAME_MAX_BYTES)
		caller_refuse(x, "not_found", "there is no such runtime");
	else if (read_page(x, &m.cursor, &m.limit))
		caller_ask(x, MSG_session_list, &m, on_sessions);
}

void
sessions_show(struct caller *x)
{
	caller_answer_value(x, 200, x->session);
}

static void
on_released(struct caller *x, const struct message *m)
{
	struct slice session = m->u.session_release_reply.session;
	struct value state;
	bool over = value_get(session, "state", &state) && state.type == VALUE_STR &&
		    (slice_is(state.bytes, "closed") || slice_is(state.bytes, "failed"));

	caller_answer_value(x, over ? 200 : 202, session);
}

void
sessions_release(struct caller *x)
{
	const struct request *r = caller_request(x);
	struct msg_session_release m = { .session = routes_session(r),
		.mode = release_mode_drain };
	struct slice mode, wait;

	m.has_mode = http_param(r, "mode", &mode);
	m.has_wait = http_param(r, "wait", &wait);
	if (m.has_mode && slice_is(mode, "immediate"))
		m.mode = release_mode_immediate;
	else if (m.has_mode && !slice_is(mode, "drain")) {
		caller_refuse(x, "invalid_argument", "mode: is neither drain nor immediate");
		return;
	}
	m.wait = m.has_wait && slice_is(wait, "true");
	if (m.has_wait && !m.wait && !slice_is(wait, "false"))
		caller_refuse(x, "invalid_argument", "wait: is neither true nor false");
	else
		caller_ask(x, MSG_session_release, &m, on_released);
}

static void
on_heartbeat(struct caller *x, const struct message *m)
{
	const struct msg_session_heartbeat_reply *reply = &m->u.session_heartbeat_reply;
	struct buf json = { 0 };
	char text[48] = "{}";

	if (reply->has_leaseUntil)
		snprintf(text, sizeof(text), "{\"leaseUntil\":%" PRIu64 "}", reply->leaseUntil);
	buf_add(&json, text, strlen(text));
	caller_answer(x, 200, &json);
	buf_finish(&json);
}

void
sessions_heartbeat(struct caller *x)
{
	static const struct json_member nothing[] = { { .name = NULL } };
	struct msg_session_heartbeat m = { .session = routes_session(caller_request(x)) };
	struct buf json = { 0 };

	if (caller_body(x, nothing, &m, &json))
		caller_ask(x, MSG_session_heartbeat, &m, on_heartbeat);
	buf_finish(&json);
}

/* ---- operations -------------------------------------------------------------------------- */

static void
on_operations(struct caller *x, const struct message *m)
{
	answer_page(x, "operations", m->u.operation_list_reply.operations,
	    m->u.operation_list_reply.next);
}

void
sessions_list_operations(struct caller *x)
{
	struct msg_operation_list m = { .session = routes_session(caller_request(x)) };

	if (read_page(x, &m.cursor, &m.limit))
		caller_ask(x, MSG_operation_list, &m, on_operations);
}

static void
on_operation(struct caller *x, const struct message *m)
{
	struct slice operation = m->u.operation_show_reply.operation;
	struct value session;

	if (!value_get(operation, "session", &session) || session.type != VALUE_STR ||
	    !slice_equal(session.bytes, routes_session(caller_request(x))))
		caller_refuse(x, "not_found", "this session has no such operation");
	else
		caller_answer_value(x, 200, operation);
}

void
sessions_show_operation(struct caller *x)
{
	struct msg_operation_show m = { .operation = routes_operation(caller_request(x)) };

	if (m.operation.n > ID_MAX_BYTES)
		caller_refuse(x, "not_found", "this session has no such operation");
	else
		caller_ask(x, MSG_operation_show, &m, on_operation);
}
