#include "broker/call_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/digest.h"
#include "broker/escalations.h"
#include "broker/operation.h"
#include "broker/record.h"
#include "broker/session.h"
#include "broker/turn.h"
#include "common/clock.h"
#include "common/hex.h"
#include "common/log.h"
#include "common/walk.h"

/*
 * A runtime asks a person (TU-58 to TU-63).  The ask is the turn's ending, and nothing that
 * comes later is another (D-2): what happens to the runtime, its outcome included, is kept
 * aside.  It is answered "stop", and the runtime has CLOSE_MS to do so; calls that run may
 * answer meanwhile and are interrupted then, as at any ending; new ones are refused.
 *
 * What is asked for is data.  The broker resolves the exact call of it for the record, the
 * same for a tool that the runtime may see as for one that it may not: neither the answer
 * nor its id says which it was.
 */

#define CLOSE_MS 1000 /* TU-57 */

struct ask {
	char id[ESCALATION_ID];
	uint64_t requested_at_ms;
	struct buf reason; /* content: for the client, never for the record (D-12) */
	/* the grant that allowed it, and its use */
	char *grant;
	bool bounded;
	/* the call that it asks for */
	bool has_request;
	struct buf tool; /* as it was named */
	const struct config_tool *wanted; /* NULL: there is none of that name */
	const char *unresolved; /* why the rest is not known; NULL: it is */
	struct buf path;
	uint8_t digest[AUTHORITY_DIGEST_BYTES];
};

void
escalate_forget(struct ask *a)
{
	if (a == NULL)
		return;
	buf_finish(&a->reason);
	buf_finish(&a->tool);
	buf_finish(&a->path);
	free(a->grant);
	free(a);
}

/* ---- what is asked for ---------------------------------------------------------------- */

/* The exact requirement of that call, as far as there is such a call. */
static int
resolve(struct operation *op, struct ask *a, struct slice request)
{
	struct value tool, arguments;
	struct judgement j;
	int r;

	if (!value_get(request, "tool", &tool) || !value_get(request, "arguments", &arguments))
		return 0; /* its schema wants both */
	a->has_request = true;
	buf_add(&a->tool, tool.bytes.p, tool.bytes.n);
	r = digest_value(op->broker->digest, arguments.raw, a->digest);
	if (r < 0 || a->tool.failed)
		return -ENOMEM;
	a->wanted = config_tool(op->config, tool.bytes);
	if (a->wanted == NULL) {
		a->unresolved = "not_registered";
		return 0;
	}
	if (judge_resolve(op->broker->digest, a->wanted, arguments.raw, &j))
		buf_add(&a->path, j.need.path.p, j.need.path.n);
	else
		a->unresolved = j.code;
	judge_finish(&j);
	return a->path.failed ? -ENOMEM : 0;
}

/* What the record says of it but what it was given by its ending. */
static void
ask_describe(const struct operation *op, const struct ask *a, struct msg_record *m)
{
	const struct context *c = &op->turn->context;

	RECORD_TEXT(m, namespace, c->namespace);
	RECORD_TEXT(m, actor, c->actor);
	RECORD_TEXT(m, owner, c->owner);
	if (!a->has_request)
		return;
	RECORD_SLICE(m, tool, buf_slice(&a->tool));
	RECORD_SLICE(m, digest, ((struct slice){ a->digest, sizeof a->digest }));
	if (a->unresolved != NULL)
		return;
	RECORD_TEXT(m, action, a->wanted->action);
	RECORD_TEXT(m, resource, a->wanted->resource);
	RECORD_SLICE(m, path, buf_slice(&a->path));
}

static struct ask *
ask_create(struct operation *op, struct slice reason, struct slice request,
    const struct grant *granted)
{
	struct ask *a = calloc(1, sizeof *a);
	struct msg_record m = { 0 };
	int r;

	if (a == NULL)
		return NULL;
	a->requested_at_ms = clock_wall_ms();
	a->grant = slice_dup(slice_of(granted->id));
	buf_add(&a->reason, reason.p, reason.n);
	r = request.n > 0 ? resolve(op, a, request) : 0;
	ask_describe(op, a, &m);
	if (r < 0 || a->grant == NULL || a->reason.failed ||
	    escalation_id(op->broker->digest, &m, buf_slice(&a->reason), a->id) < 0) {
		escalate_forget(a);
		return NULL;
	}
	return a;
}

/* From here on the turn ends with it, whatever happens. */
static void
ask_begin(struct operation *op, struct ask *a, struct grant *granted)
{
	a->bounded = granted->bounded;
	if (granted->bounded)
		granted->spent++;
	op->turn->ask = a;
}

/* ---- the two ways to ask -------------------------------------------------------------- */

bool
escalate_by_tool(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    struct grant *granted)
{
	struct value reason, request;
	struct msg_tool_invoke_reply reply = { .callId = m->id, .tool = m->tool,
		.status = call_status_succeeded, .has_output = true };
	uint64_t until = op->broker->now_ms + CLOSE_MS;
	struct buf output = { 0 };
	struct ask *a;

	if (!value_get(m->arguments, "reason", &reason))
		return false;
	if (!value_get(m->arguments, "request", &request))
		request.raw = (struct slice){ 0 };
	a = ask_create(op, reason.bytes, request.raw, granted);
	if (a == NULL)
		return false;
	pack_map(&output, 3);
	pack_str(&output, "escalation");
	pack_str(&output, a->id);
	pack_str(&output, "status");
	pack_str(&output, "pending");
	pack_str(&output, "stop");
	pack_bool(&output, true);
	if (output.failed) {
		buf_finish(&output);
		escalate_forget(a);
		return false;
	}
	ask_begin(op, a, granted);
	reply.output = buf_slice(&output);
	call_answer(op, msgid, &reply);
	buf_finish(&output);
	if (op->ended)
		return true;
	if (op->deadline_at_ms == 0 || until < op->deadline_at_ms)
		op->deadline_at_ms = until;
	turn_drain(op, false);
	session_arm(op->session);
	return true;
}

