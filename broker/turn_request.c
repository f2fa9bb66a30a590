#include "broker/turn.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/config.h"
#include "broker/grant_wire.h"
#include "broker/operation.h"
#include "common/link.h"
#include "common/stop.h"
#include "common/walk.h"

/* What a runtime is told: its message, its tools, its reach; nothing of authority (TU-2). */

static void
annotations_pack(struct buf *b, const struct config_tool *tool)
{
	pack_map(b, 3);
	pack_str(b, "readOnly");
	pack_bool(b, tool->read_only);
	pack_str(b, "destructive");
	pack_bool(b, tool->destructive);
	pack_str(b, "idempotent");
	pack_bool(b, tool->effect == effect_read || tool->idempotent);
}

static void
catalogue_pack(struct buf *b, const struct turn *t)
{
	pack_array(b, (uint32_t)t->ncatalogue);
	for (size_t i = 0; i < t->ncatalogue; i++) {
		const struct config_tool *tool = t->catalogue[i];

		pack_map(b, 6u + (tool->output.n > 0));
		pack_str(b, "name");
		pack_str(b, tool->name);
		pack_str(b, "description");
		pack_str(b, tool->description);
		pack_str(b, "namespace");
		pack_str(b, tool->namespace);
		pack_str(b, "effect");
		pack_str(b, tool->effect == effect_read ? "read" : "write");
		pack_str(b, "annotations");
		annotations_pack(b, tool);
		pack_str(b, "input");
		pack_raw(b, tool->input);
		if (tool->output.n == 0)
			continue;
		pack_str(b, "output");
		pack_raw(b, tool->output);
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

/* What the runtime could ask for: descriptive only; no ids, issuers, windows or budgets,
 * and nothing beyond this turn's catalogue (TU-47). */
static void
reach_pack(struct buf *b, const struct operation *op)
{
	const struct turn *t = op->turn;
	const struct capability *c;
	struct reach at = { 0 };
	struct buf entries = { 0 };
	uint32_t n = 0;

	while (entries.n < METADATA_MAX &&
	    (c = authority_reach(op->broker->grant_set, &t->context, t->context.admitted_at_ms,
		 &at)) != NULL) {
		if (is_in_catalogue(t, c->namespace)) {
			grant_pack_capability(&entries, c, false);
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
	pack_map(body, 6);
	turn_event(t, body, "turn.started");
	pack_str(body, "kind");
	pack_str(body, "status");
	pack_str(body, "message");
	pack_str(body, "turn.started");
	pack_str(body, "agent");
	pack_str(body, t->agent);
	pack_str(body, "runtime");
	pack_str(body, op->config->runtimes[op->runtime].version);
	pack_str(body, "visibleTools");
	pack_array(body, (uint32_t)t->ncatalogue);
	for (size_t i = 0; i < t->ncatalogue; i++)
		pack_str(body, t->catalogue[i]->name);
	operation_event(op, event_type_progress, body);
}

void
turn_run(struct operation *op)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker->link;
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
		.has_state = t->state.n > 0,
		.state = buf_slice(&t->state),
		.has_metadata = t->input_metadata.n > 0,
		.metadata = buf_slice(&t->input_metadata),
	};
	if (!tools.failed && !context.failed)
		r = link_request(l, MSG_operation_run, &run, &t->run_msgid);
	buf_finish(&tools);
	buf_finish(&context);
	buf_finish(&t->message);
	buf_finish(&t->state);
	buf_finish(&t->input_metadata);
	if (r == -EPIPE)
		return; /* the end of its link is on its way, and ends the turn */
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
