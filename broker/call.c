#include "broker/call_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/operation.h"
#include "broker/place.h"
#include "broker/provider.h"
#include "broker/record.h"
#include "broker/session.h"
#include "broker/standing.h"
#include "broker/turn.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

/*
 * One tool call.  The order of the checks is part of the contract (TU-19 to TU-29, then
 * the kernel's), each refusal has its own code, and a refusal costs nothing that an
 * effect would have cost.
 *
 *   invoke -> checks -> decision -> record -> [durable] -> look again -> dispatch -> settle
 *
 * Nothing is ever tried twice (D-10).
 */

/* ---- after the record ----------------------------------------------------------------- */

static void
outcome_record(struct operation *op, struct call *c, enum record_outcome outcome,
    const char *code, const char *cause, size_t bytes)
{
	bool started = c->state == CALL_DISPATCHED;
	struct record r;

	record_init(&r, op->broker, op, "tool.invoked");
	RECORD_TEXT(&r.m, call, c->id);
	RECORD_SLICE(&r.m, callId, c->name);
	RECORD_TEXT(&r.m, tool, c->tool->name);
	RECORD_TEXT(&r.m, grant, c->grant->id);
	r.m.has_outcome = r.m.has_source = true;
	r.m.outcome = outcome;
	r.m.source = record_source_kernel;
	if (code != NULL && code[0] != '\0')
		RECORD_TEXT(&r.m, reason, code);
	if (cause != NULL)
		RECORD_TEXT(&r.m, cause, cause);
	r.m.has_bytes = outcome == record_outcome_succeeded;
	r.m.bytes = bytes;
	r.m.has_notStarted = c->key != NULL && !started;
	r.m.notStarted = true;
	record_append(&r, JOURNAL_OUTCOME, NULL, NULL);
	if (!started) /* its key is free: nothing was done under it */
		call_replay_settle(c, REPLAY_new, NULL);
	else if (outcome == record_outcome_interrupted)
		call_replay_settle(c, REPLAY_interrupted, NULL);
}

/* A use that is given back once that is on record. */
struct release {
	struct broker *broker;
	struct grant *grant;
	TAILQ_ENTRY(release) link; /* broker.releases */
};

static void
release_destroy(struct release *r)
{
	TAILQ_REMOVE(&r->broker->releases, r, link);
	r->grant->users--;
	free(r);
}

void
call_releases_finish(struct broker *b)
{
	struct release *r;

	while ((r = TAILQ_FIRST(&b->releases)) != NULL)
		release_destroy(r);
}

static void
release_on_record(void *arg, bool ok)
{
	struct release *r = arg;

	/* Only a release that stands in the record gives the use back (D-10). */
	if (ok)
		standing_give_back(r->broker->standing, r->grant);
	release_destroy(r);
}

/* The effect provably did not start: its use is given back. */
static void
call_release(struct broker *b, struct operation *op, struct call *c)
{
	struct release *release;
	struct record r;

	if (!c->reserved)
		return;
	c->reserved = false;
	release = malloc(sizeof *release);
	if (release == NULL)
		return; /* it stays spent */
	*release = (struct release){ .broker = b, .grant = c->grant };
	release->grant->users++;
	TAILQ_INSERT_TAIL(&b->releases, release, link);
	record_init(&r, b, op, "grant.usage.released");
	RECORD_TEXT(&r.m, call, c->id);
	RECORD_TEXT(&r.m, grant, c->grant->id);
	r.m.has_uses = true;
	r.m.uses = 1;
	if (record_append(&r, JOURNAL_RELEASE, release_on_record, release) < 0)
		release_destroy(release);
}

/* Answers the worker and forgets the call. */
static void
call_finish(struct call *c, enum call_status status, const struct wire_error *error,
    const struct slice *output)
{
	struct operation *op = c->operation;
	struct msg_tool_invoke_reply reply = {
		.callId = c->name, .tool = slice_of(c->tool->name), .status = status,
	};

	if (error != NULL) {
		reply.has_error = true;
		reply.error = *error;
	}
	if (output != NULL) {
		reply.has_output = true;
		reply.output = *output;
	}
	call_replay_settle(c, REPLAY_completed, &reply);
	call_answer(op, c->msgid, &reply);
	call_close(c);
	call_destroy(c);
	if (!op->ended)
		turn_settle(op);
}

static void
call_fail(struct call *c, enum call_status status, const char *code, const char *message,
    bool retryable)
{
	struct wire_error e = { .code = slice_of(code), .message = slice_of(message),
		.retryable = retryable };

	call_finish(c, status, &e, NULL);
}

static bool
is_repeatable(const struct config_tool *tool)
{
	return tool->effect == effect_read || tool->idempotent;
}