bool
escalate_by_outcome(struct operation *op, struct slice reason)
{
	const char *segment = ESCALATE_PATH;
	const struct requirement need = { .namespace = ESCALATE_NAMESPACE,
		.path = { &segment, 1 }, .action = ESCALATE_ACTION };
	const struct config_tool *tool = call_tool(op, slice_of(ESCALATE_TOOL));
	struct turn *t = op->turn;
	struct decision d;
	struct ask *a;

	if (tool == NULL || !config_is_enabled(op->broker->config, tool))
		return false;
	d = authority_decide(op->broker->grant_set, &t->context, &need, clock_wall_ms());
	if (d.verdict != VERDICT_allowed)
		return false;
	a = ask_create(op, reason, (struct slice){ 0 }, d.grant);
	if (a == NULL)
		return false;
	ask_begin(op, a, d.grant);
	return true;
}

/* ---- the record and the result -------------------------------------------------------- */

/* That the ask itself was allowed, with the use that it spends. */
static void
decision_record(struct operation *op, const struct ask *a)
{
	struct buf path = { 0 };
	struct record r;

	pack_array(&path, 1);
	pack_str(&path, ESCALATE_PATH);
	record_init(&r, op->broker, op, "authorization.checked");
	r.m.has_outcome = r.m.has_source = true;
	r.m.outcome = record_outcome_allowed;
	r.m.source = record_source_envelope;
	RECORD_TEXT(&r.m, reason, "allowed");
	RECORD_TEXT(&r.m, tool, ESCALATE_TOOL);
	RECORD_TEXT(&r.m, action, ESCALATE_ACTION);
	RECORD_TEXT(&r.m, resource, ESCALATE_NAMESPACE);
	RECORD_SLICE(&r.m, path, buf_slice(&path));
	RECORD_TEXT(&r.m, grant, a->grant);
	r.m.has_uses = a->bounded;
	r.m.uses = 1;
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
	buf_finish(&path);
}

void
escalate_record(struct operation *op)
{
	const struct ask *a = op->turn->ask;
	struct msg_record kept;
	struct record r;

	if (a == NULL)
		return;
	decision_record(op, a);
	record_init(&r, op->broker, op, "escalation.requested");
	r.m.at = a->requested_at_ms;
	RECORD_TEXT(&r.m, escalation, a->id);
	RECORD_TEXT(&r.m, status, "pending");
	RECORD_TEXT(&r.m, reason, "escalation_requested");
	r.m.has_outcome = r.m.has_source = r.m.has_bytes = true;
	r.m.outcome = record_outcome_escalated;
	r.m.source = record_source_envelope;
	r.m.bytes = a->reason.n;
	if (a->unresolved != NULL)
		RECORD_TEXT(&r.m, cause, a->unresolved);
	kept = r.m;
	ask_describe(op, a, &kept);
	RECORD_TEXT(&kept, operation, op->id);
	r.m = kept;
	/* These stand with what is common to the operation's records. */
	r.m.has_namespace = r.m.has_actor = r.m.has_owner = r.m.has_operation = false;
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
	/* An operator may grant it from now on: its grant's record stands behind this. */
	if (escalations_add(&op->broker->escalations, &kept) < 0)
		log_error("escalation %s is on record, and not kept: out of memory", a->id);
}

void
escalate_pack(struct buf *b, const struct operation *op)
{
	const struct turn *t = op->turn;
	const struct ask *a = t->ask;
	bool resolved = a->has_request && a->unresolved == NULL;
	char hex[2 * sizeof a->digest + 1];

	pack_map(b, 7u + a->has_request);
	pack_str(b, "id");
	pack_str(b, a->id);
	pack_str(b, "code");
	pack_str(b, t->code);
	pack_str(b, "status");
	pack_str(b, "pending");
	pack_str(b, "reason");
	pack_str_n(b, a->reason.p, a->reason.n);
	pack_str(b, "requester");
	pack_str(b, t->agent);
	pack_str(b, "reviewer");
	pack_str(b, t->context.owner);
	pack_str(b, "requestedAt");
	pack_uint(b, a->requested_at_ms);
	if (!a->has_request)
		return;
	pack_str(b, "request");
	pack_map(b, resolved ? 5 : 2);
	pack_str(b, "tool");
	pack_str_n(b, a->tool.p, a->tool.n);
	pack_str(b, "digest");
	hex_encode(a->digest, sizeof a->digest, hex);
	pack_str(b, hex);
	if (!resolved)
		return;
	pack_str(b, "action");
	pack_str(b, a->wanted->action);
	pack_str(b, "resource");
	pack_str(b, a->wanted->resource);
	pack_str(b, "path");
	pack_raw(b, buf_slice(&a->path));
}
