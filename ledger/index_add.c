#include "ledger/index_private.h"

#include "common/records.h"

static void
bind_slice(sqlite3_stmt *s, int i, bool has, struct slice v)
{
	/* Bound for one step only, so it need not be copied. */
	if (has)
		sqlite3_bind_text(s, i, (const char *)v.p, (int)v.n, SQLITE_STATIC);
}

static void
bind_bytes(sqlite3_stmt *s, int i, struct slice v)
{
	sqlite3_bind_blob(s, i, v.p, (int)v.n, SQLITE_STATIC);
}

static void
bind_uint(sqlite3_stmt *s, int i, uint64_t v)
{
	/* What is over 2^63 can only be nonsense of a subverted broker; it stays comparable. */
	sqlite3_bind_int64(s, i, v > INT64_MAX ? INT64_MAX : (sqlite3_int64)v);
}

/* Executes a statement without results.  A NULL statement is a failed one. */
static int
step(struct index *x, sqlite3_stmt *s)
{
	int ret;

	if (!s)
		return index_failed(x, "prepare");
	ret = sqlite3_step(s);
	sqlite3_reset(s);
	return ret == SQLITE_DONE || ret == SQLITE_ROW ? 0 : index_failed(x, "write");
}

static void
bind_record(sqlite3_stmt *s, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;

	bind_uint(s, 1, count);
	bind_uint(s, 2, e->segment);
	bind_uint(s, 3, e->offset);
	bind_uint(s, 4, e->length);
	bind_uint(s, 5, r->at);
	bind_slice(s, 6, true, r->type);
	if (r->has_outcome)
		sqlite3_bind_int(s, 7, (int)r->outcome);
	bind_slice(s, 8, r->has_operation, r->operation);
	bind_slice(s, 9, r->has_call, r->call);
	bind_slice(s, 10, r->has_callId, r->callId);
	bind_slice(s, 11, r->has_trace, r->trace);
	bind_slice(s, 12, r->has_actor, r->actor);
	bind_slice(s, 13, r->has_tool, r->tool);
	bind_slice(s, 14, r->has_grant, r->grant);
	bind_slice(s, 15, r->has_subject, r->subject);
	bind_slice(s, 16, r->has_session, r->session);
	bind_slice(s, 17, r->has_principal, r->principal);
}

/* Under which key something is admitted in a session. */
static int
on_admission(struct index *x, uint64_t count, const struct msg_record *r)
{
	sqlite3_stmt *s;

	if (!r->has_session || !r->has_operation || !r->has_key || !r->has_fingerprint)
		return 0;
	s = index_statement(x, STATEMENT_ADMISSION);
	bind_uint(s, 1, count);
	bind_slice(s, 2, true, r->session);
	bind_bytes(s, 3, r->key);
	bind_bytes(s, 4, r->fingerprint);
	bind_slice(s, 5, true, r->operation);
	return step(x, s);
}

static int
on_accepted(struct index *x, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;
	sqlite3_stmt *s = index_statement(x, STATEMENT_ACCEPTED);
	int ret;

	bind_slice(s, 1, r->has_operation, r->operation);
	bind_slice(s, 2, r->has_detail, r->detail);
	bind_slice(s, 3, r->has_trace, r->trace);
	bind_uint(s, 4, r->has_sequence ? r->sequence : 0);
	bind_slice(s, 5, r->has_session, r->session);
	bind_slice(s, 6, r->has_principal, r->principal);
	ret = step(x, s);
	return ret == 0 ? on_admission(x, count, r) : ret;
}

static int
on_block(struct index *x, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;
	sqlite3_stmt *s = index_statement(x, STATEMENT_BLOCK);

	(void)count;
	bind_slice(s, 1, r->has_operation, r->operation);
	bind_uint(s, 2, r->sequence);
	return step(x, s);
}

