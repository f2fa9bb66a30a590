#include "broker/call_private.h"

#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/operation.h"
#include "broker/provider.h"
#include "broker/record.h"
#include "broker/session.h"
#include "broker/turn.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/stop.h"
#include "common/walk.h"

/*
 * The first half of a call: from the frame to the record.  What refuses one does so here,
 * or in call.c's second look.
 */

struct verdict_of_call {
	enum call_status status;
	const char *code; /* what the caller is told */
	const char *cause; /* the specific fact, for the record; NULL: none */
	enum record_source source;
	const char *message;
};

/* ---- answers and their events --------------------------------------------------------- */

static void
event_started(struct operation *op, const struct msg_tool_invoke *m)
{
	struct buf *body = &op->broker->scratch;

	if (!operation_is_heard(op)) {
		turn_event(op->turn, NULL, NULL);
		operation_event(op, event_type_progress, NULL);
		return;
	}
	body->n = 0;
	pack_map(body, 4);
	turn_event(op->turn, body, "tool.requested");
	pack_str(body, "kind");
	pack_str(body, "tool_call_started");
	pack_str(body, "tool");
	pack_str_n(body, m->tool.p, m->tool.n);
	pack_str(body, "callId");
	pack_str_n(body, m->id.p, m->id.n);
	operation_event(op, event_type_progress, body);
}

static void
event_finished(struct operation *op, struct slice tool, struct slice name,
    enum call_status status, struct slice code)
{
	static const char *const names[] = { "succeeded", "denied", "failed" };
	struct buf *body = &op->broker->scratch;

	if (!operation_is_heard(op)) {
		turn_event(op->turn, NULL, NULL);
		operation_event(op, event_type_progress, NULL);
		return;
	}
	body->n = 0;
	pack_map(body, code.n > 0 ? 6 : 5);
	turn_event(op->turn, body, "tool.completed");
	pack_str(body, "kind");
	pack_str(body, "tool_call_finished");
	pack_str(body, "tool");
	pack_str_n(body, tool.p, tool.n);
	pack_str(body, "callId");
	pack_str_n(body, name.p, name.n);
	pack_str(body, "status");
	pack_str(body, names[status]);
	if (code.n > 0) {
		pack_str(body, "code");
		pack_str_n(body, code.p, code.n);
	}
	operation_event(op, event_type_progress, body);
}

void
call_answer(struct operation *op, uint32_t msgid, const struct msg_tool_invoke_reply *reply)
{
	struct link *l = op->session->worker->link;

	if (l != NULL)
		link_reply(l, MSG_tool_invoke_reply, msgid, reply);
	event_finished(op, reply->tool, reply->callId, reply->status,
	    reply->has_error ? reply->error.code : (struct slice){ 0 });
}

/* ---- refusals before a decision ------------------------------------------------------- */

static void
refusal_record(struct operation *op, const struct msg_tool_invoke *m,
    const struct verdict_of_call *v, const struct resolved_requirement *need)
{
	struct record r;

	record_init(&r, op->broker, op, "tool.refused");
	r.m.has_callId = r.m.has_tool = r.m.has_outcome = r.m.has_source = true;
	r.m.callId = m->id;
	r.m.tool = m->tool;
	r.m.outcome =
	    v->status == call_status_denied ? record_outcome_denied : record_outcome_failed;
	r.m.source = v->source;
	RECORD_TEXT(&r.m, reason, v->code);
	if (v->cause != NULL)
		RECORD_TEXT(&r.m, cause, v->cause);
	if (need != NULL && need->path.n > 0) {
		RECORD_TEXT(&r.m, action, need->requirement.action);
		RECORD_TEXT(&r.m, resource, need->requirement.namespace);
		RECORD_SLICE(&r.m, path, buf_slice(&need->path));
	}
	/* After the fact: a failure changes nothing (TU-64).  Nor may refusals, of which a
	 * runtime can have many, take the place that is kept for endings. */
	record_append(&r, JOURNAL_EFFECT, NULL, NULL);
}

