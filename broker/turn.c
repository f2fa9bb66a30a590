#include "broker/broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/stop.h"
#include "common/util.h"
#include "common/walk.h"

/* The authority to run a turn at all (TU-13). */
#define EXECUTION_NAMESPACE "sharedos.execution"
#define EXECUTION_ACTION    "invoke"
#define ESCALATE_TOOL	    "sharedos.escalate"

static struct slice
buf_slice(const struct buf *b)
{
	return (struct slice){ b->p, b->n };
}

int
turn_create(struct operation *op, const struct msg_operation_submit *m)
{
	const struct config *config = op->broker->config;
	const char *id = config->runtimes[op->runtime].id;
	struct turn *t = calloc(1, sizeof *t);
	size_t n = strlen("agent:") + strlen(id) + 1;

	if (t == NULL)
		return -1;
	op->turn = t;
	t->agent = malloc(n);
	t->catalogue = calloc(config->ntools + 1, sizeof *t->catalogue);
	if (t->agent == NULL || t->catalogue == NULL)
		return -1;
	snprintf(t->agent, n, "agent:%s", id);
	t->context = (struct context){
		.actor = t->agent,
		.authority = config->authority,
		.owner = config->owner,
		.namespace = config->namespace,
		.purpose = config->purpose,
		.admitted_at_ms = clock_wall_ms(),
	};
	t->max_steps = m->has_maxSteps && m->maxSteps < config->max_steps
	    ? (uint32_t)m->maxSteps : config->max_steps;
	t->max_calls = m->has_maxToolCalls && m->maxToolCalls < config->max_tool_calls
	    ? (uint32_t)m->maxToolCalls : config->max_tool_calls;
	if (m->has_message)
		buf_add(&t->message, m->message.p, m->message.n);
	else
		pack_map(&t->message, 0);
	if (op->deadline_at_ms != 0 && config->drain_grace_ms > 0)
		t->drain_at_ms = op->deadline_at_ms > config->drain_grace_ms
		    ? op->deadline_at_ms - config->drain_grace_ms : 1;
	return t->message.failed ? -1 : 0;
}

void
turn_destroy(struct turn *t)
{
	if (t == NULL)
		return;
	free(t->agent);
	free(t->catalogue);
	free(t->code_own);
	buf_finish(&t->message);
	buf_finish(&t->annotations);
	buf_finish(&t->error_message);
	buf_finish(&t->output);
	buf_finish(&t->metadata);
	free(t);
}

/* ---- admission ------------------------------------------------------------------------ */

static void
admitted_on_record(void *arg, bool ok)
{
	struct operation *op = arg;

	op->records--;
	if (op->ended) {
		session_arm(op->session);
		return;
	}
	/* An outage met while opening ends the turn; the runtime never ran (TU-55). */
	if (!ok)
		operation_end(op, ENDING_audit_unavailable);
	else
		session_start(op->session);
}

static int
authority_record(struct operation *op)
{
	struct msg_record r;
	char id[40], detail[32];

	record_init(&r, op->broker, op, "authority.resolved", id);
	snprintf(detail, sizeof detail, "%zu grants", op->broker->config->ngrants);
	RECORD_TEXT(&r, detail, detail);
	return journal_append(op->broker->journal, &r, JOURNAL_EFFECT, NULL, NULL);
}

static int
admission_record(struct operation *op, const struct decision *d, const char *runtime)
{
	bool allowed = d->verdict == VERDICT_allowed;
	struct msg_record r;
	struct buf path = { 0 };
	char id[40];
	int ret;

	record_init(&r, op->broker, op, "authorization.checked", id);
	r.has_outcome = r.has_source = r.has_path = true;
	r.outcome = allowed ? record_outcome_allowed : record_outcome_denied;
	r.source = record_source_kernel;
	RECORD_TEXT(&r, action, EXECUTION_ACTION);
	RECORD_TEXT(&r, resource, EXECUTION_NAMESPACE);
	pack_array(&path, 1);
	pack_str(&path, runtime);
	r.path = buf_slice(&path);
	RECORD_TEXT(&r, reason, verdict_name(d->verdict));
	if (d->grant != NULL)
		RECORD_TEXT(&r, grant, d->grant->id);
	if (allowed && d->grant->bounded) {
		r.has_uses = true;
		r.uses = 1;
	}
	if (!allowed)
		RECORD_TEXT(&r, cause, rejection_name(d->nearest));
	ret = journal_append(op->broker->journal, &r, JOURNAL_EFFECT, NULL, NULL);
	buf_finish(&path);
	return ret;
}

