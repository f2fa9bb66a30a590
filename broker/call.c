#include "broker/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
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

	op->turn->sequence++;
	if (op->client == NULL) {
		operation_event(op, event_type_progress, NULL);
		return;
	}
	body->n = 0;
	pack_map(body, 3);
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

	op->turn->sequence++;
	if (op->client == NULL) {
		operation_event(op, event_type_progress, NULL);
		return;
	}
	body->n = 0;
	pack_map(body, code.n > 0 ? 5 : 4);
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

static void
answer(struct operation *op, uint32_t msgid, const struct msg_tool_invoke_reply *reply)
{
	struct link *l = op->session->worker.link;

	if (l != NULL)
		link_reply(l, MSG_tool_invoke_reply, msgid, reply);
	event_finished(op, reply->tool, reply->callId, reply->status,
	    reply->has_error ? reply->error.code : (struct slice){ 0 });
}

/* ---- refusals before a decision ------------------------------------------------------- */

static void
refusal_record(struct operation *op, const struct msg_tool_invoke *m,
    const struct verdict_of_call *v)
{
	struct msg_record r;
	char id[40];

	record_init(&r, op->broker, op, "tool.refused", id);
	r.has_callId = r.has_tool = r.has_outcome = r.has_source = true;
	r.callId = m->id;
	r.tool = m->tool;
	r.outcome =
	    v->status == call_status_denied ? record_outcome_denied : record_outcome_failed;
	r.source = v->source;
	RECORD_TEXT(&r, reason, v->code);
	if (v->cause != NULL)
		RECORD_TEXT(&r, cause, v->cause);
	/* After the fact: a failure changes nothing (TU-64).  Nor may refusals, of which a
	 * runtime can have many, take the place that is kept for endings. */
	journal_append(op->broker->journal, &r, JOURNAL_EFFECT, NULL, NULL);
}

