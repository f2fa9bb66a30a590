#include "broker/broker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

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
		pipe_resume(&op->session->worker);
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
	return op->client == NULL || link_queued(op->client->link) < OUTPUT_QUEUE_MAX;
}

static void
event_send(struct operation *op, struct msg_operation_event *e)
{
	e->operation = slice_of(op->id);
	e->sequence = ++op->sequence;
	operation_renew_block(op);
	if (op->client != NULL)
		link_notify(op->client->link, MSG_operation_event, e);
}

void
operation_event(struct operation *op, enum event_type type, const struct buf *body)
{
	struct msg_operation_event e = { .type = type };

	if (op->ended || !op->accepted)
		return;
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
	e.has_stream = true;
	e.stream = stream;
	e.has_data = true;
	e.data = (struct slice){ p, n };
	event_send(op, &e);
	if (op->client != NULL && !operation_may_output(op))
		link_watch(op->client->link, OUTPUT_QUEUE_MAX / 2);
}

/* ---- admission ------------------------------------------------------------------------ */

struct operation *
operation_find(struct broker *b, struct slice id)
{
	struct session *s;

	TAILQ_FOREACH (s, &b->sessions, link)
		if (id.n == 0 || slice_is(id, s->operation->id))
			return s->operation;
	return NULL;
}

static int
runtime_find(const struct config *config, const struct msg_operation_submit *m)
{
	int found = -1;

	for (size_t i = 0; i < config->nruntimes; i++) {
		if (config->runtimes[i].kind != m->kind)
			continue;
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
			    "the journal cannot be written, so nothing may start; see the log",
			    true);
		op->client = NULL;
		operation_end(op, ENDING_audit_unavailable); /* or it has ended meanwhile */
		operation_tell(op);
		return;
	}
	STOP_POINT("broker.accepted_durable");
	op->accepted = true;
	if (op->client != NULL)
		link_reply(
		    op->client->link, MSG_operation_submit_reply, op->submit_msgid, &reply);
	pack_map(&body, 1);
	pack_str(&body, "operationID");
	pack_str(&body, op->id);
	if (!op->ended) {
		operation_event(op, event_type_accepted, &body);
		STOP_POINT("broker.accepted_told");
		if (op->kind == operation_kind_turn)
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

static struct operation *
operation_create(struct client *c, uint32_t msgid, const struct msg_operation_submit *m,
    uint32_t runtime)
{
	struct broker *b = c->broker;
	struct operation *op = calloc(1, sizeof *op);
	uint32_t timeout_ms =
	    shrink(b->config->timeout_ms, m->has_timeoutMs, m->timeoutMs);

	if (op == NULL)
		return NULL;
	op->broker = b;
	op->config = config_hold(b->config);
	op->client = c;
	op->owner = principal_hold(c->principal);
	op->kind = m->kind;
	op->runtime = runtime;
	op->submit_msgid = msgid;
	op->has_input = op->wants_input = m->has_input && m->input;
	op->block_end = EVENT_BLOCK;
	op->deadline_at_ms = timeout_ms == 0 ? 0 : b->now_ms + timeout_ms;
	TAILQ_INIT(&op->calls);
	broker_mint(op->id, "op");
	if (m->has_trace)
		memcpy(op->trace, m->trace.p, m->trace.n); /* plain: turn_submit_fault() */
	else
		broker_mint(op->trace, "t");
	if (m->kind == operation_kind_turn && turn_create(op, m) < 0) {
		operation_destroy(op);
		return NULL;
	}
	if (record_common(&op->common, op) == 0)
		op->session = session_create(b, op);
	if (op->session == NULL) {
		operation_destroy(op);
		return NULL;
	}
	return op;
}

void
operation_destroy(struct operation *op)
{
	if (op == NULL)
		return;
	turn_destroy(op->turn);
	buf_finish(&op->common.packed);
	principal_release(op->broker, op->owner);
	reload_release(op->broker, op->config);
	free(op);
}

static size_t
sessions_count(const struct broker *b)
{
	const struct session *s;
	size_t n = 0;

	TAILQ_FOREACH (s, &b->sessions, link)
		n++;
	return n;
}

struct refusal {
	const char *code, *message;
	bool retryable;
};

static const struct refusal not_ready = { "unavailable",
	"Caisson is ending or not ready; try again", true };
static const struct refusal no_journal = { "audit_unavailable",
	"the journal cannot be written, so nothing may start; see the log", true };
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
		return &not_ready;
	if (!journal_available(b->journal))
		return &no_journal;
	if (runtime < 0)
		return m->has_runtime ? &no_such_runtime : &which_runtime;
	if (m->kind == operation_kind_turn && m->has_input && m->input)
		return &no_input;
	return sessions_count(b) >= SESSIONS_MAX ? &too_many : NULL;
}

