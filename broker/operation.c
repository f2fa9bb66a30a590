#include "broker/operation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/child.h"
#include "broker/client.h"
#include "broker/feed.h"
#include "broker/payload.h"
#include "broker/record.h"
#include "broker/sandbox.h"
#include "broker/session.h"
#include "broker/subscriber.h"
#include "broker/turn.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

static const char not_on_record[] =
    "the journal cannot be written, so nothing may start; see the log";

static void operation_tell(struct operation *op);

/* ---- events --------------------------------------------------------------------------- */

static void
block_on_record(void *arg, bool ok)
{
	struct operation *op = arg;

	op->records--;
	op->block_asked = false;
	if (ok)
		op->block_end += EVENT_BLOCK;
	if (ok && operation_may_output(op))
		pipe_resume(op->session->worker);
	session_arm(op->session); /* it may be the last thing the session waited for */
}

void
operation_renew_block(struct operation *op)
{
	struct record r;

	if (op->block_asked || op->ended || op->block_end - op->sequence > EVENT_BLOCK / 2)
		return;
	record_init(&r, op->broker, op, "block.opened");
	r.m.has_sequence = true;
	r.m.sequence = op->block_end + EVENT_BLOCK;
	if (record_append(&r, JOURNAL_EFFECT, block_on_record, op) == 0) {
		op->block_asked = true;
		op->records++;
	}
}

bool
operation_may_output(const struct operation *op)
{
	if (op->sequence + BLOCK_RESERVE >= op->block_end)
		return false;
	if (op->feed != NULL)
		return feed_may_append(op->feed);
	return op->client == NULL || link_queued(op->client->link) < OUTPUT_QUEUE_MAX;
}

static void
event_number(struct operation *op, struct msg_operation_event *e)
{
	e->operation = slice_of(op->id);
	e->sequence = ++op->sequence;
	operation_renew_block(op);
}

static void
event_send(struct operation *op, struct msg_operation_event *e)
{
	event_number(op, e);
	if (op->feed != NULL)
		feed_append(op->feed, e);
	else if (op->client != NULL)
		link_notify(op->client->link, MSG_operation_event, e);
}

void
operation_event(struct operation *op, enum event_type type, const struct buf *body)
{
	struct msg_operation_event e = { .type = type };

	if (op->ended || !op->accepted)
		return;
	op->broker->stats.events++;
	if (body != NULL) {
		e.has_body = true;
		e.body = (struct slice){ body->p, body->n };
	}
	event_send(op, &e);
}

void
operation_output(struct operation *op, enum stream stream, const uint8_t *p, size_t n)
{
	struct msg_operation_event e = { .type = event_type_output };

	if (op->ended || !op->accepted)
		return;
	op->output_bytes += n;
	op->broker->stats.output_bytes += n;
	op->broker->stats.events++;
	e.has_stream = true;
	e.stream = stream;
	e.has_data = true;
	e.data = (struct slice){ p, n };
	event_send(op, &e);
	if (op->client != NULL && !operation_may_output(op))
		link_watch(op->client->link, OUTPUT_QUEUE_MAX / 2);
}

/* ---- admission ------------------------------------------------------------------------ */

const char *
operation_kind_name(enum operation_kind kind)
{
	return protocol_desc(MSG_operation_submit)->fields[0].names[kind];
}

