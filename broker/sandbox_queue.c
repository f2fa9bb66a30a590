#include "broker/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/payload.h"
#include "broker/record.h"
#include "broker/rest.h"
#include "broker/session.h"
#include "broker/turn.h"
#include "broker/workspace.h"
#include "common/stop.h"

/*
 * One FIFO queue a session (OP-5).  What is admitted waits until the one before it is over:
 * its terminal event is told and its processes are reaped, so that no two of them are in
 * the workspace at once.
 */

static const struct refusal closing = { "failed_precondition",
	"the session is being released, or was: acquire another", false };
static const struct refusal unconfigured = { "failed_precondition",
	"the runtime of this session is not configured any more: release it", false };
static const struct refusal not_any_more = { "permission_denied",
	"the runtime of this session is not this principal's any more: release it", false };
static const struct refusal other_runtime = { "invalid_argument",
	"runtime: is not the session's; leave it out", false };
static const struct refusal other_kind = { "failed_precondition",
	"the runtime of this session does not run operations of this kind", false };
static const struct refusal no_workspace = { "failed_precondition",
	"the runtime of this session has no workspace: see runtimes[].workspace", false };
static const struct refusal lost_workspace = { "failed_precondition",
	"the workspace of this session is lost: release it, and acquire another", false };
static const struct refusal queue_full = { "resource_exhausted",
	"as many operations of this session wait as may; wait for one to end", true };
static const struct refusal all_full = { "resource_exhausted",
	"too much waits in the sessions of this daemon; try again", true };
static const struct refusal zero_timeout = { "invalid_argument",
	"timeoutMs: is at least 1, or left out", false };

static bool
is_file_operation(const struct operation *op)
{
	return op->kind != operation_kind_turn && op->kind != operation_kind_command;
}

/* ---- admission ------------------------------------------------------------------------ */

static int
find_runtime(const struct config *config, const char *id)
{
	for (size_t i = 0; i < config->nruntimes; i++)
		if (strcmp(config->runtimes[i].id, id) == 0)
			return (int)i;
	return -1;
}

/* May an operation of that kind run in it, by the configuration of now? */
static const struct refusal *
kind_refusal(const struct sandbox *sb, const struct config_runtime *r, enum operation_kind kind)
{
	if (r->kind != sb->kind || (r->kind == operation_kind_command && !r->builtin))
		return &unconfigured;
	if (sb->has_workspace && !sb->has_files)
		return &lost_workspace;
	if (kind == operation_kind_turn || kind == operation_kind_command)
		return kind == sb->kind ? NULL : &other_kind;
	return sb->has_workspace ? NULL : &no_workspace;
}

const struct refusal *
sandbox_refusal(struct client *c, const struct msg_operation_submit *m, struct sandbox **ret,
    int *ret_runtime)
{
	struct broker *b = c->broker;
	struct sandbox *sb = sandbox_find_for(c, m->session);
	const struct refusal *no;

	if (!b->ready || b->shutting_down)
		return &refusal_not_ready;
	if (sb == NULL || sb->state == sandbox_state_registering)
		return &refusal_no_session;
	if (sb->state != sandbox_state_ready)
		return &closing;
	if (!principal_may_runtime(c->principal, sb->runtime))
		return &not_any_more;
	if (!journal_available(b->journal))
		return &refusal_no_journal;
	if (m->has_runtime && !slice_is(m->runtime, sb->runtime))
		return &other_runtime;
	if (m->has_timeoutMs && m->timeoutMs == 0)
		return &zero_timeout;
	*ret_runtime = find_runtime(b->config, sb->runtime);
	if (*ret_runtime < 0)
		return &unconfigured;
	no = kind_refusal(sb, &b->config->runtimes[*ret_runtime], m->kind);
	if (no != NULL)
		return no;
	if (!queue_has_room(sb->queued, sb->running != NULL, sb->queue_max))
		return &queue_full;
	if (b->queued_bytes + payload_bytes(m) > SANDBOX_QUEUED_BYTES_MAX)
		return &all_full;
	*ret = sb;
	return NULL;
}

