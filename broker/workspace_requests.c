#include "broker/workspace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/payload.h"
#include "broker/sandbox.h"
#include "broker/session.h"
#include "common/util.h"
#include "common/walk.h"

/* What is asked of a workspace's child, and what its answers become. */

#define READ_MAX (RESULT_MAX - 1024) /* bytes of one file.read, as the provider has it */
#define ACTION	 "client" /* decided: the whole workspace is its client's */

static const struct wire_error no_answer = {
	.code = { (const uint8_t *)"unavailable", 11 },
	.message = { (const uint8_t *)"the files of the session cannot be reached now", 46 },
	.retryable = true,
};

/* Its ending says it. */
static const struct wire_error outcome_unknown = { .retryable = false };

/* ---- one ------------------------------------------------------------------------------ */

static struct request *
request_create(struct workspace *w, const char *tool)
{
	struct request *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	r->workspace = w;
	r->tool = tool;
	broker_mint(r->id, "c");
	TAILQ_INSERT_TAIL(&w->waiting, r, entry);
	w->nrequests++;
	return r;
}

static void
request_destroy(struct requests *in, struct request *r)
{
	TAILQ_REMOVE(in, r, entry);
	r->workspace->nrequests--;
	if (r->client != NULL)
		LIST_REMOVE(r, of_client);
	buf_finish(&r->arguments);
	free(r);
}

bool
request_send(struct workspace *w, struct request *r)
{
	static const uint8_t whole[] = { 0x90 }; /* no segments */
	uint64_t now = w->child.broker->now_ms;
	const struct operation *op = r->op;
	struct msg_tool_call m = {
		.call = slice_of(r->id),
		.tool = slice_of(r->tool),
		.arguments = buf_slice(&r->arguments),
		.action = slice_of(ACTION),
		.namespace = slice_of(WORKSPACE_NAMESPACE),
		.path = { whole, sizeof whole },
		.timeoutMs = op == NULL || op->deadline_at_ms <= now ? UINT32_MAX
								      : op->deadline_at_ms - now,
	};

	if (link_request(w->child.link, MSG_tool_call, &m, &r->msgid) < 0)
		return false;
	r->sent_at_ms = now;
	buf_finish(&r->arguments);
	TAILQ_REMOVE(&w->waiting, r, entry);
	TAILQ_INSERT_TAIL(&w->sent, r, entry);
	return true;
}

/* ---- what an operation comes to ------------------------------------------------------- */

/* As the provider says it, if that is one of ours. */
static const char *
canonical(struct slice code)
{
	static const char *const codes[] = { "invalid_argument", "permission_denied",
		"not_found", "already_exists", "failed_precondition", "resource_exhausted",
		"deadline_exceeded", "unavailable" };

	for (size_t i = 0; i < countof(codes); i++)
		if (slice_is(code, codes[i]))
			return codes[i];
	return "internal";
}

static void
operation_done(struct operation *op, const struct msg_tool_call_reply *reply,
    const struct wire_error *error)
{
	op->at_work = false;
	session_arm(op->session); /* it may be the last thing the session waited for */
	if (op->ended)
		return;
	if (error == &outcome_unknown) {
		operation_end(op, ENDING_outcome_unknown);
		return;
	}
	if (error == NULL) {
		buf_add(&op->result, reply->output.p, reply->output.n);
		operation_end(op, ENDING_completed);
		return;
	}
	op->code = canonical(error->code);
	snprintf(op->failure, sizeof op->failure, "%.*s", (int)error->message.n,
	    (const char *)error->message.p);
	operation_end(op, ENDING_failed);
}

/* ---- what a client gets --------------------------------------------------------------- */

static bool
member(struct slice map, const char *key, enum value_type type, struct value *ret)
{
	return value_get(map, key, ret) && ret->type == type;
}

