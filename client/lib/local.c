#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

/* Links to a broker: who this is, the kernel has told it (D-14). */

static int
protocol_fault(struct caisson_error *error, const char *rule)
{
	return error_set(error, "protocol", "this is no broker of this version: %s", rule);
}

static int
pending_type(void *arg, uint32_t msgid)
{
	struct wire *w = arg;

	return pending_get(&w->pending, msgid);
}

/* Queues a request; its number, or 0 with the error set. */
static uint32_t
ask(struct wire *w, enum msg_type type, const void *m, struct caisson_error *error)
{
	uint32_t msgid = ++w->last_msgid;
	int r = pending_reserve(&w->pending);

	if (r == 0)
		r = protocol_request(&w->ch->out, type, msgid, m);
	if (r < 0) {
		error_set(error, "usage", "%s",
		    r == -ERANGE ? "something in it is empty, too long or not UTF-8" : "out of memory");
		return 0;
	}
	pending_add(&w->pending, msgid, type);
	return msgid;
}

/* The next whole frame: 1; 0; -1. */
static int
take_message(struct wire *w, struct message *ret, struct caisson_error *error)
{
	struct fault fault = { 0 };
	struct slice in;
	uint32_t n;

	channel_consume(w->ch, w->held);
	w->held = 0;
	in = channel_input(w->ch);
	if (in.n < 4)
		return 0;
	n = (uint32_t)in.p[0] << 24 | (uint32_t)in.p[1] << 16 | (uint32_t)in.p[2] << 8 | in.p[3];
	if (n > FRAME_MAX)
		return protocol_fault(error, "a frame over its bound");
	if (in.n < 4 + n)
		return 0;
	if (protocol_decode(in.p + 4, n, ROLE_BROKER, ROLE_CLIENT, LINK_READY, pending_type, w, ret,
		&fault) < 0)
		return protocol_fault(error, fault.rule);
	w->held = 4 + n;
	if (ret->kind == MSG_RESPONSE)
		pending_remove(&w->pending, ret->msgid);
	return 1;
}

static int
refused(const struct message *m, struct caisson_error *error)
{
	char code[65];

	snprintf(code, sizeof code, "%.*s", (int)m->error.code.n, (const char *)m->error.code.p);
	error_set(error, code, "%.*s", (int)m->error.message.n, (const char *)m->error.message.p);
	error->retryable = m->error.retryable;
	return -1;
}

/* Waits for the answer to `msgid`. */
static int
await(struct wire *w, uint32_t msgid, struct message *ret, struct caisson_error *error)
{
	int r;

	if (msgid == 0)
		return -1;
	for (;;) {
		while ((r = take_message(w, ret, error)) > 0)
			if (ret->kind == MSG_RESPONSE && ret->msgid == msgid)
				return ret->failed ? refused(ret, error) : 0;
		if (r < 0 || wire_more(w, error) < 0)
			return -1;
	}
}

static int
local_greet(struct wire *w, const char *runtime, const char *session, struct caisson_error *error)
{
	struct msg_hello hello = { .protocol = PROTOCOL_VERSION };
	struct message m;

	(void)runtime;
	(void)session;
	return await(w, ask(w, MSG_hello, &hello, error), &m, error);
}

/* ---- calls ------------------------------------------------------------------------------- */

static struct slice
text(const char *s)
{
	return (struct slice){ (const uint8_t *)s, strlen(s) };
}

#define SET_TEXT(m, field, value)                                                              \
	((m).has_##field = (value) != NULL, (m).field = (value) != NULL ? text(value)          \
									: (struct slice){ NULL, 0 })
#define SET_UINT(m, field, value) ((m).has_##field = (value) != 0, (m).field = (value))

static uint64_t
cursor_of(const struct call *c)
{
	return c->cursor != NULL && c->cursor[0] != '\0' ? strtoull(c->cursor, NULL, 10) : 0;
}

static uint32_t
ask_acquire(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_session_acquire m = { 0 };

	SET_TEXT(m, runtime, c->runtime);
	SET_TEXT(m, idempotencyKey, c->key);
	SET_UINT(m, leaseMs, c->lease_ms);
	SET_UINT(m, timeoutMs, c->timeout_ms);
	SET_UINT(m, queue, c->queue);
	return ask(w, MSG_session_acquire, &m, error);
}

static uint32_t
ask_list(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_session_list m = { .cursor = cursor_of(c), .limit = c->limit };

	SET_TEXT(m, runtime, c->runtime);
	return ask(w, MSG_session_list, &m, error);
}

static uint32_t
ask_show(struct wire *w, const struct call *c, struct caisson_error *error)
{
	return ask(w, MSG_session_show,
	    &(struct msg_session_show){ .session = text(c->session) }, error);
}

static uint32_t
ask_release(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_session_release m = { .session = text(c->session),
		.has_mode = true,
		.mode = c->immediate ? release_mode_immediate : release_mode_drain,
		.has_wait = c->wait,
		.wait = c->wait };

	return ask(w, MSG_session_release, &m, error);
}