static void
call_dispatch(struct call *c)
{
	struct operation *op = c->operation;
	struct child *p = c->provider;
	uint64_t now = op->broker->now_ms;
	struct msg_tool_call m = {
		.call = slice_of(c->id),
		.tool = slice_of(c->tool->name),
		.arguments = buf_slice(&c->arguments),
		.action = slice_of(c->tool->action),
		.namespace = slice_of(c->tool->resource),
		.path = c->path,
		.timeoutMs = op->deadline_at_ms == 0 ? UINT32_MAX
		    : op->deadline_at_ms > now	     ? op->deadline_at_ms - now
						     : 0,
	};

	STOP_POINT("broker.before_dispatch");
	if (link_request(p->link, MSG_tool_call, &m, &c->provider_msgid) < 0) {
		outcome_record(op, c, record_outcome_failed, "tool_execution_failed",
		    "not_dispatched", 0);
		call_release(op->broker, op, c);
		call_fail(c, call_status_failed, "tool_execution_failed",
		    "the call did not reach its provider", true);
		return;
	}
	c->state = CALL_DISPATCHED;
	place_take(c);
	if (link_queued(p->link) >= PROVIDER_QUEUE_MAX)
		link_watch(p->link, PROVIDER_QUEUE_MAX / 2);
	op->call_bytes -= c->arguments.n;
	buf_finish(&c->arguments);
	session_flow(op->session);
	STOP_POINT("broker.dispatched");
}

/* No provider for it, now or later. */
static void
call_unserved(struct call *c)
{
	struct operation *op = c->operation;

	outcome_record(
	    op, c, record_outcome_failed, "tool_execution_failed", "provider_unavailable", 0);
	call_release(op->broker, op, c);
	call_fail(c, call_status_failed, "tool_execution_failed",
	    "the provider of this tool cannot be started", false);
}

static void
call_place(struct call *c)
{
	struct child *p = c->provider;
	bool alone;

	if (p->link == NULL && !provider_need(p)) {
		call_unserved(c);
		return;
	}
	c->state = CALL_WAITING;
	alone = place_waiting(p) == NULL;
	place_wait(c);
	if (!alone)
		call_pump(p);
	else if (place_next(p) != NULL)
		call_dispatch(c); /* it was looked at just now */
}

/* What changed while the record was on its way to the disk (D-7). */
static struct decision
still_granted(const struct call *c)
{
	const struct operation *op = c->operation;

	return authority_recheck(op->broker->grant_set, c->grant, &op->turn->context,
	    clock_wall_ms());
}

/*
 * The effect will not start.  A reservation that stands is given back on record; one that
 * stands in no file must not be: its release would give back another call's use.
 */
static void
call_unreserve(struct call *c)
{
	struct broker *b = c->operation->broker;

	if (c->reserved && journal_lost(b->journal)) {
		c->reserved = false;
		standing_give_back(b->standing, c->grant);
	}
	call_release(b, c->operation, c);
}

/* The deadline has passed, and the alarm that ends the turn is behind this in the loop. */
static bool
is_past_deadline(const struct operation *op)
{
	return op->deadline_at_ms != 0 && op->broker->now_ms >= op->deadline_at_ms;
}

/*
 * The second look, directly before the effect starts: of a call whose record is durable, and
 * again of one that had to wait for a place at its provider (D-7).  One that may not start is
 * ended.
 */
static bool
call_may_start(struct call *c)
{
	struct operation *op = c->operation;
	struct decision d = still_granted(c);

	if (d.verdict != VERDICT_allowed) {
		outcome_record(op, c, record_outcome_denied, verdict_name(d.verdict),
		    decision_cause(&d), 0);
		call_release(op->broker, op, c);
		call_fail(c, call_status_denied, verdict_name(d.verdict),
		    "the grant ended before the call could start", false);
		return false;
	}
	if (is_past_deadline(op)) {
		const char *code = ending_desc(ENDING_deadline)->call_code;

		outcome_record(op, c, record_outcome_interrupted, code, "not_dispatched", 0);
		call_release(op->broker, op, c);
		call_fail(c, call_status_failed, code,
		    "the time was up before the call could start", true);
		return false;
	}
	return true;
}

void
call_on_record(void *arg, bool ok)
{
	struct call *c = arg;
	struct operation *op = c->operation;

	STOP_POINT("broker.call_durable");
	broker_tick(op->broker);
	op->records--;
	if (c->interrupted) {
		call_unreserve(c);
		call_destroy(c);
		session_arm(op->session); /* it may be the last thing the session waited for */
		return;
	}
	if (!ok) {
		if (c->key != NULL)
			outcome_record(op, c, record_outcome_failed, "audit_unavailable",
			    "not_dispatched", 0);
		call_unreserve(c);
		call_fail(c, call_status_failed, "audit_unavailable",
		    "the journal cannot be written, so nothing was done", true);
		if (!op->ended)
			turn_drain(op, true);
		return;
	}
	if (call_may_start(c))
		call_place(c);
}

void
call_pump(struct child *p)
{
	struct call *c;

	while ((c = place_next(p)) != NULL)
		if (call_may_start(c))
			call_dispatch(c);
}

/* ---- results -------------------------------------------------------------------------- */

/* Is it the answer to this call, and of the declared form?  "" or what is wrong, which may lie
 * in `why`. */
