#include "broker/turn_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/judge.h"
#include "broker/operation.h"
#include "broker/record.h"
#include "broker/session.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/walk.h"

void
turn_set_drain(struct operation *op)
{
	uint32_t grace_ms = op->config->drain_grace_ms;

	if (op->deadline_at_ms != 0 && grace_ms > 0)
		op->turn->drain_at_ms =
		    op->deadline_at_ms > grace_ms ? op->deadline_at_ms - grace_ms : 1;
}

int
turn_create(struct operation *op, const struct msg_operation_submit *m)
{
	const struct config *config = op->config;
	const char *id = config->runtimes[op->runtime].id;
	struct turn *t = calloc(1, sizeof *t);
	size_t n = strlen("agent:") + strlen(id) + 1;

	if (t == NULL)
		return -ENOMEM;
	op->turn = t;
	t->agent = malloc(n);
	t->catalogue = calloc(config->ntools + 1, sizeof *t->catalogue);
	if (t->agent == NULL || t->catalogue == NULL)
		return -ENOMEM;
	snprintf(t->agent, n, "agent:%s", id);
	if (m->has_purpose && (t->purpose = slice_dup(m->purpose)) == NULL)
		return -ENOMEM;
	if (turn_narrow(t, config, m) < 0)
		return -ENOMEM;
	t->context = (struct context){
		.actor = t->agent,
		.authority = config->authority,
		.owner = config->owner,
		.namespace = config->namespace,
		.purpose = t->purpose != NULL ? t->purpose : config->purpose,
	};
	t->context_fault = turn_context_fault(op, m);
	t->ended_by = ended_by_envelope;
	t->max_steps = m->has_maxSteps && m->maxSteps < config->max_steps
	    ? (uint32_t)m->maxSteps : config->max_steps;
	t->max_calls = m->has_maxToolCalls && m->maxToolCalls < config->max_tool_calls
	    ? (uint32_t)m->maxToolCalls : config->max_tool_calls;
	if (m->has_message)
		buf_add(&t->message, m->message.p, m->message.n);
	else
		pack_map(&t->message, 0);
	if (m->has_state)
		buf_add(&t->state, m->state.p, m->state.n);
	if (m->has_metadata)
		buf_add(&t->input_metadata, m->metadata.p, m->metadata.n);
	turn_set_drain(op);
	return t->message.failed || t->state.failed || t->input_metadata.failed ? -ENOMEM
	    : 0;
}

/* Its admission is on record, or over. */
static void
turn_release(struct turn *t)
{
	if (t->admitted != NULL)
		t->admitted->users--;
	t->admitted = NULL;
}

void
turn_destroy(struct turn *t)
{
	if (t == NULL)
		return;
	turn_release(t);
	free(t->agent);
	free(t->purpose);
	free(t->asked);
	free(t->catalogue);
	free(t->code_own);
	escalate_forget(t->ask);
	buf_finish(&t->message);
	buf_finish(&t->state);
	buf_finish(&t->input_metadata);
	buf_finish(&t->annotations);
	buf_finish(&t->error_message);
	buf_finish(&t->output);
	buf_finish(&t->metadata);
	free(t);
}

/* ---- admission ------------------------------------------------------------------------ */

static int
authority_record(struct operation *op)
{
	struct record r;
	char detail[32];

	record_init(&r, op->broker, op, "authority.resolved");
	snprintf(detail, sizeof detail, "%zu grants",
	    grant_set_size(op->broker->grant_set));
	RECORD_TEXT(&r.m, detail, detail);
	return record_append(&r, JOURNAL_EFFECT, NULL, NULL);
}

static int
admission_record(struct operation *op, const struct decision *d, const char *runtime)
{
	struct record r;
	struct buf path = { 0 };
	int ret;

	record_init(&r, op->broker, op, "authorization.checked");
	r.m.has_source = r.m.has_path = true;
	r.m.source = record_source_kernel;
	RECORD_TEXT(&r.m, action, EXECUTION_ACTION);
	RECORD_TEXT(&r.m, resource, EXECUTION_NAMESPACE);
	pack_array(&path, 1);
	pack_str(&path, runtime);
	r.m.path = buf_slice(&path);
	if (d->verdict == VERDICT_allowed) {
		r.m.has_outcome = true;
		r.m.outcome = record_outcome_allowed;
		RECORD_TEXT(&r.m, reason, "allowed");
		RECORD_TEXT(&r.m, grant, d->grant->id);
		r.m.has_uses = d->grant->bounded;
		r.m.uses = 1;
		r.m.has_consumed = r.m.consumed = d->grant->bounded;
	} else {
		record_denial(&r, d);
	}
	ret = record_append(&r, JOURNAL_EFFECT, NULL, NULL);
	buf_finish(&path);
	return ret;
}