static void
refuse(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct verdict_of_call *v)
{
	struct msg_tool_invoke_reply reply = {
		.callId = m->id, .tool = m->tool, .status = v->status, .has_error = true,
		.error = { .code = slice_of(v->code), .message = slice_of(v->message) },
	};

	answer(op, msgid, &reply);
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

static const struct config_tool *
catalogue_find(const struct turn *t, struct slice name)
{
	for (size_t i = 0; i < t->ncatalogue; i++)
		if (slice_is(name, t->catalogue[i]->name))
			return t->catalogue[i];
	return NULL;
}

static bool
call_is_open(const struct operation *op, struct slice name)
{
	const struct call *c;

	TAILQ_FOREACH (c, &op->calls, link)
		if (slice_is(name, c->name))
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
};

/* TU-23 to TU-27.  NULL: the call may go on, with its tool in `ret_tool`. */
static const struct verdict_of_call *
envelope_check(struct operation *op, const struct msg_tool_invoke *m,
    const struct config_tool **ret_tool)
{
	struct turn *t = op->turn;

	if (t->draining)
		return &envelope_refusals[0];
	if (step_is_spent(t, m))
		return &envelope_refusals[1];
	if (t->calls_counted >= t->max_calls)
		return &envelope_refusals[2];
	t->calls_counted++; /* TU-26: from here on it counts, whatever becomes of it */
	*ret_tool = catalogue_find(t, m->tool);
	if (*ret_tool == NULL)
		return &envelope_refusals[3];
	if (call_is_open(op, m->id))
		return &envelope_refusals[4];
	return NULL;
}

/* ---- the decision --------------------------------------------------------------------- */

static void
decision_record_init(struct msg_record *r, struct operation *op, const char *type,
    const struct msg_tool_invoke *m, const struct config_tool *tool,
    const struct resolved_requirement *need, char id[40])
{
	record_init(r, op->broker, op, type, id);
	r->has_callId = r->has_path = r->has_source = true;
	r->callId = m->id;
	RECORD_TEXT(r, tool, tool->name);
	RECORD_TEXT(r, action, tool->action);
	RECORD_TEXT(r, resource, tool->resource);
	r->path = (struct slice){ need->path.p, need->path.n };
	r->source = record_source_kernel;
}

static void
deny(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need,
    const struct decision *d)
{
	struct verdict_of_call v = { call_status_denied, verdict_name(d->verdict),
		rejection_name(d->nearest), record_source_kernel,
		"no grant allows this action on this resource" };
	struct msg_record r;
	char id[40];

	decision_record_init(&r, op, "authorization.checked", m, tool, need, id);
	r.has_outcome = true;
	r.outcome = record_outcome_denied;
	RECORD_TEXT(&r, reason, v.code);
	RECORD_TEXT(&r, cause, v.cause);
	if (d->grant != NULL)
		RECORD_TEXT(&r, grant, d->grant->id);
	journal_append(op->broker->journal, &r, JOURNAL_EFFECT, NULL, NULL);
	refuse(op, msgid, m, &v);
}

static void
call_destroy(struct call *c)
{
	if (c == NULL)
		return;
	free(c->name);
	buf_finish(&c->arguments);
	buf_finish(&c->path);
	free(c);
}

static struct call *
call_create(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need)
{
	struct call *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	c->operation = op;
	c->msgid = msgid;
	c->tool = tool;
	c->provider = &op->session->providers[tool->provider];
	c->name = slice_dup(m->id);
	buf_add(&c->arguments, m->arguments.p, m->arguments.n);
	buf_add(&c->path, need->path.p, need->path.n);
	if (c->name == NULL || c->arguments.failed || c->path.failed) {
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

static void
call_close(struct call *c)
{
	struct operation *op = c->operation;

	TAILQ_REMOVE(&op->calls, c, link);
	op->ncalls--;
	op->call_bytes -= c->arguments.n;
	session_flow(op->session);
}

static void call_on_record(void *arg, bool ok);

static int
reservation_record(struct operation *op, const struct msg_tool_invoke *m, struct call *c,
    const struct resolved_requirement *need)
{
	struct msg_record r;
	uint8_t digest[32];
	char id[40];
	int ret;

	decision_record_init(&r, op, "authorization.checked", m, c->tool, need, id);
	r.has_outcome = true;
	r.outcome = record_outcome_allowed;
	RECORD_TEXT(&r, reason, "allowed");
	RECORD_TEXT(&r, call, c->id);
	RECORD_TEXT(&r, grant, c->grant->id);
	r.has_uses = c->reserved;
	r.uses = 1;
	if (digest_value(op->broker->digest, m->arguments, digest) == 0) {
		r.has_digest = true;
		r.digest = (struct slice){ digest, sizeof digest };
	}
	ret = journal_append(op->broker->journal, &r, JOURNAL_EFFECT, call_on_record, c);
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

static void
allow(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool, const struct resolved_requirement *need,
    const struct grant *granted)
{
	struct config *config = op->broker->config;
	struct call *c = call_create(op, msgid, m, tool, need);

	if (c == NULL) {
		outage(op, msgid, m);
		return;
	}
	c->grant = &config->grants[granted - config->grants];
	if (c->grant->bounded) {
		c->grant->spent++;
		c->reserved = true;
	}
	if (reservation_record(op, m, c, need) < 0) {
		if (c->reserved)
			c->grant->spent--; /* nothing of it was written */
		call_destroy(c);
		outage(op, msgid, m);
		return;
	}
	call_open(op, c);
	STOP_POINT("broker.call_recorded");
}

/* Arguments, requirement, authority: the kernel's order. */
static void
call_decide(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct config_tool *tool)
{
	struct verdict_of_call v = { call_status_failed, "invalid_tool_arguments", NULL,
		record_source_kernel, NULL };
	struct resolved_requirement need = { 0 };
	struct decision d;
	char why[256];
	int r;

	r = schema_check(tool->schema, m->arguments, why, sizeof why);
	if (r == 0)
		r = requirement_resolve(tool->path, tool->resource, tool->action, m->arguments,
		    &need, &v.code, why, sizeof why);
	if (r < 0) {
		if (r == -ENOMEM)
			snprintf(why, sizeof why, "out of memory");
		if (strcmp(v.code, "invalid_request") == 0)
			v.status = call_status_denied;
		v.message = why;
		refusal_record(op, m, &v);
		refuse(op, msgid, m, &v);
		return;
	}
	d = authority_decide(op->broker->config->grants, op->broker->config->ngrants,
	    &op->turn->context, &need.requirement, clock_wall_ms());
	STOP_POINT("broker.call_decided");
	if (d.verdict == VERDICT_allowed)
		allow(op, msgid, m, tool, &need, d.grant);
	else
		deny(op, msgid, m, tool, &need, &d);
	requirement_finish(&need);
}

void
call_handle_invoke(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m)
{
	const struct config_tool *tool = NULL;
	const struct verdict_of_call *v;

	STOP_POINT("broker.call_received");
	event_started(op, m);
	v = envelope_check(op, m, &tool);
	if (v == NULL) {
		call_decide(op, msgid, m, tool);
		return;
	}
	refusal_record(op, m, v);
	refuse(op, msgid, m, v);
}

/* ---- after the record ----------------------------------------------------------------- */

static void
outcome_record(struct operation *op, const struct call *c, enum record_outcome outcome,
    const char *code, const char *cause, size_t bytes)
{
	struct msg_record r;
	char id[40];

	record_init(&r, op->broker, op, "tool.invoked", id);
	RECORD_TEXT(&r, call, c->id);
	RECORD_TEXT(&r, callId, c->name);
	RECORD_TEXT(&r, tool, c->tool->name);
	RECORD_TEXT(&r, grant, c->grant->id);
	r.has_outcome = r.has_source = true;
	r.outcome = outcome;
	r.source = record_source_kernel;
	if (code != NULL && code[0] != '\0')
		RECORD_TEXT(&r, reason, code);
	if (cause != NULL)
		RECORD_TEXT(&r, cause, cause);
	r.has_bytes = outcome == record_outcome_succeeded;
	r.bytes = bytes;
	journal_append(op->broker->journal, &r, JOURNAL_OUTCOME, NULL, NULL);
}

static void
release_on_record(void *arg, bool ok)
{
	struct grant *g = arg;

	/* Only a release that stands in the record gives the use back (D-10). */
	if (ok && g->spent > 0)
		g->spent--;
}

/* The effect provably did not start: its use is given back. */
static void
call_release(struct broker *b, struct operation *op, struct call *c)
{
	struct msg_record r;
	char id[40];

	if (!c->reserved)
		return;
	c->reserved = false;
	record_init(&r, b, op, "grant.usage.released", id);
	RECORD_TEXT(&r, call, c->id);
	RECORD_TEXT(&r, grant, c->grant->id);
	r.has_uses = true;
	r.uses = 1;
	journal_append(b->journal, &r, JOURNAL_RELEASE, release_on_record, c->grant);
}

/* Answers the worker and forgets the call. */
static void
call_finish(struct call *c, enum call_status status, const struct wire_error *error,
    const struct slice *output)
{
	struct operation *op = c->operation;
	struct msg_tool_invoke_reply reply = {
		.callId = slice_of(c->name), .tool = slice_of(c->tool->name), .status = status,
	};

	if (error != NULL) {
		reply.has_error = true;
		reply.error = *error;
	}
	if (output != NULL) {
		reply.has_output = true;
		reply.output = *output;
	}
	answer(op, c->msgid, &reply);
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
		.arguments = { c->arguments.p, c->arguments.n },
		.action = slice_of(c->tool->action),
		.namespace = slice_of(c->tool->resource),
		.path = { c->path.p, c->path.n },
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
	p->running++;
	link_set_state(p->link, LINK_BUSY);
	if (link_queued(p->link) >= PROVIDER_QUEUE_MAX)
		link_watch(p->link, PROVIDER_QUEUE_MAX / 2);
	op->call_bytes -= c->arguments.n;
	buf_finish(&c->arguments);
	buf_finish(&c->path);
	session_flow(op->session);
	STOP_POINT("broker.dispatched");
}

static bool
provider_has_place(const struct child *p)
{
	uint32_t most = p->session->broker->config->providers[p->index].concurrency;

	return p->link != NULL && link_get_state(p->link) != LINK_NEW && p->running < most &&
	    link_queued(p->link) < PROVIDER_QUEUE_MAX;
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

	if (TAILQ_EMPTY(&p->waiting) && provider_has_place(p)) {
		call_dispatch(c);
		return;
	}
	if (p->link == NULL && !session_provider(p->session, p->index) &&
	    p->state != CHILD_RUNNING && p->state != CHILD_ASKED) {
		call_unserved(c);
		return;
	}
	c->state = CALL_WAITING;
	TAILQ_INSERT_TAIL(&p->waiting, c, queue);
}

/* What changed while the record was on its way to the disk (architecture, "a tool call"). */
static bool
still_granted(const struct call *c)
{
	const struct grant *g = c->grant;
	uint64_t now = clock_wall_ms();

	return (g->expires_at_ms == 0 || now < g->expires_at_ms) &&
	    (g->revoked_at_ms == 0 || now < g->revoked_at_ms);
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
		c->grant->spent--;
	}
	call_release(b, c->operation, c);
}

static void
call_on_record(void *arg, bool ok)
{
	struct call *c = arg;
	struct operation *op = c->operation;

	STOP_POINT("broker.call_durable");
	op->records--;
	if (c->interrupted) {
		call_unreserve(c);
		call_destroy(c);
		session_arm(op->session); /* it may be the last thing the session waited for */
		return;
	}
	if (!ok) {
		call_unreserve(c);
		call_fail(c, call_status_failed, "audit_unavailable",
		    "the journal cannot be written, so nothing was done", true);
		if (!op->ended)
			turn_drain(op, true);
		return;
	}
	if (!still_granted(c)) {
		outcome_record(op, c, record_outcome_denied, "no_matching_grant",
		    rejection_name(REJECTION_window), 0);
		call_release(op->broker, op, c);
		call_fail(c, call_status_denied, "no_matching_grant",
		    "the grant ended before the call could start", false);
		return;
	}
	call_place(c);
}

void
call_pump(struct child *p)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&p->waiting)) != NULL && provider_has_place(p)) {
		TAILQ_REMOVE(&p->waiting, c, queue);
		call_dispatch(c);
	}
}

