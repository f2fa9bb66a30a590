#include "broker/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/record.h"
#include "broker/session.h"
#include "broker/turn.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/request_key.h"
#include "common/stop.h"

/*
 * How a session comes to be: its workspace is made, its record is durable, then it is
 * answered; and how it comes back with the broker after the one that made it.
 */

static const struct refusal no_such_runtime = { "not_found",
	"no runtime has that id; ids are those of the configuration", false };
static const struct refusal which_runtime = { "not_found",
	"several runtimes are configured, or none: name one", false };
static const struct refusal one_command = { "failed_precondition",
	"this runtime runs its one command: it has no sessions, see caisson exec", false };
static const struct refusal none_configured = { "failed_precondition",
	"no sessions can be acquired here: see sessions.max in the configuration", false };
static const struct refusal too_many = { "resource_exhausted",
	"as many sessions are open as may be; release one", true };
static const struct refusal too_many_yours = { "resource_exhausted",
	"this principal has as many sessions open as it may; release one", true };
static const struct refusal not_yours = { "permission_denied",
	"this principal may not acquire sessions of this runtime", false };
static const struct refusal zero_limit = { "invalid_argument",
	"leaseMs, timeoutMs and queue are at least 1, or left out", false };
static const struct refusal bad_trace = { "invalid_argument",
	"trace: is no text of 1 to 256 bytes without control characters", false };
static const struct refusal bad_key = { "invalid_argument",
	"idempotencyKey: is not " REQUEST_KEY_RULE, false };
static const struct refusal other_key = { "already_exists",
	"another session was acquired under this key", false };
static const struct refusal no_workspace = { "unavailable",
	"its workspace cannot be made; see the log of caissond", true };

/* ---- its record ----------------------------------------------------------------------- */

static void
lease_begin(struct sandbox *sb)
{
	lease_renew(&sb->lease, sb->broker->now_ms);
	/* A broker over a namespace at rest has no sessions: what is on record stays as it
	 * is. */
	if (sb->lease.ms != 0 && sb->broker->config->sessions > 0)
		alarm_set(sb->broker->alarms, &sb->alarm, sb->lease.until_ms);
}

/* What a session is for, in its record: whatever the configuration says by then. */
static const char *
shape_name(bool turn, bool workspace)
{
	return turn ? workspace ? "turn with workspace" : "turn"
		    : workspace ? "command with workspace" : "command";
}

static bool
is_shape(struct slice text, bool turn, bool workspace)
{
	return slice_is(text, shape_name(turn, workspace));
}

static int
key_restore(struct sandbox *sb, const struct msg_record *m)
{
	int r;

	memcpy(sb->key.key, m->key.p, sizeof sb->key.key);
	memcpy(sb->key.fingerprint, m->fingerprint.p, sizeof sb->key.fingerprint);
	r = admissions_restore(&sb->broker->acquired, &sb->owner->keys, &sb->key, sb->id);
	/* Of two records under one key the first has it: the end of the other takes it from
	 * nobody. */
	sb->has_key = r > 0;
	return r < 0 ? r : 0;
}

int
sandbox_restore(struct broker *b, const struct msg_record *m)
{
	uint64_t number = m->has_session ? sandbox_id_number(m->session) : 0;
	struct principal *owner;
	struct sandbox *sb;

	if (number == 0 || !m->has_runtime || !m->has_principal || !m->has_timeoutMs ||
	    !m->has_queue || !m->has_detail)
		return -EINVAL;
	if (sandbox_numbered(b, number) != NULL)
		return 0; /* a page that is told again */
	owner = principal_named(b, m->principal);
	sb = owner != NULL ? sandbox_create(b, number, m->runtime, owner) : NULL;
	if (sb == NULL)
		return -ENOMEM;
	principal_session_open(owner, true);
	sb->state = sandbox_state_ready;
	sb->acquired_at_ms = m->at;
	sb->timeout_ms = (uint32_t)m->timeoutMs;
	sb->queue_max = (uint32_t)m->queue;
	sb->lease.ms = m->has_leaseMs ? (uint32_t)m->leaseMs : 0;
	sb->kind = is_shape(m->detail, false, true) || is_shape(m->detail, false, false)
	    ? operation_kind_command : operation_kind_turn;
	sb->has_workspace =
	    is_shape(m->detail, false, true) || is_shape(m->detail, true, true);
	if (m->has_trace && (sb->trace = slice_dup(m->trace)) == NULL)
		return -ENOMEM;
	lease_begin(sb);
	return m->has_key && m->has_fingerprint ? key_restore(sb, m) : 0;
}

/* ---- acquire -------------------------------------------------------------------------- */

void
sandbox_record_init(struct record *r, const struct sandbox *sb, const char *type)
{
	record_init(r, sb->broker, NULL, type);
	RECORD_TEXT(&r->m, session, sb->id);
	RECORD_TEXT(&r->m, principal, sb->owner->id);
	RECORD_TEXT(&r->m, runtime, sb->runtime);
}