/* The provider's answer as the row of the request has it; false if it is no such answer. */
static bool
client_answer(const struct request *r, struct slice output)
{
	struct link *l = r->client->link;
	struct msg_file_list_reply list = { 0 };
	struct msg_file_read_reply read = { 0 };
	struct msg_file_stat_reply stat = { .entry = output };
	struct value a, b;

	if (r->type == MSG_file_stat)
		return link_reply(l, MSG_file_stat_reply, r->client_msgid, &stat) == 0;
	if (r->type == MSG_file_read) {
		if (!member(output, "content", VALUE_BIN, &a) ||
		    !member(output, "size", VALUE_UINT, &b))
			return false;
		read.content = a.bytes;
		read.size = b.uint;
		return link_reply(l, MSG_file_read_reply, r->client_msgid, &read) == 0;
	}
	if (!member(output, "entries", VALUE_ARRAY, &a))
		return false;
	list.entries = a.raw;
	list.has_next = member(output, "next", VALUE_STR, &b);
	if (list.has_next)
		list.next = b.bytes;
	return link_reply(l, MSG_file_list_reply, r->client_msgid, &list) == 0;
}

static void
client_refuse(const struct request *r, const struct wire_error *error)
{
	char text[ERROR_MESSAGE_MAX];

	snprintf(text, sizeof text, "%.*s", (int)error->message.n,
	    (const char *)error->message.p);
	link_refuse(r->client->link, r->client_msgid, canonical(error->code), text,
	    error->retryable);
}

/* ---- answers -------------------------------------------------------------------------- */

static void
request_finish(struct requests *in, struct request *r, const struct msg_tool_call_reply *reply,
    const struct wire_error *error)
{
	static const struct wire_error nonsense = {
		.code = { (const uint8_t *)"internal", 8 },
		.message = { (const uint8_t *)"the files of the session made no sense", 38 },
	};
	struct operation *op = r->op;

	if (r->client != NULL) {
		if (error != NULL)
			client_refuse(r, error);
		else if (!client_answer(r, reply->output))
			client_refuse(r, &nonsense);
	}
	request_destroy(in, r);
	if (op != NULL)
		operation_done(op, reply, error);
}

bool
request_answer(struct workspace *w, const struct message *m)
{
	const struct msg_tool_call_reply *reply = &m->u.tool_call_reply;
	struct request *r;
	struct slice output;

	TAILQ_FOREACH (r, &w->sent, entry)
		if (r->msgid == m->msgid)
			break;
	if (r == NULL || (!m->failed && !slice_is(reply->callId, r->id)))
		return false;
	output = reply->output;
	if (m->failed)
		request_finish(&w->sent, r, NULL, &m->error);
	else if (reply->status == call_status_succeeded && reply->has_output &&
	    value_next(&output).type == VALUE_MAP)
		request_finish(&w->sent, r, reply, NULL);
	else
		request_finish(
		    &w->sent, r, NULL, reply->has_error ? &reply->error : &no_answer);
	return true;
}

void
requests_fail(struct requests *all, bool sent)
{
	struct request *r;

	while ((r = TAILQ_FIRST(all)) != NULL)
		request_finish(all, r, NULL,
		    sent && r->op != NULL ? &outcome_unknown : &no_answer);
}

static void
fail_reads(struct requests *all)
{
	struct request *r, *next;

	for (r = TAILQ_FIRST(all); r != NULL; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->op == NULL)
			request_finish(all, r, NULL, &no_answer);
	}
}

void
requests_fail_reads(struct workspace *w)
{
	fail_reads(&w->waiting);
	fail_reads(&w->sent);
}

void
requests_forget(struct workspace *w)
{
	struct request *r;

	while ((r = TAILQ_FIRST(&w->waiting)) != NULL)
		request_destroy(&w->waiting, r);
	while ((r = TAILQ_FIRST(&w->sent)) != NULL)
		request_destroy(&w->sent, r);
}

bool
request_withdraw(struct workspace *w, struct operation *op)
{
	struct msg_tool_cancel cancel = { 0 };
	struct request *r;

	TAILQ_FOREACH (r, &w->waiting, entry)
		if (r->op == op) {
			request_destroy(&w->waiting, r);
			op->at_work = false;
			return false;
		}
	TAILQ_FOREACH (r, &w->sent, entry)
		if (r->op == op) {
			cancel.call = slice_of(r->id);
			if (w->child.link != NULL)
				link_notify(w->child.link, MSG_tool_cancel, &cancel);
			return true;
		}
	return false;
}

/* ---- requests ------------------------------------------------------------------------- */