static int
operation_compare(const struct operation *a, const struct operation *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(operation_tree, operation, by_id, operation_compare)

struct operation *
operation_find(struct broker *b, struct slice id)
{
	const struct session *first = TAILQ_FIRST(&b->sessions);
	struct operation key;

	if (id.n == 0)
		return first != NULL ? first->operation : NULL;
	if (id.n >= sizeof key.id || memchr(id.p, '\0', id.n) != NULL)
		return NULL;
	memcpy(key.id, id.p, id.n);
	key.id[id.n] = '\0';
	return RB_FIND(operation_tree, &b->operation_tree, &key);
}

void
operation_set_client(struct operation *op, struct client *c)
{
	if (op->client != NULL)
		op->client->noperations--;
	op->client = c;
	if (c != NULL)
		c->noperations++;
}

static int
runtime_find(const struct config *config, const struct msg_operation_submit *m)
{
	int found = -1;

	for (size_t i = 0; i < config->nruntimes; i++) {
		if (config->runtimes[i].kind != m->kind || config->runtimes[i].builtin)
			continue; /* a built-in one runs what a session's queue brings */
		if (m->has_runtime && slice_is(m->runtime, config->runtimes[i].id))
			return (int)i;
		if (!m->has_runtime && found >= 0)
			return -1; /* more than one: the client must say which */
		if (!m->has_runtime)
			found = (int)i;
	}
	return found;
}

static void
submit_on_record(void *arg, bool ok)
{
	struct operation *op = arg;
	struct msg_operation_submit_reply reply = { .operation = slice_of(op->id) };
	struct buf body = { 0 };

	broker_tick(op->broker);
	op->records--;
	op->answered = true;
	if (!ok) {
		/* Not on record: it was never admitted, and nothing of it has begun. */
		if (op->client != NULL)
			link_refuse(op->client->link, op->submit_msgid, "audit_unavailable",
			    not_on_record, true);
		operation_set_client(op, NULL);
		attach_forget(op, &refusal_no_journal);
		operation_end(op, ENDING_audit_unavailable); /* or it has ended meanwhile */
		operation_tell(op);
		return;
	}
	STOP_POINT("broker.accepted_durable");
	op->accepted = true;
	if (op->feed != NULL)
		feed_admit(op->feed);
	if (op->client != NULL)
		link_reply(
		    op->client->link, MSG_operation_submit_reply, op->submit_msgid, &reply);
	pack_map(&body, 1);
	pack_str(&body, "operationID");
	pack_str(&body, op->id);
	if (!op->ended) {
		operation_event(op, event_type_accepted, &body);
		STOP_POINT("broker.accepted_told");
		if (op->sandbox != NULL)
			sandbox_next(op->sandbox);
		else if (op->kind == operation_kind_turn)
			turn_admit(op);
		else
			session_start(op->session);
	}
	operation_tell(op); /* in an outage its ending may have settled first */
	buf_finish(&body);
}

/* The smaller of what is asked for and what is allowed; 0 allows anything. */
static uint32_t
shrink(uint64_t limit, bool has, uint64_t asked)
{
	if (!has || asked == 0)
		return (uint32_t)limit;
	return (uint32_t)(limit == 0 || asked < limit ? asked : limit);
}

static void
trace_set(struct operation *op, const struct msg_operation_submit *m)
{
	if (m->has_trace)
		memcpy(op->trace, m->trace.p, m->trace.n); /* plain: turn_submit_fault() */
	else if (op->sandbox != NULL && op->sandbox->trace != NULL)
		snprintf(op->trace, sizeof op->trace, "%s", op->sandbox->trace);
	else
		broker_mint(op->trace, "t");
}

/* What it does, beside its time: false if memory is out. */
static bool
work_set(struct operation *op, const struct msg_operation_submit *m)
{
	if (m->kind == operation_kind_turn)
		return turn_create(op, m) == 0;
	if (op->sandbox == NULL)
		return true;
	op->payload = payload_create(m);
	return op->payload != NULL;
}

static struct operation *
operation_create(struct client *c, uint32_t msgid, const struct msg_operation_submit *m,
    uint32_t runtime, struct sandbox *sandbox, const struct admission_key *key)
{
	struct broker *b = c->broker;
	struct operation *op = calloc(1, sizeof *op);
	uint32_t timeout_ms =
	    shrink(b->config->timeout_ms, m->has_timeoutMs, m->timeoutMs);

	if (op == NULL)
		return NULL;
	op->broker = b;
	op->sandbox = sandbox;
	op->queued_bytes = payload_bytes(m);
	op->config = config_hold(b->config);
	operation_set_client(op, sandbox == NULL ? c : NULL);
	op->owner = principal_hold(c->principal);
	op->kind = m->kind;
	op->runtime = runtime;
	op->submit_msgid = msgid;
	op->has_input = op->wants_input = m->has_input && m->input;
	op->block_end = EVENT_BLOCK;
	if (sandbox != NULL) /* a deadline comes with its start */
		op->timeout_ms = sandbox_timeout_ms(sandbox, b->config, m);
	else
		op->deadline_at_ms = timeout_ms == 0 ? 0 : b->now_ms + timeout_ms;
	TAILQ_INIT(&op->calls);
	broker_mint(op->id, "op");
	trace_set(op, m);
	if (work_set(op, m) && record_common(&op->common, op) == 0 &&
	    attach_submitter(op, c, key) == 0)
		op->session = session_create(b, op);
	if (op->session == NULL) {
		operation_destroy(op);
		return NULL;
	}
	RB_INSERT(operation_tree, &b->operation_tree, op);
	if (sandbox != NULL)
		sandbox_enqueue(op);
	return op;
}

void
operation_destroy(struct operation *op)
{
	if (op == NULL)
		return;
	operation_set_client(op, NULL);
	attach_forget(op, &refusal_no_memory);
	if (op->session != NULL)
		RB_REMOVE(operation_tree, &op->broker->operation_tree, op);
	turn_destroy(op->turn);
	payload_destroy(op->payload);
	buf_finish(&op->result);
	buf_finish(&op->common.packed);
	principal_release(op->broker, op->owner);
	reload_release(op->broker, op->config);
	free(op);
}

const struct refusal refusal_no_memory = { "resource_exhausted", "out of memory", true };
const struct refusal refusal_not_ready = { "unavailable",
	"Caisson is ending or not ready; try again", true };
const struct refusal refusal_no_journal = { "audit_unavailable", not_on_record, true };
static const struct refusal no_such_runtime = { "not_found",
	"no runtime of this kind has that id; ids are those of the configuration", false };
static const struct refusal which_runtime = { "not_found",
	"several runtimes are configured, or none of this kind: name one", false };
static const struct refusal no_input = { "invalid_argument",
	"input is for a command: a turn has its message", false };
static const struct refusal too_many = { "resource_exhausted",
	"too many sessions are open; wait for one to end", true };

/* Why `m` cannot be admitted; NULL: it can. */
static const struct refusal *
submit_refusal(struct broker *b, const struct msg_operation_submit *m, int runtime)
{
	if (!b->ready || b->shutting_down)
		return &refusal_not_ready;
	if (!journal_available(b->journal))
		return &refusal_no_journal;
	if (runtime < 0)
		return m->has_runtime ? &no_such_runtime : &which_runtime;
	if (m->kind == operation_kind_turn && m->has_input && m->input)
		return &no_input;
	return b->nsessions >= SESSIONS_MAX ? &too_many : NULL;
}

void
operation_submit(struct client *c, uint32_t msgid, const struct msg_operation_submit *m)
{
	struct broker *b = c->broker;
	struct sandbox *sandbox = NULL;
	int runtime = runtime_find(b->config, m);
	const struct refusal *no = m->has_session
	    ? sandbox_refusal(c, m, &sandbox, &runtime) : submit_refusal(b, m, runtime);
	const char *fault = payload_fault(m);
	struct admission_key key;
	struct operation *op;
	struct record r;
	uint8_t digest[32];

	STOP_POINT("broker.submit_received");
	if (attach_by_key(c, msgid, m, &key))
		return;
	if (no != NULL) {
		refusal_send(c, msgid, no);
		return;
	}
	if (fault == NULL)
		fault = turn_submit_fault(m);
	if (fault != NULL) { /* there is no turn (TU-10) */
		link_refuse(c->link, msgid, "invalid_argument", fault, false);
		return;
	}
	op = operation_create(c, msgid, m, (uint32_t)runtime, sandbox,
	    m->has_idempotencyKey ? &key : NULL);
	if (op == NULL) {
		link_refuse(c->link, msgid, "resource_exhausted", "out of memory", true);
		return;
	}
	record_init(&r, b, op, "operation.accepted");
	RECORD_TEXT(&r.m, detail, operation_kind_name(m->kind));
	if (sandbox != NULL) {
		RECORD_TEXT(&r.m, principal, c->principal->id);
		subscriber_wait(TAILQ_FIRST(&op->feed->subscribers), msgid, false);
	}
	if (op->has_key) {
		RECORD_SLICE(&r.m, key, ((struct slice){ key.key, sizeof key.key }));
		RECORD_SLICE(&r.m, fingerprint,
		    ((struct slice){ key.fingerprint, sizeof key.fingerprint }));
	}
	if (op->config->runtimes[runtime].learn)
		RECORD_TEXT(&r.m, mode, "learn");
	r.m.has_sequence = true;
	r.m.sequence = op->block_end;
	if (m->has_message && digest_value(b->digest, m->message, digest) == 0) {
		r.m.has_digest = true;
		r.m.digest = (struct slice){ digest, sizeof digest };
	}
	op->records++;
	if (record_append(&r, JOURNAL_EFFECT, submit_on_record, op) < 0)
		submit_on_record(op, false);
	else
		session_arm(op->session);
	STOP_POINT("broker.accepted_recorded");
}

/* ---- the one ending ------------------------------------------------------------------- */

/* What is known of it when its terminal event is kept no more. */
static void
operation_past(const struct operation *op, struct past *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->kind = op->kind;
	ret->ending = op->recorded ? op->ending : ENDING_audit_unavailable;
	if (op->recorded && op->code != NULL)
		snprintf(ret->code, sizeof ret->code, "%s", op->code);
	if (op->turn != NULL)
		snprintf(ret->status, sizeof ret->status, "%s", op->turn->status);
	cause_detail(op, ret->detail, sizeof ret->detail);
}

static void
operation_tell(struct operation *op)
{
	struct broker *b = op->broker;
	bool completed = op->recorded && operation_code(op)[0] == '\0';
	struct msg_operation_event e = { .has_body = true };
	struct buf body = { 0 };
	struct past past;

	if (op->told || !op->settled || !op->answered)
		return;
	op->told = true;
	session_arm(op->session); /* it may be the last thing the session waited for */
	if (!op->accepted)
		return; /* the refusal was the answer */
	operation_pack_terminal(&body, op, completed, op->recorded);
	operation_past(op, &past);
	e.type = completed ? event_type_completed : event_type_failed;
	e.body = buf_slice(&body);
	event_number(op, &e);
	if (op->feed != NULL) {
		feed_end(op->feed, &past, &e);
		op->feed = NULL;
	} else {
		if (op->client != NULL)
			link_notify(op->client->link, MSG_operation_event, &e);
		if (feeds_keep(b->feeds, NULL, op->id, &past, op->sequence, &e) < 0)
			log_error("cannot keep the ending of %s: out of memory", op->id);
	}
	buf_finish(&body);
}

static void
ended_on_record(void *arg, bool ok)
{
	struct operation *op = arg;

	broker_tick(op->broker);
	op->records--;
	if (!ok)
		log_error("the ending of %s is not on record", op->id);
	STOP_POINT("broker.ending_durable");
	op->settled = true;
	op->recorded = ok;
	operation_tell(op);
	STOP_POINT("broker.ending_told");
}

static void
turn_record(struct operation *op)
{
	struct record r;

	record_init(&r, op->broker, op, "turn.ended");
	RECORD_TEXT(&r.m, status, op->turn->status);
	if (op->turn->code[0] != '\0')
		RECORD_TEXT(&r.m, reason, op->turn->code);
	RECORD_TEXT(&r.m, cause, ending_desc(op->ending)->cause);
	r.m.has_source = true;
	r.m.source = record_source_envelope;
	r.m.has_endedBy = true;
	r.m.endedBy = op->turn->ended_by;
	r.m.has_failClosed = r.m.failClosed = op->ending == ENDING_audit_unavailable;
	r.m.has_bytes = true;
	r.m.bytes = op->turn->output.n;
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
}

/* Did the kernel tell why it ended, or is it ours? */
static bool
ending_is_the_kernels(const struct operation *op)
{
	const struct exit_facts *x = &op->exit;

	if (op->ending == ENDING_exited || op->ending == ENDING_signaled)
		return true;
	if (op->ending == ENDING_completed)
		return op->kind == operation_kind_command;
	return x->cause == op->ending &&
	    (x->cause == ENDING_seccomp || x->cause == ENDING_oom || x->cause == ENDING_limit);
}

static int
ended_record(struct operation *op)
{
	const struct ending_desc *e = ending_desc(op->ending);
	struct record r;
	char detail[256];

	record_init(&r, op->broker, op, "operation.ended");
	RECORD_TEXT(&r.m, cause, e->cause);
	cause_detail(op, detail, sizeof detail);
	if (detail[0] != '\0')
		RECORD_TEXT(&r.m, detail, detail);
	RECORD_TEXT(&r.m, status, op->turn != NULL ? op->turn->status : e->cause);
	if (op->code != NULL)
		RECORD_TEXT(&r.m, reason, op->code);
	r.m.has_outcome = true;
	r.m.outcome = operation_code(op)[0] == '\0' ? record_outcome_succeeded
	    : op->ending == ENDING_canceled	 ? record_outcome_canceled
						 : record_outcome_failed;
	if (op->turn != NULL && strcmp(op->turn->status, "failed") == 0)
		r.m.outcome = record_outcome_failed; /* also where its operation is completed */
	if (op->turn != NULL && strcmp(op->turn->status, "denied") == 0)
		r.m.outcome = record_outcome_denied;
	if (op->turn != NULL && op->turn->ask != NULL)
		r.m.outcome = record_outcome_escalated; /* no failure, and no denial (TU-63) */
	r.m.has_sequence = true;
	r.m.sequence = op->sequence + 1;
	r.m.has_bytes = true;
	r.m.bytes = op->output_bytes;
	r.m.has_source = true;
	r.m.source = ending_is_the_kernels(op) ? record_source_kernel : record_source_broker;
	if (!op->used_before)
		record_usage(&r.m, &op->exit);
	return record_append(&r, JOURNAL_ENDING, ended_on_record, op);
}

/* Endings that leave the worker its kill grace (D-9); after any other it is killed now. */
static bool
ending_has_grace(enum ending e)
{
	return e == ENDING_completed || e == ENDING_failed || e == ENDING_canceled ||
	    e == ENDING_deadline || e == ENDING_drained || e == ENDING_audit_unavailable ||
	    e == ENDING_shutdown || e == ENDING_released;
}

void
operation_end(struct operation *op, enum ending ending)
{
	if (op->ended)
		return;
	STOP_POINT("broker.ending_decided");
	pipe_drain(op->session->worker);
	if (op->ended) /* an outage of the journal, noticed on the way */
		return;
	op->ended = true;
	if (op->feed != NULL && feed_let_go(op->feed))
		pipe_resume(op->session->worker);
	/* Who has asked a person has ended its turn; what ended the runtime came after
	 * (D-2). */
	op->ending = op->turn != NULL && op->turn->ask != NULL ? ENDING_completed : ending;
	call_interrupt_all(op);
	if (op->turn != NULL)
		turn_conclude(op);
	if (op->sandbox != NULL)
		sandbox_on_ended(op);
	if (op->turn != NULL) {
		escalate_record(op);
		turn_record(op);
	}
	op->records++;
	if (ended_record(op) < 0)
		ended_on_record(op, false);
	STOP_POINT("broker.ending_recorded");
	session_close(op->session,
	    ending_has_grace(op->ending) ? op->config->kill_grace_ms : 0);
}