static void
sandbox_fail(struct sandbox *sb, const char *detail, const struct refusal *no)
{
	if (sb->has_key) /* nothing was done under it: it is free again */
		admissions_remove(&sb->broker->acquired, &sb->owner->keys, &sb->key);
	sb->has_key = false;
	sb->state = sandbox_state_failed;
	sb->detail = detail;
	sandbox_answer(sb, no);
	sandbox_close(sb, true);
}

/* Its record was refused, and may stand all the same: nobody is to bring it back. */
static void
unacquired_record(const struct sandbox *sb)
{
	struct record r;

	sandbox_record_init(&r, sb, "session.released");
	RECORD_TEXT(&r.m, cause, "audit_unavailable");
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
}

static void
acquired_on_record(void *arg, bool ok)
{
	struct sandbox *sb = arg;

	broker_tick(sb->broker);
	sb->recording = false;
	if (!ok) { /* nobody has it, and nothing of it has begun */
		if (!journal_lost(sb->broker->journal))
			unacquired_record(sb);
		sandbox_fail(sb, "audit_unavailable", &refusal_no_journal);
		return;
	}
	STOP_POINT("broker.session_durable");
	sb->state = sandbox_state_ready;
	lease_begin(sb);
	sandbox_answer(sb, NULL);
}

/* What a broker that takes over has to know of it. */
static void
acquired_record(struct sandbox *sb)
{
	struct record r;

	sandbox_record_init(&r, sb, "session.acquired");
	r.m.has_leaseMs = sb->lease.ms != 0;
	r.m.leaseMs = sb->lease.ms;
	r.m.has_timeoutMs = r.m.has_queue = true;
	r.m.timeoutMs = sb->timeout_ms;
	r.m.queue = sb->queue_max;
	RECORD_TEXT(
	    &r.m, detail, shape_name(sb->kind == operation_kind_turn, sb->has_workspace));
	if (sb->trace != NULL)
		RECORD_TEXT(&r.m, trace, sb->trace);
	if (sb->has_key) {
		RECORD_SLICE(
		    &r.m, key, ((struct slice){ sb->key.key, sizeof sb->key.key }));
		RECORD_SLICE(&r.m, fingerprint,
		    ((struct slice){ sb->key.fingerprint, sizeof sb->key.fingerprint }));
	}
	sb->acquired_at_ms = r.m.at;
	sb->recording = true;
	if (record_append(&r, JOURNAL_EFFECT, acquired_on_record, sb) < 0)
		acquired_on_record(sb, false);
}

static int
find_runtime(const struct config *config, const struct msg_session_acquire *m)
{
	if (!m->has_runtime)
		return config->nruntimes == 1 ? 0 : -1;
	for (size_t i = 0; i < config->nruntimes; i++)
		if (slice_is(m->runtime, config->runtimes[i].id))
			return (int)i;
	return -1;
}

static const struct refusal *
acquire_refusal(struct client *c, const struct msg_session_acquire *m, int runtime)
{
	const struct broker *b = c->broker;
	const struct config_runtime *r;

	if (!b->ready || b->shutting_down)
		return &refusal_not_ready;
	if (!journal_available(b->journal))
		return &refusal_no_journal;
	if (runtime < 0)
		return m->has_runtime ? &no_such_runtime : &which_runtime;
	r = &b->config->runtimes[runtime];
	if (!principal_may_runtime(c->principal, r->id))
		return &not_yours;
	if ((m->has_leaseMs && m->leaseMs == 0) || (m->has_timeoutMs && m->timeoutMs == 0) ||
	    (m->has_queue && m->queue == 0))
		return &zero_limit;
	if (m->has_trace && !turn_trace_is_plain(m->trace))
		return &bad_trace;
	if (r->kind == operation_kind_command && !r->builtin)
		return &one_command;
	if (b->config->sessions == 0)
		return &none_configured;
	return sandboxes_open(b) >= b->config->sessions || sandboxes_open(b) >= SESSIONS_MAX
	    ? &too_many : NULL;
}

/* Random, and never one that is known, or that stands for none. */
static uint64_t
new_number(struct broker *b)
{
	uint64_t number;

	do
		arc4random_buf(&number, sizeof number);
	while (number == 0 || sandbox_numbered(b, number) != NULL);
	return number;
}

static uint32_t
smaller(uint32_t limit, bool has, uint64_t asked)
{
	return has && asked < limit ? (uint32_t)asked : limit;
}

/*
 * What is known of its key (D-10).  NULL: nothing, and `ret` is it; `*ret_found` is the session
 * that was acquired under it.
 */
static const struct refusal *
key_refusal(struct client *c, const struct msg_session_acquire *m, struct admission_key *ret,
    struct sandbox **ret_found)
{
	struct broker *b = c->broker;
	enum admission_state state;
	const char *id;

	*ret_found = NULL;
	if (!m->has_idempotencyKey)
		return NULL;
	if (!request_key_is_valid(m->idempotencyKey))
		return &bad_key;
	if (admission_key_make(b->digest, c->principal->id, MSG_session_acquire, m, ret) < 0)
		return &refusal_no_memory;
	state = admissions_look(&b->acquired, &c->principal->keys, ret, &id);
	switch (state) {
	case ADMISSION_new: return NULL;
	case ADMISSION_same: *ret_found = sandbox_find(b, slice_of(id)); return NULL;
	case ADMISSION_other: return &other_key;
	default: return attach_no_room(state);
	}
}