void
workspace_begin(struct operation *op)
{
	struct workspace *w = workspace_of_sandbox(op->sandbox);
	struct request *r = NULL;
	struct buf arguments = { 0 };
	const char *tool = payload_pack_call(op->payload, &arguments);

	if (w != NULL && !arguments.failed)
		r = request_create(w, tool);
	payload_destroy(op->payload);
	op->payload = NULL;
	if (r == NULL) {
		buf_finish(&arguments);
		op->code = "resource_exhausted";
		snprintf(op->failure, sizeof op->failure, "out of memory");
		operation_end(op, ENDING_failed);
		return;
	}
	r->op = op;
	r->arguments = arguments;
	op->at_work = true;
	workspace_ask(w);
}

/* What the request says, as the provider's tool takes it; returns the tool, or NULL with
 * `fault` set. */
static const char *
pack_read(struct buf *b, const struct message *m, const char **fault)
{
	const struct msg_file_list *l = &m->u.file_list;
	const struct msg_file_read *r = &m->u.file_read;
	bool list = m->type == MSG_file_list, read = m->type == MSG_file_read;
	bool has_path = !list || l->has_path;
	struct slice path = list ? l->path : read ? r->path : m->u.file_stat.path;

	*fault = has_path ? payload_path_fault(path) : NULL;
	if (list && l->limit == 0)
		*fault = "limit: is at least 1";
	if (read && r->has_length && r->length == 0)
		*fault = "length: is at least 1";
	if (*fault != NULL)
		return NULL;
	pack_map(b, has_path + (list ? 1u + l->has_cursor : 0) +
		(read ? 1u + r->has_offset : 0));
	if (has_path)
		pack_str(b, "path"), pack_str_n(b, path.p, path.n);
	if (list) {
		pack_str(b, "limit"), pack_uint(b, l->limit);
		if (l->has_cursor)
			pack_str(b, "cursor"), pack_str_n(b, l->cursor.p, l->cursor.n);
		return "workspace.list";
	}
	if (!read)
		return "workspace.stat";
	pack_str(b, "length");
	pack_uint(b, r->has_length && r->length < READ_MAX ? r->length : READ_MAX);
	if (r->has_offset)
		pack_str(b, "offset"), pack_uint(b, r->offset);
	return "workspace.read";
}

static struct slice
session_named(const struct message *m)
{
	return m->type == MSG_file_list ? m->u.file_list.session
	    : m->type == MSG_file_read	? m->u.file_read.session
					: m->u.file_stat.session;
}

static const struct refusal *
read_refusal(struct client *c, struct slice id, struct sandbox **ret)
{
	static const struct refusal over = { "failed_precondition",
		"the session is being released, or was", false };
	static const struct refusal none = { "failed_precondition",
		"the session has no workspace: see runtimes[].workspace",
		false };
	static const struct refusal busy = { "resource_exhausted",
		"as many requests for files of this session wait as may; try again", true };
	struct sandbox *sb = *ret = sandbox_find_for(c, id);

	if (sb == NULL || sb->state == sandbox_state_registering)
		return &refusal_no_session;
	if (sb->state != sandbox_state_ready || c->broker->shutting_down)
		return &over;
	if (!sb->has_files)
		return &none;
	return sb->workspace != NULL && sb->workspace->nrequests >= WORKSPACE_REQUESTS_MAX
	    ? &busy : NULL;
}

void
workspace_handle(struct client *c, const struct message *m)
{
	struct sandbox *sb;
	const struct refusal *no = read_refusal(c, session_named(m), &sb);
	struct buf arguments = { 0 };
	struct workspace *w;
	struct request *r = NULL;
	const char *fault, *tool;

	if (no != NULL) {
		refusal_send(c, m->msgid, no);
		return;
	}
	tool = pack_read(&arguments, m, &fault);
	if (tool == NULL) {
		link_refuse(c->link, m->msgid, "invalid_argument", fault, false);
		return;
	}
	w = workspace_of_sandbox(sb);
	if (w != NULL && !arguments.failed)
		r = request_create(w, tool);
	if (r == NULL) {
		buf_finish(&arguments);
		refusal_send(c, m->msgid, &refusal_no_memory);
		return;
	}
	r->arguments = arguments;
	r->client = c;
	r->type = m->type;
	r->client_msgid = m->msgid;
	LIST_INSERT_HEAD(&c->requests, r, of_client);
	workspace_ask(w);
}

void
workspace_forget_client(struct client *c)
{
	struct request *r;

	while ((r = LIST_FIRST(&c->requests)) != NULL) {
		LIST_REMOVE(r, of_client);
		r->client = NULL; /* what it asked for comes, and goes nowhere */
	}
}