static int
catalogue_record(struct operation *op)
{
	struct msg_record r;
	char id[40], detail[32];
	int ret;

	record_init(&r, op->broker, op, "tool.catalog.listed", id);
	snprintf(detail, sizeof detail, "%zu tools", op->turn->ncatalogue);
	RECORD_TEXT(&r, detail, detail);
	op->records++;
	ret = journal_append(
	    op->broker->journal, &r, JOURNAL_EFFECT, admitted_on_record, op);
	if (ret < 0)
		op->records--;
	return ret;
}

void
turn_admit(struct operation *op)
{
	struct config *config = op->broker->config;
	struct turn *t = op->turn;
	const char *runtime = config->runtimes[op->runtime].id;
	struct requirement invoke = { .namespace = EXECUTION_NAMESPACE,
		.action = EXECUTION_ACTION, .path = { &runtime, 1 } };
	uint64_t now = clock_wall_ms();
	struct decision d;

	if (authority_record(op) < 0) {
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	d = authority_decide(config->grants, config->ngrants, &t->context, &invoke, now);
	if (admission_record(op, &d, runtime) < 0) {
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	if (d.verdict != VERDICT_allowed) { /* neither runtime nor catalogue is touched (TU-14) */
		t->status = "denied";
		t->code = verdict_name(d.verdict);
		operation_end(op, ENDING_completed);
		return;
	}
	for (size_t i = 0; i < config->ngrants; i++)
		if (&config->grants[i] == d.grant && d.grant->bounded)
			config->grants[i].spent++;
	for (size_t i = 0; i < config->ntools; i++)
		if (authority_discoverable(config->grants, config->ngrants, &t->context,
		    config->tools[i].resource, config->tools[i].action, now))
			t->catalogue[t->ncatalogue++] = &config->tools[i];
	if (catalogue_record(op) < 0)
		operation_end(op, ENDING_audit_unavailable);
}

/* ---- the request ---------------------------------------------------------------------- */

static void
catalogue_pack(struct buf *b, const struct turn *t)
{
	pack_array(b, (uint32_t)t->ncatalogue);
	for (size_t i = 0; i < t->ncatalogue; i++) {
		const struct config_tool *tool = t->catalogue[i];

		pack_map(b, 5);
		pack_str(b, "name");
		pack_str(b, tool->name);
		pack_str(b, "description");
		pack_str(b, tool->description);
		pack_str(b, "namespace");
		pack_str(b, tool->namespace);
		pack_str(b, "effect");
		pack_str(b, tool->effect == effect_read ? "read" : "write");
		pack_str(b, "input");
		pack_raw(b, tool->input);
	}
}

static bool
is_in_catalogue(const struct turn *t, const char *resource)
{
	for (size_t i = 0; i < t->ncatalogue; i++)
		if (strcmp(t->catalogue[i]->resource, resource) == 0)
			return true;
	return false;
}

static void
capability_pack(struct buf *b, const struct capability *c)
{
	pack_map(b, 4);
	pack_str(b, "namespace");
	pack_str(b, c->namespace);
	pack_str(b, "path");
	pack_array(b, (uint32_t)c->path.n);
	for (size_t i = 0; i < c->path.n; i++)
		pack_str(b, c->path.segment[i]);
	pack_str(b, "scope");
	pack_str(b, c->descendants ? "descendants" : "exact");
	pack_str(b, "actions");
	pack_array(b, (uint32_t)c->nactions);
	for (size_t i = 0; i < c->nactions; i++)
		pack_str(b, c->actions[i]);
}

static bool
grant_is_reach(const struct grant *g, const struct context *ctx, uint64_t now)
{
	return strcmp(g->subject, ctx->actor) == 0 && strcmp(g->issuer, ctx->authority) == 0 &&
	    strcmp(g->namespace, ctx->namespace) == 0 && g->issued_at_ms <= now &&
	    (g->not_before_ms == 0 || g->not_before_ms <= now) &&
	    (g->expires_at_ms == 0 || now < g->expires_at_ms) && g->revoked_at_ms == 0 &&
	    !(g->bounded && g->spent >= g->max_uses);
}

/* What the runtime could ask for: descriptive only; no ids, issuers, windows or budgets,
 * and nothing beyond this turn's catalogue (TU-47). */
static void
reach_pack(struct buf *b, const struct operation *op)
{
	const struct config *config = op->broker->config;
	const struct turn *t = op->turn;
	uint64_t now = t->context.admitted_at_ms;
	struct buf entries = { 0 };
	uint32_t n = 0;

	for (size_t i = 0; i < config->ngrants; i++) {
		const struct grant *g = &config->grants[i];

		if (!grant_is_reach(g, &t->context, now))
			continue;
		for (size_t k = 0; k < g->ncapabilities; k++)
			if (entries.n < METADATA_MAX &&
			    is_in_catalogue(t, g->capabilities[k].namespace)) {
				capability_pack(&entries, &g->capabilities[k]);
				n++;
			}
	}
	pack_map(b, 2);
	pack_str(b, "computed");
	pack_bool(b, entries.n < METADATA_MAX); /* false: there is more than is listed */
	pack_str(b, "entries");
	pack_array(b, n);
	buf_add(b, entries.p, entries.n);
	b->failed = b->failed || entries.failed;
	buf_finish(&entries);
}

static void
context_pack(struct buf *b, const struct operation *op)
{
	const struct context *c = &op->turn->context;

	pack_map(b, 7);
	pack_str(b, "actor");
	pack_str(b, c->actor);
	pack_str(b, "owner");
	pack_str(b, c->owner);
	pack_str(b, "namespaceId");
	pack_str(b, c->namespace);
	pack_str(b, "purpose");
	pack_str(b, c->purpose);
	pack_str(b, "traceId");
	pack_str(b, op->trace);
	pack_str(b, "now");
	pack_uint(b, c->admitted_at_ms);
	pack_str(b, "reach");
	reach_pack(b, op);
}

static void
started_event(struct operation *op)
{
	struct turn *t = op->turn;
	struct buf *body = &op->broker->scratch;

	body->n = 0;
	pack_map(body, 5);
	pack_str(body, "kind");
	pack_str(body, "status");
	pack_str(body, "message");
	pack_str(body, "turn.started");
	pack_str(body, "agent");
	pack_str(body, t->agent);
	pack_str(body, "runtime");
	pack_str(body, op->broker->config->runtimes[op->runtime].version);
	pack_str(body, "visibleTools");
	pack_array(body, (uint32_t)t->ncatalogue);
	for (size_t i = 0; i < t->ncatalogue; i++)
		pack_str(body, t->catalogue[i]->name);
	t->sequence++;
	operation_event(op, event_type_progress, body);
}

void
turn_run(struct operation *op)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker.link;
	struct buf tools = { 0 }, context = { 0 };
	struct msg_operation_run run;
	uint64_t now = op->broker->now_ms;
	int r = -1;

	STOP_POINT("broker.worker_greeted");
	if (op->ended || t == NULL || t->run_sent)
		return;
	catalogue_pack(&tools, t);
	context_pack(&context, op);
	run = (struct msg_operation_run){
		.operation = slice_of(op->id),
		.executionId = slice_of(op->id),
		.agent = slice_of(t->agent),
		.message = buf_slice(&t->message),
		.tools = buf_slice(&tools),
		.context = buf_slice(&context),
		.maxSteps = t->max_steps,
		.maxToolCalls = t->max_calls,
		.timeoutMs = op->deadline_at_ms == 0 ? UINT32_MAX
		    : op->deadline_at_ms > now	     ? op->deadline_at_ms - now
						     : 0,
	};
	if (!tools.failed && !context.failed)
		r = link_request(l, MSG_operation_run, &run, &t->run_msgid);
	buf_finish(&tools);
	buf_finish(&context);
	buf_finish(&t->message);
	if (r < 0) {
		op->limit_name = "turn request";
		operation_end(op, ENDING_limit);
		return;
	}
	t->run_sent = true;
	STOP_POINT("broker.turn_sent");
	link_set_state(l, LINK_BUSY);
	started_event(op);
	if (t->draining)
		turn_drain(op, t->outage);
}

/* ---- the outcome ---------------------------------------------------------------------- */

static void
turn_fail(struct turn *t, const char *code, const char *message)
{
	t->status = "failed";
	t->code = code;
	t->error_message.n = 0;
	buf_add(&t->error_message, message, strlen(message));
}

/* A code that the host gives to a turn it ends is not a runtime's to claim (TU-55). */
static bool
is_code_of_ours(struct slice code)
{
	for (int e = ENDING_none + 1; e < ENDING_MAX; e++)
		if (slice_is(code, ending_desc((enum ending)e)->turn_code))
			return true;
	return false;
}

/* The runtime's own error: its code and words, and never more hope than is true. */
static void
turn_fail_as(struct turn *t, const struct wire_error *e)
{
	t->status = "failed";
	t->code_own = is_code_of_ours(e->code) ? NULL : slice_dup(e->code);
	t->code = t->code_own != NULL ? t->code_own : "runtime_failed";
	buf_add(&t->error_message, e->message.p, e->message.n);
	t->retryable = e->retryable;
}

static bool
turn_offers(const struct turn *t, const char *tool)
{
	for (size_t i = 0; i < t->ncatalogue; i++)
		if (strcmp(t->catalogue[i]->name, tool) == 0)
			return true;
	return false;
}

void
turn_on_outcome(struct operation *op, const struct message *m)
{
	const struct msg_operation_run_reply *o = &m->u.operation_run_reply;
	struct turn *t = op->turn;

	STOP_POINT("broker.outcome_received");
	if (op->ended)
		return; /* the first ending stands (D-2) */
	if (t->outage) { /* whoever swallows the refusal does not save the turn (TU-55) */
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	if (m->failed) {
		turn_fail(t, "runtime_failed", "the runtime answered with an error");
	} else if (o->status == outcome_status_complete && !o->has_error && !o->has_reason) {
		t->status = "succeeded";
		t->code = "";
		if (o->has_output)
			buf_add(&t->output, o->output.p, o->output.n);
	} else if (o->status == outcome_status_fail && o->has_error && !o->has_output &&
	    !o->has_reason) {
		turn_fail_as(t, &o->error);
	} else if (o->status == outcome_status_escalate && o->has_reason && !o->has_output &&
	    !o->has_error) {
		if (turn_offers(t, ESCALATE_TOOL)) {
			t->status = "escalated";
			t->code = "escalation_requested";
		} else { /* TU-60 */
			turn_fail(t, "tool_unavailable",
			    "the runtime may not escalate: no grant offers " ESCALATE_TOOL);
		}
	} else { /* TU-15 */
		turn_fail(t, "invalid_runtime_outcome",
		    "the outcome is neither complete{output} nor fail{error} nor "
		    "escalate{reason}");
	}
	if (!m->failed && o->has_metadata)
		buf_add(&t->metadata, o->metadata.p, o->metadata.n);
	operation_end(op,
	    strcmp(t->status, "failed") == 0 ? ENDING_failed : ENDING_completed);
}

void
turn_conclude(struct operation *op)
{
	const struct ending_desc *e = ending_desc(op->ending);
	struct turn *t = op->turn;

	if (t->status == NULL) {
		t->status = e->turn_status;
		t->code = e->turn_code;
		t->retryable = e->retryable;
		buf_add(&t->error_message, e->doc, strlen(e->doc));
	}
	t->retryable = t->retryable && !t->unsafe; /* TU-56 */
}

/* Packs the pairs of `map` whose key is neither annotated nor the host's own. */
static uint32_t
metadata_pack(struct buf *b, const struct turn *t)
{
	struct slice s = buf_slice(&t->metadata), notes;
	struct value map, key, value, note;
	uint32_t n = 0;

	if (s.n == 0)
		return 0;
	map = value_next(&s);
	for (uint32_t i = 0; i < map.count; i++) {
		bool shadowed;

		key = value_skip(&s);
		value = value_skip(&s);
		shadowed = slice_is(key.bytes, "runtime");
		notes = buf_slice(&t->annotations);
		for (uint32_t k = 0; k < t->nannotations; k++) {
			note = value_skip(&notes);
			value_skip(&notes);
			shadowed = shadowed || slice_equal(note.bytes, key.bytes);
		}
		if (shadowed)
			continue;
		pack_raw(b, key.raw);
		pack_raw(b, value.raw);
		n++;
	}
	return n;
}

void
turn_pack_result(const struct turn *t, const struct config_runtime *r, struct buf *b)
{
	bool has_error = t->code[0] != '\0';
	struct buf metadata = { 0 };
	uint32_t n;

	pack_map(b, 2u + has_error + (t->output.n > 0));
	pack_str(b, "status");
	pack_str(b, t->status);
	if (t->output.n > 0) {
		pack_str(b, "output");
		pack_raw(b, buf_slice(&t->output));
	}
	if (has_error) {
		pack_str(b, "error");
		pack_map(b, 3);
		pack_str(b, "code");
		pack_str(b, t->code);
		pack_str(b, "message");
		pack_str_n(b, t->error_message.p, t->error_message.n);
		pack_str(b, "retryable");
		pack_bool(b, t->retryable);
	}
	n = metadata_pack(&metadata, t);
	pack_str(b, "metadata");
	pack_map(b, n + t->nannotations + 1);
	buf_add(b, metadata.p, metadata.n);
	buf_add(b, t->annotations.p, t->annotations.n);
	pack_str(b, "runtime"); /* the host's word, which nobody can forge (TU-6) */
	pack_map(b, 2);
	pack_str(b, "id");
	pack_str(b, r->id);
	pack_str(b, "version");
	pack_str(b, r->version);
	b->failed = b->failed || metadata.failed;
	buf_finish(&metadata);
}

/* ---- events and annotations ----------------------------------------------------------- */

void
turn_handle_emit(struct operation *op, uint32_t msgid, const struct msg_event_emit *m)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker.link;
	struct buf *body = &op->broker->scratch;
	struct msg_event_emit_reply reply = { .sequence = t->sequence };

	if (t->sequence >= TURN_EVENTS_MAX ||
	    t->event_bytes + m->data.n > TURN_EVENT_BYTES_MAX) {
		link_refuse(l, msgid, "resource_exhausted",
		    "this turn has emitted as much as one may", false);
		return;
	}
	t->sequence++;
	t->event_bytes += m->data.n;
	body->n = 0;
	pack_map(body, 3);
	pack_str(body, "kind");
	pack_str(body, "runtime_event"); /* wrapped: nothing the runtime says is turn.* (TU-5) */
	pack_str(body, "type");
	pack_str_n(body, m->type.p, m->type.n);
	pack_str(body, "data");
	pack_raw(body, m->data);
	operation_event(op, event_type_progress, body);
	link_reply(l, MSG_event_emit_reply, msgid, &reply);
}

static void
annotation_remove(struct turn *t, struct slice key)
{
	struct slice s = buf_slice(&t->annotations);
	const uint8_t *start;

	for (uint32_t i = 0; i < t->nannotations; i++) {
		struct value k;

		start = s.p;
		k = value_skip(&s);
		value_skip(&s);
		if (!slice_equal(k.bytes, key))
			continue;
		memmove(t->annotations.p + (start - t->annotations.p), s.p, s.n);
		t->annotations.n -= (size_t)(s.p - start);
		t->nannotations--;
		return;
	}
}

static uint32_t
annotation_nodes(const struct turn *t)
{
	struct slice s = buf_slice(&t->annotations);
	uint32_t total = 0, nodes;
	unsigned depth;

	for (uint32_t i = 0; i < t->nannotations; i++) {
		value_skip(&s);
		value_measure(value_skip(&s).raw, &depth, &nodes);
		total += nodes;
	}
	return total;
}

void
turn_handle_annotate(
    struct operation *op, uint32_t msgid, const struct msg_turn_annotate *m)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker.link;
	struct msg_turn_annotate_reply reply = { 0 };
	uint32_t nodes;
	unsigned depth;

	if (slice_is(m->key, "runtime") || slice_is(m->key, "__proto__")) {
		link_refuse(l, msgid, "invalid_argument", "this key is the host's", false);
		return;
	}
	annotation_remove(t, m->key);
	value_measure(m->value, &depth, &nodes);
	if (t->annotations.n + m->key.n + m->value.n > TURN_ANNOTATIONS_MAX ||
	    t->nannotations == TURN_ANNOTATION_KEYS_MAX ||
	    annotation_nodes(t) + nodes > TURN_ANNOTATION_NODES_MAX) {
		link_refuse(l, msgid, "resource_exhausted",
		    "the annotations of a turn may not be larger", false);
		return;
	}
	pack_str_n(&t->annotations, m->key.p, m->key.n);
	pack_raw(&t->annotations, m->value);
	t->nannotations++;
	link_reply(l, MSG_turn_annotate_reply, msgid, &reply);
}

/* ---- drain ---------------------------------------------------------------------------- */

void
turn_drain(struct operation *op, bool outage)
{
	struct turn *t = op->turn;
	uint64_t now = op->broker->now_ms, grace = op->broker->config->drain_grace_ms;
	uint64_t until = op->deadline_at_ms;
	struct msg_operation_drain drain = { .operation = slice_of(op->id) };

	t->draining = true;
	if (outage && !t->outage) {
		/* The grace or the rest of the time, whichever is shorter (TU-55). */
		t->outage = true;
		if (until == 0 || now + grace < until)
			until = op->deadline_at_ms = now + grace;
		session_arm(op->session);
	}
	drain.graceMs = until > now ? until - now : 0;
	if (t->run_sent && op->session->worker.link != NULL)
		link_notify(op->session->worker.link, MSG_operation_drain, &drain);
	turn_settle(op);
}

void
turn_settle(struct operation *op)
{
	if (op->turn->outage && op->ncalls == 0 && !op->ended)
		operation_end(op, ENDING_audit_unavailable);
}