/* Of the configuration's limits and those asked for the smaller ones (OP-8). */
static void
take_limits(struct sandbox *sb, const struct msg_session_acquire *m)
{
	const struct config *config = sb->broker->config;

	sb->timeout_ms = smaller(config->operation_timeout_ms, m->has_timeoutMs, m->timeoutMs);
	sb->queue_max = smaller(config->queue, m->has_queue, m->queue);
	sb->lease.ms = m->has_leaseMs ? (uint32_t)m->leaseMs : 0;
}

/* A new one, counted and with its key taken; NULL, and refused. */
static struct sandbox *
acquire_new(struct client *c, const struct message *message, const struct admission_key *key,
    const struct config_runtime *runtime)
{
	const struct msg_session_acquire *m = &message->u.session_acquire;
	struct broker *b = c->broker;
	struct sandbox *sb;

	if (!principal_session_open(c->principal, false)) {
		refusal_send(c, message->msgid, &too_many_yours);
		return NULL;
	}
	sb = sandbox_create(b, new_number(b), slice_of(runtime->id), c->principal);
	if (sb == NULL) {
		refusal_send(c, message->msgid, &refusal_no_memory);
		principal_session_close(c->principal);
		return NULL;
	}
	sb->kind = runtime->kind;
	take_limits(sb, m);
	if (m->has_idempotencyKey)
		sb->has_key =
		    admissions_add(&b->acquired, &sb->owner->keys, key, sb->id) == 0;
	sb->key = *key;
	if (sb->has_key == m->has_idempotencyKey &&
	    (!m->has_trace || (sb->trace = slice_dup(m->trace)) != NULL)) {
		if (sandbox_wait(sb, c, message->msgid, WAITS_ACQUIRED))
			return sb;
	} else {
		refusal_send(c, message->msgid, &refusal_no_memory);
	}
	sandbox_fail(sb, "failed", NULL);
	return NULL;
}

/* The runtime shows it, or the agent's tools serve it, which is all that a runtime needs of
 * it. */
static bool
needs_workspace(const struct config *config, int runtime)
{
	for (size_t i = 0; i < config->nproviders; i++)
		if (config->providers[i].workspace)
			return true;
	return config->runtimes[runtime].workspace;
}

void
sandbox_handle_acquire(struct client *c, const struct message *message)
{
	const struct msg_session_acquire *m = &message->u.session_acquire;
	struct broker *b = c->broker;
	int runtime = find_runtime(b->config, m);
	struct control make = { .verb = CONTROL_WORKSPACE };
	struct admission_key key = { 0 };
	struct sandbox *sb;
	const struct refusal *no = key_refusal(c, m, &key, &sb);

	if (no == NULL && sb != NULL) { /* as it is by now, whatever has changed around it */
		if (sandbox_wait(sb, c, message->msgid, WAITS_EXISTING) &&
		    sb->state != sandbox_state_registering)
			sandbox_answer_last(sb);
		return;
	}
	if (no == NULL)
		no = acquire_refusal(c, m, runtime);
	if (no != NULL) {
		refusal_send(c, message->msgid, no);
		return;
	}
	sb = acquire_new(c, message, &key, &b->config->runtimes[runtime]);
	if (sb == NULL)
		return;
	sb->has_workspace = needs_workspace(b->config, runtime);
	if (!sb->has_workspace) {
		acquired_record(sb);
		return;
	}
	make.workspace = sb->number;
	control_tell(b, &make);
}

static void
on_made(struct broker *b, const struct control *c)
{
	struct sandbox *sb = sandbox_numbered(b, c->workspace);

	if (sb == NULL || sb->state != sandbox_state_registering || sb->recording)
		return;
	if (c->error == 0) {
		sb->has_files = true;
		acquired_record(sb);
		return;
	}
	log_error("the workspace of %s cannot be made: %s", sb->id, strerror(c->error));
	sandbox_fail(sb, "failed", &no_workspace);
}

void
sandbox_on_workspace(struct broker *b, const struct control *c)
{
	struct sandbox *sb = sandbox_numbered(b, c->workspace);
	struct control drop = { .verb = CONTROL_WORKSPACE_DROP, .workspace = c->workspace };

	if (c->verb == CONTROL_WORKSPACE_MADE)
		on_made(b, c);
	else if (c->verb == CONTROL_WORKSPACE_FOUND && (sb == NULL || sandbox_is_over(sb)))
		control_tell(b, &drop); /* of a session that never was, or is over */
	else if (c->verb == CONTROL_WORKSPACE_FOUND)
		sb->has_files = true;
	else if (c->verb == CONTROL_WORKSPACE_GONE && c->error != 0)
		log_warn("a workspace cannot be removed, and stays until the next start: %s",
		    strerror(c->error));
}