static int
on_ended(struct index *x, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;
	sqlite3_stmt *s = index_statement(x, STATEMENT_ENDED);

	bind_slice(s, 1, r->has_operation, r->operation);
	bind_uint(s, 2, count);
	bind_slice(s, 3, r->has_cause, r->cause);
	bind_slice(s, 4, r->has_status, r->status);
	bind_slice(s, 5, r->has_detail, r->detail);
	/* Of its terminal event, in place of the last number that it might have used. */
	if (r->has_sequence)
		bind_uint(s, 6, r->sequence);
	bind_slice(s, 7, r->has_reason, r->reason);
	return step(x, s);
}

static int
on_id(struct index *x, enum statement which, struct slice id)
{
	sqlite3_stmt *s = index_statement(x, which);

	bind_slice(s, 1, true, id);
	return step(x, s);
}

static int
on_started(struct index *x, uint64_t count, const struct entry *e)
{
	(void)count;
	return e->record.has_operation ? on_id(x, STATEMENT_STARTED, e->record.operation) : 0;
}

/* A record that is kept as it stands, under an id that it holds. */
static int
keep_record(struct index *x, enum statement which, uint64_t count, const struct entry *e,
    struct slice id)
{
	sqlite3_stmt *s = index_statement(x, which);

	bind_uint(s, 1, count);
	bind_slice(s, 2, true, id);
	bind_bytes(s, 3, e->map);
	return step(x, s);
}

static int
on_acquired(struct index *x, uint64_t count, const struct entry *e)
{
	return e->record.has_session
		   ? keep_record(x, STATEMENT_SESSION, count, e, e->record.session)
		   : 0;
}

static int
on_session_released(struct index *x, uint64_t count, const struct entry *e)
{
	int ret = 0;

	(void)count;
	if (e->record.has_session)
		ret = on_id(x, STATEMENT_SESSION_OVER, e->record.session);
	return ret == 0 && e->record.has_session
		   ? on_id(x, STATEMENT_ADMISSIONS_OVER, e->record.session)
		   : ret;
}

/* What is late says nothing of how the call ended, and so nothing of its key. */
static int
on_call_over(struct index *x, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;
	int ret;

	(void)count;
	if (!r->has_call)
		return 0;
	ret = on_id(x, STATEMENT_CALL_OVER, r->call);
	if (ret < 0 || !r->has_outcome)
		return ret;
	if (r->has_notStarted && r->notStarted)
		return on_id(x, STATEMENT_KEY_FREE, r->call);
	return r->outcome != record_outcome_interrupted
		   ? on_id(x, STATEMENT_KEY_SETTLED, r->call)
		   : 0;
}

static int
on_key(struct index *x, uint64_t count, const struct msg_record *r)
{
	sqlite3_stmt *s;

	if (!r->has_key || !r->has_fingerprint || !r->has_actor)
		return 0;
	s = index_statement(x, STATEMENT_KEY);
	bind_uint(s, 1, count);
	bind_bytes(s, 2, r->key);
	bind_bytes(s, 3, r->fingerprint);
	bind_slice(s, 4, true, r->actor);
	bind_slice(s, 5, true, r->call);
	return step(x, s);
}

static int
use(struct index *x, enum statement which, const struct msg_record *r)
{
	sqlite3_stmt *s;

	if (!r->has_grant || !r->has_uses)
		return 0;
	s = index_statement(x, which);
	bind_slice(s, 1, true, r->grant);
	bind_uint(s, 2, r->uses);
	return step(x, s);
}

static int
on_checked(struct index *x, uint64_t count, const struct entry *e)
{
	const struct msg_record *r = &e->record;
	sqlite3_stmt *s;
	int ret;

	if (!r->has_outcome || r->outcome != record_outcome_allowed)
		return 0;
	ret = use(x, STATEMENT_USE, r);
	if (ret < 0 || !r->has_call || !r->has_operation)
		return ret;
	s = index_statement(x, STATEMENT_CALL);
	bind_slice(s, 1, true, r->call);
	bind_slice(s, 2, true, r->operation);
	ret = step(x, s);
	return ret == 0 ? on_key(x, count, r) : ret;
}

