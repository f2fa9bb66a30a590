#include "broker/turn.h"

#include <assert.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/config.h"
#include "broker/operation.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/stop.h"
#include "common/util.h"
#include "common/walk.h"

/* What comes back from a runtime, and what the host makes of it. */

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
	t->ended_by = ended_by_runtime;
	t->code_own = is_code_of_ours(e->code) ? NULL : slice_dup(e->code);
	t->code = t->code_own != NULL ? t->code_own : "runtime_failed";
	buf_add(&t->error_message, e->message.p, e->message.n);
	t->retryable = e->retryable;
}

/* TU-53: a loop that asks for nothing new while its turn drains says that there is no outcome.
 * The turn ends as it would at the deadline, and sooner; to say so at any other time fails
 * it. */
static bool
is_drained(const struct turn *t, const struct message *m)
{
	const struct msg_operation_run_reply *o = &m->u.operation_run_reply;

	return t->draining && !m->failed && o->status == outcome_status_fail && o->has_error &&
	    !o->has_output && !o->has_reason &&
	    slice_is(o->error.code, ending_desc(ENDING_drained)->turn_code);
}

void
turn_on_outcome(struct operation *op, const struct message *m)
{
	const struct msg_operation_run_reply *o = &m->u.operation_run_reply;
	struct turn *t = op->turn;

	STOP_POINT("broker.outcome_received");
	if (op->ended)
		return; /* the first ending stands (D-2) */
	/* Before its calls are interrupted: with one of them open, its worker ends with it. */
	t->rests = !m->failed && !t->draining && op->ncalls == 0;
	if (t->ask != NULL) { /* kept aside: the ask was the outcome (TU-62) */
		operation_end(op, ENDING_completed);
		return;
	}
	if (t->outage) { /* whoever swallows the refusal does not save the turn (TU-55) */
		operation_end(op, ENDING_audit_unavailable);
		return;
	}
	if (is_drained(t, m)) {
		buf_add(&t->metadata, o->metadata.p, o->metadata.n);
		operation_end(op, ENDING_drained);
		return;
	}
	if (m->failed) {
		turn_fail(t, "runtime_failed", "the runtime answered with an error");
	} else if (o->status == outcome_status_complete && !o->has_error && !o->has_reason) {
		t->status = "succeeded";
		t->code = "";
		t->ended_by = ended_by_runtime;
		if (o->has_output)
			buf_add(&t->output, o->output.p, o->output.n);
	} else if (o->status == outcome_status_fail && o->has_error && !o->has_output &&
	    !o->has_reason) {
		turn_fail_as(t, &o->error);
	} else if (o->status == outcome_status_escalate && o->has_reason && !o->has_output &&
	    !o->has_error) {
		if (escalate_by_outcome(op, o->reason)) {
			operation_end(op, ENDING_completed);
			return;
		}
		turn_fail(t, "tool_unavailable", /* TU-60 */
		    "the runtime may not escalate: no grant offers " ESCALATE_TOOL);
	} else { /* TU-15 */
		t->rests = false;
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

	if (t->ask != NULL) { /* the first ending is the ask, whatever ended the runtime */
		t->status = "escalated";
		t->code = "escalation_requested";
		t->retryable = false;
	}
	if (t->status == NULL) {
		t->status = e->turn_status;
		t->code = e->turn_code;
		t->retryable = e->retryable;
		buf_add(&t->error_message, e->doc, strlen(e->doc));
	}
	t->retryable = t->retryable && !t->unsafe; /* TU-56 */
	t->last = t->sequence++;
}

static void
event_pack(struct buf *body, uint64_t sequence, const char *type, const char *source)
{
	char id[40];

	broker_mint(id, "e");
	pack_str(body, "event");
	pack_map(body, 4u + (source != NULL));
	pack_str(body, "id");
	pack_str(body, id);
	pack_str(body, "sequence");
	pack_uint(body, sequence);
	pack_str(body, "type");
	pack_str(body, type);
	pack_str(body, "at");
	pack_uint(body, clock_wall_ms());
	if (source == NULL)
		return;
	pack_str(body, "source");
	pack_str(body, source);
}

void
turn_event(struct turn *t, struct buf *body, const char *type)
{
	if (body != NULL)
		event_pack(body, t->sequence, type, NULL);
	t->sequence++;
}

/* The last event of a turn is its result, and travels with that. */
static void
last_event_pack(struct buf *b, const struct turn *t)
{
	static const struct {
		const char *status, *type;
	} types[] = { { "succeeded", "turn.completed" }, { "escalated", "turn.escalated" },
		{ "failed", "turn.failed" }, { "denied", "turn.denied" },
		{ "cancelled", "turn.cancelled" } };
	size_t i = 0;

	while (i < countof(types) && strcmp(types[i].status, t->status) != 0)
		i++;
	assert(i < countof(types));
	event_pack(b, t->last, types[i].type, strcmp(t->status, "failed") != 0 ? NULL
	    : t->ended_by == ended_by_runtime ? "runtime" : "envelope");
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
turn_pack_result(const struct operation *op, struct buf *b)
{
	const struct config_runtime *r = &op->config->runtimes[op->runtime];
	const struct turn *t = op->turn;
	bool has_error = t->code[0] != '\0' && t->ask == NULL;
	struct buf metadata = { 0 };
	uint32_t n;

	pack_map(b, 3u + has_error + (t->output.n > 0) + (t->ask != NULL ? 2 : 0));
	last_event_pack(b, t);
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
	if (t->ask != NULL) {
		pack_str(b, "escalation");
		escalate_pack(b, op);
		pack_str(b, "callsAfterEscalation");
		pack_uint(b, t->calls_after_ask);
	}
	n = metadata_pack(&metadata, t);
	pack_str(b, "metadata");
	pack_map(b, n + t->nannotations + 1);
	buf_add(b, metadata.p, metadata.n);
	buf_add(b, t->annotations.p, t->annotations.n);
	pack_str(b, "runtime"); /* the host's word, which nobody can forge (TU-6) */
	pack_map(b, 2u + (r->metadata.n > 0));
	pack_str(b, "id");
	pack_str(b, r->id);
	pack_str(b, "version");
	pack_str(b, r->version);
	if (r->metadata.n > 0) {
		pack_str(b, "metadata");
		pack_raw(b, r->metadata);
	}
	b->failed = b->failed || metadata.failed;
	buf_finish(&metadata);
}

/* ---- events and annotations ----------------------------------------------------------- */

void
turn_handle_emit(struct operation *op, uint32_t msgid, const struct msg_event_emit *m)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker->link;
	struct buf *body = &op->broker->scratch;
	struct msg_event_emit_reply reply = { .sequence = t->sequence };

	if (t->sequence >= TURN_EVENTS_MAX ||
	    t->event_bytes + m->data.n > TURN_EVENT_BYTES_MAX) {
		link_refuse(l, msgid, "resource_exhausted",
		    "this turn has emitted as much as one may", false);
		return;
	}
	t->event_bytes += m->data.n;
	body->n = 0;
	pack_map(body, 4);
	turn_event(t, body, "runtime.event");
	pack_str(body, "kind");
	/* wrapped: nothing the runtime says is turn.* (TU-5) */
	pack_str(body, "runtime_event");
	pack_str(body, "type");
	pack_str_n(body, m->type.p, m->type.n);
	pack_str(body, "data");
	pack_raw(body, m->data);
	operation_event(op, event_type_progress, body);
	link_reply(l, MSG_event_emit_reply, msgid, &reply);
}

/* The pair that is there for `key`; empty if there is none. */
static struct slice
annotation_find(const struct turn *t, struct slice key)
{
	struct slice s = buf_slice(&t->annotations);

	for (uint32_t i = 0; i < t->nannotations; i++) {
		const uint8_t *start = s.p;
		struct value k = value_skip(&s);

		value_skip(&s);
		if (slice_equal(k.bytes, key))
			return (struct slice){ start, (size_t)(s.p - start) };
	}
	return (struct slice){ 0 };
}

static void
annotation_remove(struct turn *t, struct slice pair)
{
	uint8_t *p = t->annotations.p + (pair.p - t->annotations.p);

	memmove(p, p + pair.n, t->annotations.n - pair.n - (size_t)(p - t->annotations.p));
	t->annotations.n -= pair.n;
	t->nannotations--;
}

/* Values in all of them but `except`. */
static uint32_t
annotation_nodes(const struct turn *t, struct slice except)
{
	struct slice s = buf_slice(&t->annotations);
	uint32_t total = 0, nodes;
	unsigned depth;

	for (uint32_t i = 0; i < t->nannotations; i++) {
		bool counts = s.p != except.p;

		value_skip(&s);
		value_measure(value_skip(&s).raw, &depth, &nodes);
		total += counts ? nodes : 0;
	}
	return total;
}

/* May `m` stand in place of `old`? */
static bool
annotation_fits(
    const struct turn *t, const struct msg_turn_annotate *m, struct slice old)
{
	uint32_t nodes;
	unsigned depth;

	value_measure(m->value, &depth, &nodes);
	return t->annotations.n - old.n + m->key.n + m->value.n <= TURN_ANNOTATIONS_MAX &&
	    t->nannotations - (old.n > 0) < TURN_ANNOTATION_KEYS_MAX &&
	    annotation_nodes(t, old) + nodes <= TURN_ANNOTATION_NODES_MAX;
}

void
turn_handle_annotate(
    struct operation *op, uint32_t msgid, const struct msg_turn_annotate *m)
{
	struct turn *t = op->turn;
	struct link *l = op->session->worker->link;
	struct msg_turn_annotate_reply reply = { 0 };
	struct slice old;

	if (slice_is(m->key, "runtime") || slice_is(m->key, "__proto__")) {
		link_refuse(l, msgid, "invalid_argument", "this key is the host's", false);
		return;
	}
	old = annotation_find(t, m->key);
	if (!annotation_fits(t, m, old)) {
		link_refuse(l, msgid, "resource_exhausted",
		    "the annotations of a turn may not be larger", false);
		return;
	}
	if (old.n > 0)
		annotation_remove(t, old);
	pack_str_n(&t->annotations, m->key.p, m->key.n);
	pack_raw(&t->annotations, m->value);
	t->nannotations++;
	link_reply(l, MSG_turn_annotate_reply, msgid, &reply);
}