static void
refuse(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct verdict_of_call *v)
{
	struct msg_tool_invoke_reply reply = {
		.callId = m->id, .tool = m->tool, .status = v->status, .has_error = true,
		.error = { .code = slice_of(v->code), .message = slice_of(v->message) },
	};

	call_answer(op, msgid, &reply);
	if (++op->turn->refusals > TURN_REFUSALS_MAX) {
		op->limit_name = "refused calls";
		operation_end(op, ENDING_limit);
	}
}

/* TU-24: a step over the budget, or a new one when the budget of distinct ones is spent. */
static bool
step_is_spent(struct turn *t, const struct msg_tool_invoke *m)
{
	uint8_t *byte, bit;

	if (!m->has_step)
		return false; /* bounded by calls and time only (TU-30) */
	if (m->step >= t->max_steps || m->step / 8 >= sizeof t->steps)
		return true;
	byte = &t->steps[m->step / 8];
	bit = (uint8_t)(1u << m->step % 8);
	if (*byte & bit)
		return false;
	if (t->steps_seen >= t->max_steps)
		return true;
	*byte |= bit;
	t->steps_seen++;
	return false;
}

const struct config_tool *
call_tool(const struct operation *op, struct slice name)
{
	const struct config_tool *tool = config_tool(op->config, name);
	const struct turn *t = op->turn;

	for (size_t i = 0; i < t->ncatalogue; i++)
		if (t->catalogue[i] == tool)
			return tool;
	return NULL;
}

static bool
call_is_open(const struct operation *op, struct slice name)
{
	const struct call *c;

	TAILQ_FOREACH (c, &op->calls, link)
		if (slice_equal(name, c->name))
			return true;
	return false;
}

static const struct verdict_of_call envelope_refusals[] = {
	{ call_status_denied, "turn_draining", NULL, record_source_envelope,
	    "the turn is draining: finish with what you have" },
	{ call_status_denied, "step_limit_exceeded", NULL, record_source_envelope,
	    "the step budget of this turn is spent" },
	{ call_status_denied, "tool_call_limit_exceeded", NULL, record_source_envelope,
	    "the call budget of this turn is spent" },
	{ call_status_denied, "tool_unavailable", "not_offered", record_source_envelope,
	    "no such tool in this turn's catalogue" },
	{ call_status_denied, "invalid_request", "id_in_use", record_source_envelope,
	    "a call with this id is open" },
	{ call_status_denied, "escalation_pending", NULL, record_source_envelope,
	    "this turn has asked a person, and ends: stop" },
};

/* TU-23 to TU-27.  NULL: the call may go on, with its tool in `ret_tool`. */
static const struct verdict_of_call *
envelope_check(struct operation *op, const struct msg_tool_invoke *m,
    const struct config_tool **ret_tool)
{
	struct turn *t = op->turn;

	if (t->ask != NULL) { /* TU-62: counted, and charged to nobody */
		t->calls_after_ask++;
		return &envelope_refusals[5];
	}
	if (t->draining)
		return &envelope_refusals[0];
	if (step_is_spent(t, m))
		return &envelope_refusals[1];
	if (t->calls_counted >= t->max_calls)
		return &envelope_refusals[2];
	t->calls_counted++; /* TU-26: from here on it counts, whatever becomes of it */
	*ret_tool = call_tool(op, m->tool);
	if (*ret_tool == NULL)
		return &envelope_refusals[3];
	if (call_is_open(op, m->id))
		return &envelope_refusals[4];
	return NULL;
}

/* ---- the decision --------------------------------------------------------------------- */

static void
decision_record_init(struct record *r, struct operation *op, const char *type,
    const struct msg_tool_invoke *m, const struct config_tool *tool,
    const struct resolved_requirement *need)
{
	record_init(r, op->broker, op, type);
	RECORD_SLICE(&r->m, callId, m->id);
	RECORD_SLICE(&r->m, path, buf_slice(&need->path));
	r->m.has_source = true;
	RECORD_TEXT(&r->m, tool, tool->name);
	RECORD_TEXT(&r->m, action, tool->action);
	RECORD_TEXT(&r->m, resource, tool->resource);
	r->m.source = record_source_kernel;
}