static uint32_t
ask_heartbeat(struct wire *w, const struct call *c, struct caisson_error *error)
{
	return ask(w, MSG_session_heartbeat,
	    &(struct msg_session_heartbeat){ .session = text(c->session) }, error);
}

static uint32_t
ask_operations(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_operation_list m = { .session = text(c->session),
		.cursor = cursor_of(c),
		.limit = c->limit };

	return ask(w, MSG_operation_list, &m, error);
}

static uint32_t
ask_operation(struct wire *w, const struct call *c, struct caisson_error *error)
{
	return ask(w, MSG_operation_show,
	    &(struct msg_operation_show){ .operation = text(c->operation) }, error);
}

static uint32_t
ask_files(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_file_list m = { .session = text(c->session), .limit = c->limit };

	SET_TEXT(m, path, c->path);
	m.has_cursor = c->cursor != NULL && c->cursor[0] != '\0';
	m.cursor = text(m.has_cursor ? c->cursor : "");
	return ask(w, MSG_file_list, &m, error);
}

static uint32_t
ask_stat(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_file_stat m = { .session = text(c->session), .path = text(c->path) };

	return ask(w, MSG_file_stat, &m, error);
}

static uint32_t
ask_read(struct wire *w, const struct call *c, struct caisson_error *error)
{
	struct msg_file_read m = { .session = text(c->session),
		.path = text(c->path),
		.has_offset = true,
		.offset = c->offset,
		.has_length = true,
		.length = c->length < FRAME_MAX ? c->length : FRAME_MAX };

	return ask(w, MSG_file_read, &m, error);
}

static uint32_t (*const asks[])(
    struct wire *w, const struct call *c, struct caisson_error *error) = {
	[VERB_ACQUIRE] = ask_acquire,
	[VERB_LIST] = ask_list,
	[VERB_SHOW] = ask_show,
	[VERB_RELEASE] = ask_release,
	[VERB_HEARTBEAT] = ask_heartbeat,
	[VERB_OPERATIONS] = ask_operations,
	[VERB_OPERATION] = ask_operation,
	[VERB_FILES] = ask_files,
	[VERB_STAT] = ask_stat,
	[VERB_READ] = ask_read,
};

static void
add_text(struct buf *out, const char *s)
{
	buf_add(out, s, strlen(s));
}

/* As the gateway's. */
static void
write_numbered_page(struct buf *out, const char *name, struct slice list, uint64_t next)
{
	char number[24];

	snprintf(number, sizeof number, "%" PRIu64, next);
	json_write_page(
	    name, list, next != 0 ? text(number) : (struct slice){ NULL, 0 }, out);
}

static void
write_reply(const struct message *m, struct buf *out)
{
	char number[64];

	switch (m->type) {
	case MSG_session_acquire_reply:
		json_write(m->u.session_acquire_reply.session, out);
		break;
	case MSG_session_show_reply:
		json_write(m->u.session_show_reply.session, out);
		break;
	case MSG_session_release_reply:
		json_write(m->u.session_release_reply.session, out);
		break;
	case MSG_session_list_reply:
		write_numbered_page(out, "sessions", m->u.session_list_reply.sessions,
		    m->u.session_list_reply.next);
		break;
	case MSG_operation_list_reply:
		write_numbered_page(out, "operations", m->u.operation_list_reply.operations,
		    m->u.operation_list_reply.next);
		break;
	case MSG_operation_show_reply:
		json_write(m->u.operation_show_reply.operation, out);
		break;
	case MSG_file_list_reply:
		json_write_page("entries", m->u.file_list_reply.entries,
		    m->u.file_list_reply.has_next ? m->u.file_list_reply.next
						  : (struct slice){ NULL, 0 },
		    out);
		break;
	case MSG_file_stat_reply:
		json_write(m->u.file_stat_reply.entry, out);
		break;
	case MSG_file_read_reply:
		buf_add(out, m->u.file_read_reply.content.p, m->u.file_read_reply.content.n);
		break;
	case MSG_session_heartbeat_reply:
		snprintf(number, sizeof number, "{\"leaseUntil\":%" PRIu64 "}",
		    m->u.session_heartbeat_reply.leaseUntil);
		add_text(out, m->u.session_heartbeat_reply.has_leaseUntil ? number : "{}");
		break;
	default:
		break;
	}
}

static int
local_call(struct wire *w, const struct call *c, struct buf *ret, struct caisson_error *error)
{
	struct message m;

	if (c->cursor != NULL && (c->verb == VERB_LIST || c->verb == VERB_OPERATIONS) &&
	    (strlen(c->cursor) > 19 || c->cursor[strspn(c->cursor, "0123456789")] != '\0'))
		return error_set(error, "usage", "cursor: %.40s is none of a page before", c->cursor);
	if (await(w, asks[c->verb](w, c, error), &m, error) < 0)
		return -1;
	write_reply(&m, ret);
	return ret->failed ? error_set(error, "transport", "out of memory") : 0;
}

/* ---- a session --------------------------------------------------------------------------- */