/* ---- results -------------------------------------------------------------------------- */

static struct call *
call_find(struct child *p, uint32_t msgid)
{
	struct call *c;

	TAILQ_FOREACH (c, &p->session->operation->calls, link)
		if (c->state == CALL_DISPATCHED && c->provider == p &&
		    c->provider_msgid == msgid)
			return c;
	return NULL;
}

/* Is it the answer to this call, and of the declared form?  "" or what is wrong. */
static const char *
result_fault(const struct call *c, const struct msg_tool_call_reply *r)
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
	return "";
}

static void
result_late(struct child *p)
{
	struct operation *op = p->session->operation;
	struct msg_record r;
	char id[40];

	record_init(&r, op->broker, op, "tool.invoked", id);
	RECORD_TEXT(&r, cause, "late");
	r.has_source = true;
	r.source = record_source_broker;
	journal_append(op->broker->journal, &r, JOURNAL_ENDING, NULL, NULL);
}

void
call_on_result(struct child *p, const struct message *m)
{
	const struct msg_tool_call_reply *r = &m->u.tool_call_reply;
	struct call *c = call_find(p, m->msgid);
	struct operation *op = p->session->operation;
	struct wire_error e;
	const char *wrong;
	char code[65];

	STOP_POINT("broker.result_received");
	if (p->running > 0)
		p->running--;
	if (p->running == 0)
		link_set_state(p->link, LINK_READY);
	if (c == NULL) { /* its ending stands; this changes nothing (D-2) */
		result_late(p);
		return;
	}
	wrong = m->failed ? "the provider refused the request" : result_fault(c, r);
	if (!is_repeatable(c->tool))
		op->turn->unsafe = true; /* it came back, and not denied (TU-56) */
	if (wrong[0] != '\0') {
		const char *told = m->failed ? "tool_execution_failed" : "invalid_tool_result";

		log_warn("provider %s: %s", op->broker->config->providers[p->index].id, wrong);
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
	struct operation *op = p->session->operation;
	struct call *c, *next;

	p->running = 0;
	TAILQ_FOREACH_SAFE (c, &op->calls, link, next) {
		if (c->provider != p || c->state != CALL_DISPATCHED)
			continue;
		if (!is_repeatable(c->tool))
			op->turn->unsafe = true;
		outcome_record(
		    op, c, record_outcome_interrupted, "interrupted", "outcome_unknown", 0);
		call_fail(c, call_status_failed, "interrupted",
		    "the provider died: it may have happened, nobody can say",
		    is_repeatable(c->tool));
		if (op->ended)
			return;
	}
	if (TAILQ_EMPTY(&p->waiting) || (!for_good && session_provider(p->session, p->index)))
		return;
	while ((c = TAILQ_FIRST(&p->waiting)) != NULL) {
		TAILQ_REMOVE(&p->waiting, c, queue);
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
		TAILQ_REMOVE(&c->provider->waiting, c, queue);
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