static void
deny(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need,
    const struct decision *d)
{
	struct verdict_of_call v = { call_status_denied, verdict_name(d->verdict),
		decision_cause(d), record_source_kernel,
		"no grant allows this action on this resource" };
	struct record r;

	decision_record_init(&r, op, "authorization.checked", m, tool, need);
	record_denial(&r, d);
	record_append(&r, JOURNAL_EFFECT, NULL, NULL);
	refuse(op, msgid, m, &v);
}

void
call_destroy(struct call *c)
{
	if (c == NULL)
		return;
	if (c->grant != NULL)
		c->grant->users--;
	call_replay_settle(c, REPLAY_interrupted, NULL);
	buf_finish(&c->arguments);
	free(c);
}

/* Bytes behind a call, which move on by what was copied there. */
static struct slice
copy_behind(uint8_t **at, struct slice s)
{
	struct slice copy = { memcpy(*at, s.p, s.n), s.n };

	*at += s.n;
	return copy;
}

static struct call *
call_create(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need)
{
	struct call *c = calloc(1, sizeof *c + m->id.n + need->path.n);
	uint8_t *behind;

	if (c == NULL)
		return NULL;
	behind = (uint8_t *)(c + 1);
	c->operation = op;
	c->msgid = msgid;
	c->tool = tool;
	c->provider = provider_of(op->session, tool->provider);
	c->name = copy_behind(&behind, m->id);
	c->path = copy_behind(&behind, buf_slice(&need->path));
	buf_add(&c->arguments, m->arguments.p, m->arguments.n);
	if (c->arguments.failed) {
		call_destroy(c);
		return NULL;
	}
	broker_mint(c->id, "c");
	return c;
}

static void
call_open(struct operation *op, struct call *c)
{
	TAILQ_INSERT_TAIL(&op->calls, c, link);
	op->ncalls++;
	op->call_bytes += c->arguments.n;
	session_flow(op->session);
}

void
call_close(struct call *c)
{
	struct operation *op = c->operation;

	TAILQ_REMOVE(&op->calls, c, link);
	op->ncalls--;
	op->call_bytes -= c->arguments.n;
	session_flow(op->session);
}

static int
reservation_record(struct operation *op, const struct msg_tool_invoke *m, struct call *c,
    const struct resolved_requirement *need, const struct call_key *k)
{
	struct record r;
	int ret;

	decision_record_init(&r, op, "authorization.checked", m, c->tool, need);
	r.m.has_outcome = true;
	r.m.outcome = record_outcome_allowed;
	RECORD_TEXT(&r.m, reason, "allowed");
	RECORD_TEXT(&r.m, call, c->id);
	RECORD_TEXT(&r.m, grant, c->grant->id);
	r.m.has_uses = r.m.has_consumed = r.m.consumed = c->reserved;
	r.m.uses = 1;
	RECORD_SLICE(&r.m, digest,
	    ((struct slice){ need->requirement.digest, AUTHORITY_DIGEST_BYTES }));
	if (k->given) {
		RECORD_SLICE(&r.m, key, ((struct slice){ k->key, sizeof k->key }));
		RECORD_SLICE(&r.m, fingerprint,
		    ((struct slice){ k->fingerprint, sizeof k->fingerprint }));
	}
	ret = record_append(&r, JOURNAL_EFFECT, call_on_record, c);
	op->records += ret == 0;
	return ret;
}

/* The journal cannot take a decision: no effect, and the turn drains (TU-55). */
static void
outage(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m)
{
	struct verdict_of_call v = { call_status_failed, "audit_unavailable", NULL,
		record_source_kernel, "the journal cannot be written, so nothing is done" };

	refuse(op, msgid, m, &v);
	if (!op->ended)
		turn_drain(op, true);
}

/* What its key says of it is the answer. */
static void
replay(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct call_key *k)
{
	struct verdict_of_call v = { k->state == REPLAY_conflict ? call_status_denied
								: call_status_failed,
		replay_code(k->state), NULL, record_source_kernel,
		call_replay_message(k->state) };

	if (k->state == REPLAY_completed) {
		call_replay_answer(op, msgid, m, k);
		return;
	}
	refusal_record(op, m, &v, NULL);
	refuse(op, msgid, m, &v);
}

static void
allow(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need,
    struct grant *granted, struct call_key *k)
{
	struct call *c = call_create(op, msgid, m, tool, need);