static const char *
result_fault(
    const struct call *c, const struct msg_tool_call_reply *r, char *why, size_t cap)
{
	uint32_t nodes;
	unsigned depth;

	if (!slice_is(r->callId, c->id))
		return "it carries another call's id";
	if (r->status == call_status_denied)
		return "a provider cannot deny";
	if (r->status == call_status_succeeded && (r->has_error || !r->has_output))
		return "a success has an output and no error";
	if (r->status == call_status_failed && (!r->has_error || r->has_output))
		return "a failure has an error and no output";
	if (r->output.n > RESULT_MAX)
		return "it is larger than a result may be";
	if (r->has_output) {
		value_measure(r->output, &depth, &nodes);
		if (depth > PAYLOAD_DEPTH_MAX || nodes > PAYLOAD_NODES_MAX)
			return "it is deeper than a result may be, or has more values";
	}
	if (r->has_output && c->tool->result != NULL &&
	    schema_check(c->tool->result, r->output, why, cap) < 0)
		return why;
	return "";
}

void
call_on_result(struct child *p, const struct message *m)
{
	const struct msg_tool_call_reply *r = &m->u.tool_call_reply;
	struct call *c = place_find(p, m->msgid);
	struct operation *op;
	struct wire_error e;
	const char *wrong;
	char code[65], why[256] = "";

	STOP_POINT("broker.result_received");
	place_answered(p);
	if (c == NULL) {
		place_on_late(p, m->msgid);
		return;
	}
	place_give(c);
	op = c->operation;
	wrong = m->failed ? "the provider refused the request"
			  : result_fault(c, r, why, sizeof why);
	if (!is_repeatable(c->tool))
		op->turn->unsafe = true; /* it came back, and not denied (TU-56) */
	if (wrong[0] != '\0') {
		const char *told = m->failed ? "tool_execution_failed" : "invalid_tool_result";

		log_warn("provider %s: %s", child_provider(p)->id, wrong);
		outcome_record(op, c, record_outcome_failed, told, NULL, 0);
		call_fail(c, call_status_failed, told, "the result of the tool is not valid",
		    false);
	} else if (r->status == call_status_succeeded) {
		outcome_record(op, c, record_outcome_succeeded, NULL, NULL, r->output.n);
		STOP_POINT("broker.outcome_recorded");
		call_finish(c, call_status_succeeded, NULL, &r->output);
		STOP_POINT("broker.call_replied");
	} else {
		e = r->error;
		e.retryable = e.retryable && is_repeatable(c->tool);
		snprintf(code, sizeof code, "%.*s", (int)e.code.n, (const char *)e.code.p);
		outcome_record(op, c, record_outcome_failed, code, NULL, 0);
		call_finish(c, call_status_failed, &e, NULL);
	}
}

void
call_on_provider_gone(struct child *p, bool for_good)
{
	struct call *c;

	/* An answer to the runtime may end its turn, and with that other calls in the list. */
	while ((c = TAILQ_FIRST(&p->dispatched)) != NULL) {
		struct operation *op = c->operation;

		place_give(c);
		if (!is_repeatable(c->tool))
			op->turn->unsafe = true;
		outcome_record(
		    op, c, record_outcome_interrupted, "interrupted", "outcome_unknown", 0);
		call_fail(c, call_status_failed, "interrupted",
		    "the provider died: it may have happened, nobody can say",
		    is_repeatable(c->tool));
	}
	place_forget_late(p);
	p->running = 0;
	if (place_waiting(p) == NULL || (!for_good && provider_need(p)))
		return;
	while ((c = place_waiting(p)) != NULL) {
		place_leave(c);
		call_unserved(c);
	}
}

/* ---- the operation ends --------------------------------------------------------------- */

static void
call_interrupt(struct call *c)
{
	struct operation *op = c->operation;
	const struct ending_desc *e = ending_desc(op->ending);
	struct msg_tool_cancel cancel = { .call = slice_of(c->id) };

	switch (c->state) {
	case CALL_RECORDING:
		/* The effect will not start: that is its ending, and stands behind its
		 * decision.  Whether its use is to be given back, its record says when it
		 * comes. */
		outcome_record(
		    op, c, record_outcome_interrupted, e->call_code, "not_dispatched", 0);
		call_close(c);
		c->interrupted = true;
		return;
	case CALL_WAITING:
		place_leave(c);
		outcome_record(
		    op, c, record_outcome_interrupted, e->call_code, "not_dispatched", 0);
		call_release(op->broker, op, c);
		break;
	case CALL_DISPATCHED:
		if (!is_repeatable(c->tool))
			op->turn->unsafe = true;
		outcome_record(
		    op, c, record_outcome_interrupted, e->call_code, "outcome_unknown", 0);
		if (c->provider->link != NULL)
			link_notify(c->provider->link, MSG_tool_cancel, &cancel);
		place_give(c);
		place_keep_late(c);
		break;
	}
	call_close(c);
	call_destroy(c);
}

void
call_interrupt_all(struct operation *op)
{
	struct call *c, *next;

	TAILQ_FOREACH_SAFE (c, &op->calls, link, next)
		call_interrupt(c);
}