void
operation_submit(struct client *c, uint32_t msgid, const struct msg_operation_submit *m)
{
	struct broker *b = c->broker;
	int runtime = runtime_find(b->config, m);
	const struct refusal *no = submit_refusal(b, m, runtime);
	const char *fault = turn_submit_fault(m);
	struct operation *op;
	struct record r;
	uint8_t digest[32];

	STOP_POINT("broker.submit_received");
	if (no != NULL) {
		link_refuse(c->link, msgid, no->code, no->message, no->retryable);
		return;
	}
	if (fault != NULL) { /* there is no turn (TU-10) */
		link_refuse(c->link, msgid, "invalid_argument", fault, false);
		return;
	}
	op = operation_create(c, msgid, m, (uint32_t)runtime);
	if (op == NULL) {
		link_refuse(c->link, msgid, "resource_exhausted", "out of memory", true);
		return;
	}
	record_init(&r, b, op, "operation.accepted");
	RECORD_TEXT(&r.m, detail, m->kind == operation_kind_turn ? "turn" : "command");
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

static void
message_pack(struct buf *b, const struct operation *op, bool recorded)
{
	const struct ending_desc *e =
	    ending_desc(recorded ? op->ending : ENDING_audit_unavailable);
	const struct limit_desc *limit =
	    op->ending == ENDING_limit ? limit_desc(op->exit.limit) : NULL;
	char detail[256], text[512];

	cause_detail(op, detail, sizeof detail);
	if (recorded && limit != NULL)
		snprintf(text, sizeof text, "%s: %s", limit->name, limit->text);
	else if (recorded && op->ending == ENDING_start_failed && op->layer == LAYER_DEATHS)
		snprintf(text, sizeof text,
		    "%" PRIu64 " processes of this runtime died as they started; it is started "
		    "again within %d s: the log of caissond and caisson audit say how they "
		    "ended",
		    op->deaths, START_WINDOW_MS / 1000);
	else if (!recorded)
		snprintf(text, sizeof text, "%s; what it became is here, and nowhere on record",
		    e->doc);
	else
		snprintf(text, sizeof text, "%s%s%s%s", e->doc, detail[0] != '\0' ? ": " : "",
		    op->ending == ENDING_exited ? "status " : "", detail);
	pack_str(b, text);
}

static void
command_pack(struct buf *b, const struct operation *op)
{
	const struct exit_facts *x = &op->exit;
	bool known = x->kind == EXIT_EXITED || x->kind == EXIT_SIGNALED;

	pack_map(b, 3u + known);
	if (known) {
		pack_str(b, x->kind == EXIT_EXITED ? "exitCode" : "signal");
		pack_int(b, x->status);
	}
	pack_str(b, "cause");
	cause_pack(b, op);
	pack_str(b, "timedOut");
	pack_bool(b, op->ending == ENDING_deadline);
	pack_str(b, "usage");
	usage_pack(b, x);
}

static void
result_pack(struct buf *b, const struct operation *op)
{
	if (op->turn != NULL) {
		pack_str(b, "turn");
		turn_pack_result(op, b);
	} else {
		pack_str(b, "command");
		command_pack(b, op);
	}
}

static void
terminal_pack(struct buf *b, const struct operation *op, bool completed, bool recorded)
{
	const struct ending_desc *e =
	    ending_desc(recorded ? op->ending : ENDING_audit_unavailable);
	/* A command has it with its result; a turn, if its worker's end was what ended it. */
	bool used = op->turn != NULL && op->exit.kind != EXIT_NONE;

	if (completed) {
		pack_map(b, 1);
		result_pack(b, op);
		return;
	}
	pack_map(b, 4u + !recorded + used);
	pack_str(b, "code");
	pack_str(b, e->operation_code);
	pack_str(b, "message");
	message_pack(b, op, recorded);
	pack_str(b, "cause");
	if (recorded) {
		cause_pack(b, op);
	} else {
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "recorded");
		pack_bool(b, false);
	}
	if (used) {
		pack_str(b, "usage");
		usage_pack(b, &op->exit);
	}
	result_pack(b, op);
}

/* Keeps the terminal event for a client that attaches late, in place of the oldest. */
static struct ended *
ended_next(struct broker *b)
{
	struct ended *e = &b->ended[b->nended++ % ENDED_KEPT];

	buf_finish(&e->body);
	memset(e, 0, sizeof *e);
	return e;
}

static void
operation_tell(struct operation *op)
{
	struct broker *b = op->broker;
	bool recorded = op->recorded;
	bool completed = recorded && ending_desc(op->ending)->operation_code[0] == '\0';
	struct msg_operation_event e = { .has_body = true };
	struct ended *kept;

	if (op->told || !op->settled || !op->answered)
		return;
	op->told = true;
	session_arm(op->session); /* it may be the last thing the session waited for */
	if (!op->accepted)
		return; /* the refusal was the answer */
	kept = ended_next(b);
	terminal_pack(&kept->body, op, completed, recorded);
	memcpy(kept->id, op->id, sizeof kept->id);
	kept->type = completed ? event_type_completed : event_type_failed;
	e.type = kept->type;
	e.body = (struct slice){ kept->body.p, kept->body.n };
	event_send(op, &e);
	kept->sequence = op->sequence;
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
	r.m.has_outcome = true;
	r.m.outcome = e->operation_code[0] == '\0' ? record_outcome_succeeded
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
	pipe_drain(&op->session->worker);
	if (op->ended) /* an outage of the journal, noticed on the way */
		return;
	op->ended = true;
	/* Who has asked a person has ended its turn; what ended the runtime came after
	 * (D-2). */
	op->ending = op->turn != NULL && op->turn->ask != NULL ? ENDING_completed : ending;
	call_interrupt_all(op);
	if (op->turn != NULL) {
		turn_conclude(op);
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