/* Without authority or admission neither runtime nor catalogue is touched (TU-11, TU-14). */
static void
turn_deny(struct operation *op, const char *code)
{
	op->turn->status = "denied";
	op->turn->code = code;
	operation_end(op, ENDING_completed);
}

static void
admitted_on_record(void *arg, bool ok)
{
	struct operation *op = arg;
	struct decision d = authority_recheck(op->broker->grant_set, op->turn->admitted,
	    &op->turn->context, clock_wall_ms());

	broker_tick(op->broker);
	op->records--;
	turn_release(op->turn);
	if (op->ended) {
		session_arm(op->session);
	} else if (!ok) { /* an outage met while opening: the runtime never ran (TU-55) */
		operation_end(op, ENDING_audit_unavailable);
	} else if (d.verdict != VERDICT_allowed) { /* the second look, as at a call (D-7) */
		admission_record(op, &d, op->config->runtimes[op->runtime].id);
		turn_deny(op, verdict_name(d.verdict));
	} else {
		session_start(op->session);
	}
}

static int
catalogue_record(struct operation *op)
{
	struct record r;
	char detail[32];
	int ret;

	record_init(&r, op->broker, op, "tool.catalog.listed");
	snprintf(detail, sizeof detail, "%zu tools", op->turn->ncatalogue);
	RECORD_TEXT(&r.m, detail, detail);
	op->records++;
	ret = record_append(&r, JOURNAL_EFFECT, admitted_on_record, op);
	if (ret < 0)
		op->records--;
	return ret;
}

/* Effective: authorised, enabled, and asked for (TU-13). */
static void
catalogue_fill(struct operation *op, uint64_t now_ms)
{
	struct config *config = op->config;
	struct turn *t = op->turn;

	for (size_t i = 0; i < config->ntools; i++) {
		const struct config_tool *tool = &config->tools[i];

		if ((t->asked == NULL || t->asked[i]) && config_is_enabled(config, tool) &&
		    judge_offer(op->broker->grant_set, &t->context, tool, now_ms) ==
			VERDICT_allowed)
			t->catalogue[t->ncatalogue++] = tool;
	}
}

void
turn_admit(struct operation *op)
{
	struct config *config = op->config;
	struct turn *t = op->turn;
	const char *runtime = config->runtimes[op->runtime].id;
	uint64_t now = clock_wall_ms();
	struct decision d;

	/* It sees what stands as it is admitted, not as it was submitted (TU-40, TU-41). */
	t->context.admitted_at_ms = now;
	t->context.revision = grant_set_revision(op->broker->grant_set);
	if (t->context_fault != NULL) {
		turn_deny(op, t->context_fault);
		return;
	}
	if (authority_record(op) < 0) {
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	d = judge_admission(op->broker->grant_set, &t->context, runtime, now);
	if (admission_record(op, &d, runtime) < 0) {
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	if (d.verdict != VERDICT_allowed) {
		turn_deny(op, verdict_name(d.verdict));
		return;
	}
	t->admitted = d.grant;
	d.grant->users++;
	if (d.grant->bounded)
		d.grant->spent++;
	catalogue_fill(op, now);
	if (catalogue_record(op) < 0)
		operation_end(op, ENDING_audit_unavailable);
}

/* ---- drain ---------------------------------------------------------------------------- */

void
turn_drain(struct operation *op, bool outage)
{
	struct turn *t = op->turn;
	uint64_t now = op->broker->now_ms, grace = op->config->drain_grace_ms;
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
	if (t->run_sent && op->session->worker->link != NULL)
		link_notify(op->session->worker->link, MSG_operation_drain, &drain);
	turn_settle(op);
}

void
turn_settle(struct operation *op)
{
	if (op->turn->outage && op->ncalls == 0 && !op->ended)
		operation_end(op, ENDING_audit_unavailable);
}