	if (c == NULL) {
		outage(op, msgid, m);
		return;
	}
	if (k->given) {
		c->key = replay_begin(op->broker->replay, k->key, k->fingerprint,
		    slice_of(op->turn->context.actor));
		if (c->key == NULL) {
			call_destroy(c);
			k->state = REPLAY_unavailable;
			replay(op, msgid, m, k);
			return;
		}
	}
	c->grant = granted;
	c->grant->users++;
	if (c->grant->bounded) {
		c->grant->spent++;
		c->reserved = true;
	}
	if (reservation_record(op, m, c, need, k) < 0) {
		call_replay_settle(c, REPLAY_new, NULL);
		if (c->reserved)
			c->grant->spent--; /* nothing of it was written */
		call_destroy(c);
		outage(op, msgid, m);
		return;
	}
	call_open(op, c);
	STOP_POINT("broker.call_recorded");
}

/* What asks a person is never executed (TU-59). */
static void
ask(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    struct grant *granted)
{
	struct verdict_of_call v = { call_status_failed, "tool_execution_failed", NULL,
		record_source_envelope, "out of memory" };

	if (escalate_by_tool(op, msgid, m, granted))
		return;
	refusal_record(op, m, &v, NULL);
	refuse(op, msgid, m, &v);
}

static const struct verdict_of_call other_trace = { call_status_denied, "trace_mismatch", NULL,
	record_source_kernel, "the call names another trace than its turn's" };
static const struct verdict_of_call namespace_is_off = { call_status_denied, "tool_unavailable",
	"namespace_disabled", record_source_kernel, "no such tool in this turn's catalogue" };

/*
 * What comes before the kernel looks at arguments.  A catalogue holds for its turn; whether a
 * tool's namespace is enabled is asked for each call, of the configuration as it is now
 * (TU-48).
 */
static const struct verdict_of_call *
kernel_check(
    const struct operation *op, const struct msg_tool_invoke *m, const struct config_tool *tool)
{
	if (m->has_traceId && !slice_is(m->traceId, op->trace))
		return &other_trace;
	return config_is_enabled(op->broker->config, tool) ? NULL : &namespace_is_off;
}

/*
 * Made, or answered by what its key says, or denied.  Whose last use went to this very call
 * may ask again what came of it: that costs no other.
 */
static void
settle(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct judgement *j)
{
	enum verdict verdict = j->decision.verdict;
	struct call_key k = { .state = REPLAY_new };

	if (verdict == VERDICT_allowed || verdict == VERDICT_grant_exhausted)
		call_replay_look(op, m, j, &k);
	if (verdict == VERDICT_allowed && k.state == REPLAY_new)
		allow(op, msgid, m, tool, &j->need, j->decision.grant, &k);
	else if (verdict == VERDICT_allowed ||
	    (k.state != REPLAY_new && k.state != REPLAY_conflict &&
		k.state != REPLAY_unavailable))
		replay(op, msgid, m, &k);
	else
		deny(op, msgid, m, tool, &j->need, &j->decision);
}

/* Arguments, requirement, authority: the kernel's order. */
static void
call_decide(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool)
{
	struct judgement j;

	judge_call(op->broker->grant_set, op->broker->digest, &op->turn->context, tool,
	    m->arguments, clock_wall_ms(), &j);
	STOP_POINT("broker.call_decided");
	if (!j.decided) {
		struct verdict_of_call v = { j.status, j.code, NULL, record_source_kernel,
			j.why };

		refusal_record(op, m, &v, &j.need);
		refuse(op, msgid, m, &v);
	} else if (j.decision.verdict == VERDICT_allowed && tool->own) {
		ask(op, msgid, m, j.decision.grant);
	} else {
		settle(op, msgid, m, tool, &j);
	}
	judge_finish(&j);
}

void
call_handle_invoke(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m)
{
	const struct config_tool *tool = NULL;
	const struct verdict_of_call *v;

	STOP_POINT("broker.call_received");
	event_started(op, m);
	v = envelope_check(op, m, &tool);
	if (v == NULL)
		v = kernel_check(op, m, tool);
	if (v == NULL) {
		call_decide(op, msgid, m, tool);
		return;
	}
	refusal_record(op, m, v, NULL);
	refuse(op, msgid, m, v);
}