static const enum operation_kind kinds[] = {
	[CAISSON_TURN] = operation_kind_turn,
	[CAISSON_COMMAND] = operation_kind_command,
	[CAISSON_WRITE_FILE] = operation_kind_writeFile,
	[CAISSON_CREATE_DIRECTORY] = operation_kind_createDirectory,
	[CAISSON_DELETE_FILE] = operation_kind_deleteFile,
	[CAISSON_RENAME_FILE] = operation_kind_renameFile,
};

static void
pack_strings(struct buf *b, const char *const *list)
{
	uint32_t n = 0;

	while (list[n] != NULL)
		n++;
	pack_array(b, n);
	for (uint32_t i = 0; i < n; i++)
		pack_str(b, list[i]);
}

/* NAME=VALUE each; the caller has checked that. */
static void
pack_env(struct buf *b, const char *const *env)
{
	uint32_t n = 0;

	while (env[n] != NULL)
		n++;
	pack_map(b, n);
	for (uint32_t i = 0; i < n; i++) {
		const char *equals = strchr(env[i], '=');

		pack_str_n(b, env[i], (size_t)(equals - env[i]));
		pack_str(b, equals + 1);
	}
}

static int
local_send(struct wire *w, const char *session, const struct caisson_operation *op,
    struct caisson_error *error)
{
	struct msg_operation_submit m = { .kind = kinds[op->kind] };
	struct buf message = { 0 }, argv = { 0 }, env = { 0 };
	char err[JSON_ERROR_MAX];
	int r = 0;

	SET_TEXT(m, session, session);
	SET_TEXT(m, idempotencyKey, op->idempotency_key);
	SET_UINT(m, timeoutMs, op->timeout_ms);
	SET_UINT(m, maxSteps, op->max_steps);
	SET_UINT(m, maxToolCalls, op->max_tool_calls);
	SET_TEXT(m, purpose, op->purpose);
	SET_TEXT(m, shell, op->shell);
	SET_TEXT(m, directory, op->directory);
	SET_TEXT(m, path, op->path);
	SET_TEXT(m, to, op->to);
	m.has_append = m.append = op->append;
	m.has_recursive = m.recursive = op->recursive;
	if (op->message != NULL && (r = json_read(op->message, &message, err)) < 0)
		error_set(error, "usage", "message: %s", r == -ENOMEM ? "out of memory" : err);
	if (op->argv != NULL)
		pack_strings(&argv, op->argv);
	if (op->env != NULL)
		pack_env(&env, op->env);
	m.has_message = op->message != NULL;
	m.message = buf_slice(&message);
	m.has_argv = op->argv != NULL;
	m.argv = buf_slice(&argv);
	m.has_env = op->env != NULL;
	m.env = buf_slice(&env);
	m.has_content = op->content != NULL || op->kind == CAISSON_WRITE_FILE;
	m.content = (struct slice){ op->content, op->content_bytes };
	if (r == 0 && ask(w, MSG_operation_submit, &m, error) == 0)
		r = -1;
	buf_finish(&message);
	buf_finish(&argv);
	buf_finish(&env);
	return r < 0 ? -1 : 0;
}

static int
local_resume(
    struct wire *w, const char *operation, uint64_t after, struct caisson_error *error)
{
	struct msg_operation_attach m = { .has_operation = true,
		.operation = text(operation),
		.has_after = true,
		.after = after };

	return ask(w, MSG_operation_attach, &m, error) == 0 ? -1 : 0;
}

static int
local_cancel(struct wire *w, const char *operation, struct caisson_error *error)
{
	struct msg_operation_cancel m = { .operation = text(operation) };

	return ask(w, MSG_operation_cancel, &m, error) == 0 ? -1 : 0;
}

static int
local_heartbeat(struct wire *w, const char *session, struct caisson_error *error)
{
	struct msg_session_heartbeat m = { .session = text(session) };

	return ask(w, MSG_session_heartbeat, &m, error) == 0 ? -1 : 0;
}

/* A refused cancel is one that came too late, and a refused heartbeat is told by what
 * follows. */
static bool
is_of_sending(const struct message *m)
{
	return m->type == MSG_operation_submit_reply || m->type == MSG_operation_attach_reply;
}

static int
local_next(struct wire *w, struct incoming *ret, struct caisson_error *error)
{
	struct message m;
	int r;

	while ((r = take_message(w, &m, error)) > 0) {
		*ret = (struct incoming){ 0 };
		if (m.type == MSG_operation_event) {
			ret->event = m.u.operation_event;
			return 1;
		}
		if (m.kind == MSG_RESPONSE && m.failed && is_of_sending(&m)) {
			ret->refused = true;
			refused(&m, &ret->refusal);
			return 1;
		}
	}
	return r;
}

const struct wire_ops local_ops = {
	.greet = local_greet,
	.call = local_call,
	.send = local_send,
	.resume = local_resume,
	.cancel = local_cancel,
	.heartbeat = local_heartbeat,
	.next = local_next,
};