static int
on_released(struct index *x, uint64_t count, const struct entry *e)
{
	(void)count;
	return use(x, STATEMENT_RELEASE, &e->record);
}

/* The record itself: what was issued is believed by its digest, which is of all of it. */
static int
on_issued(struct index *x, uint64_t count, const struct entry *e)
{
	int ret;

	if (!e->record.has_grant)
		return 0;
	ret = keep_record(x, STATEMENT_ISSUED, count, e, e->record.grant);
	if (ret < 0 || !e->record.has_escalation)
		return ret;
	return on_id(x, STATEMENT_RESOLVED, e->record.escalation);
}

static int
on_escalation(struct index *x, uint64_t count, const struct entry *e)
{
	sqlite3_stmt *s;
	int ret;

	if (!e->record.has_escalation)
		return 0;
	ret = keep_record(x, STATEMENT_ESCALATION, count, e, e->record.escalation);
	if (ret < 0)
		return ret;
	s = index_statement(x, STATEMENT_ESCALATIONS_TRIM);
	bind_uint(s, 1, ESCALATIONS_MAX);
	return step(x, s);
}

static int
on_revoked(struct index *x, uint64_t count, const struct entry *e)
{
	sqlite3_stmt *s;
	int ret;

	if (!e->record.has_grant)
		return 0;
	s = index_statement(x, STATEMENT_REVOKED);
	bind_uint(s, 1, count);
	bind_slice(s, 2, true, e->record.grant);
	bind_uint(s, 3, e->record.at);
	ret = step(x, s);
	/* Of a grant that nobody was given: its ask waits again. */
	return ret == 0 && e->record.has_escalation
		   ? on_id(x, STATEMENT_REOPENED, e->record.escalation)
		   : ret;
}

/* What each type of record changes in what the record implies. */
static int (*const on_record[RECORD_MAX])(
    struct index *x, uint64_t count, const struct entry *e) = {
	[RECORD_operation_accepted] = on_accepted,
	[RECORD_operation_started] = on_started,
	[RECORD_session_acquired] = on_acquired,
	[RECORD_session_released] = on_session_released,
	[RECORD_block_opened] = on_block,
	[RECORD_operation_ended] = on_ended,
	[RECORD_authorization_checked] = on_checked,
	[RECORD_tool_invoked] = on_call_over,
	[RECORD_usage_released] = on_released,
	[RECORD_grant_issued] = on_issued,
	[RECORD_grant_revoked] = on_revoked,
	[RECORD_escalation_requested] = on_escalation,
};

int
index_add(struct index *x, const struct entry *e, const struct position *after)
{
	enum record_type type = record_named(e->record.type);
	sqlite3_stmt *s;
	int ret = 0;

	if (x->pending == 0)
		ret = step(x, index_statement(x, STATEMENT_BEGIN));
	if (ret < 0)
		return ret;
	x->pending++;
	s = index_statement(x, STATEMENT_RECORD);
	if (!s)
		return index_failed(x, "prepare");
	bind_record(s, after->count, e);
	ret = step(x, s);
	if (ret == 0 && on_record[type])
		ret = on_record[type](x, after->count, e);
	if (ret == 0)
		x->at = *after;
	return ret;
}

int
index_commit(struct index *x)
{
	sqlite3_stmt *s;
	int ret;

	if (x->pending == 0)
		return 0;
	s = index_statement(x, STATEMENT_POSITION);
	if (!s)
		return index_failed(x, "prepare");
	bind_uint(s, 1, x->at.count);
	sqlite3_bind_blob(s, 2, x->at.hash, JOURNAL_HASH, SQLITE_STATIC);
	bind_uint(s, 3, x->at.segment);
	bind_uint(s, 4, x->at.offset);
	ret = step(x, s);
	if (ret == 0)
		ret = step(x, index_statement(x, STATEMENT_COMMIT));
	if (ret == 0)
		x->pending = 0;
	return ret;
}