uint32_t
sandbox_timeout_ms(const struct sandbox *sb, const struct config *config,
    const struct msg_operation_submit *m)
{
	uint32_t ms = sb->timeout_ms;

	if (config->operation_timeout_ms < ms)
		ms = config->operation_timeout_ms;
	if (m->kind == operation_kind_turn && config->timeout_ms != 0 &&
	    config->timeout_ms < ms)
		ms = config->timeout_ms;
	if (m->has_timeoutMs && m->timeoutMs < ms)
		ms = (uint32_t)m->timeoutMs;
	return ms;
}

void
sandbox_enqueue(struct operation *op)
{
	struct sandbox *sb = op->sandbox;

	op->queued = true;
	TAILQ_INSERT_TAIL(&sb->queue, op, queue);
	sb->queued++;
	sb->admitted++;
	op->broker->queued_bytes += op->queued_bytes;
}

static void
dequeue(struct operation *op)
{
	if (!op->queued)
		return;
	op->queued = false;
	TAILQ_REMOVE(&op->sandbox->queue, op, queue);
	op->sandbox->queued--;
	op->broker->queued_bytes -= op->queued_bytes;
}

/* ---- execution ------------------------------------------------------------------------ */

/* The time of an operation counts from here: what waits loses none of it. */
static void
begin(struct operation *op)
{
	struct broker *b = op->broker;
	struct record r;

	feed_begin(op->feed);
	op->deadline_at_ms = b->now_ms + op->timeout_ms;
	record_init(&r, b, op, "operation.started");
	record_append(&r, JOURNAL_OUTCOME, NULL, NULL);
	STOP_POINT("broker.operation_started");
	if (is_file_operation(op)) {
		workspace_begin(op);
	} else if (op->kind == operation_kind_turn) {
		turn_set_drain(op);
		turn_admit(op);
	} else {
		session_start(op->session);
	}
	session_arm(op->session);
}

void
sandbox_next(struct sandbox *sb)
{
	struct operation *op = TAILQ_FIRST(&sb->queue);

	/* One whose record is on its way comes back here when that is durable. */
	if (sb->running != NULL || op == NULL || !op->accepted || rest_leaves(sb))
		return;
	dequeue(op);
	sb->running = op;
	begin(op);
}

void
sandbox_on_rested(struct sandbox *sb)
{
	struct operation *op = sb->running;
	bool awaited = sb->awaited;

	sb->awaited = false;
	if (op == NULL)
		sandbox_next(sb);
	else if (awaited && !op->ended)
		session_start(op->session);
	sandbox_check(sb);
}

/* ---- a command ------------------------------------------------------------------------ */

void
sandbox_run_command(struct operation *op)
{
	struct link *l = op->session->worker->link;

	if (op->ended || op->payload == NULL)
		return;
	if (payload_send_command(op->payload, l) < 0) {
		op->limit_name = "command request";
		operation_end(op, ENDING_limit);
		return;
	}
	payload_destroy(op->payload);
	op->payload = NULL;
	link_set_state(l, LINK_BUSY);
	STOP_POINT("broker.command_sent");
}

void
sandbox_on_command(struct operation *op, const struct message *m)
{
	bool missing = m->failed && slice_is(m->error.code, "not_found");

	if (op->ended || !m->failed)
		return; /* the end of its link says that it runs */
	op->layer = LAYER_EXEC;
	op->error = missing ? ENOENT : EACCES;
	op->code = missing ? "not_found" : "permission_denied";
	snprintf(op->failure, sizeof op->failure, "%.*s", (int)m->error.message.n,
	    (const char *)m->error.message.p);
	operation_end(op, ENDING_start_failed);
}

/* ---- endings -------------------------------------------------------------------------- */

void
sandbox_on_ended(struct operation *op)
{
	dequeue(op);
	workspace_on_ended(op, op->broker->now_ms + op->config->kill_grace_ms);
}

void
sandbox_on_over(struct operation *op)
{
	struct sandbox *sb = op->sandbox;

	dequeue(op);
	if (sb->running == op)
		sb->running = NULL;
	sandbox_next(sb);
	sandbox_check(sb);
}
