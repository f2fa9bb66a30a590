#include "broker/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/feed.h"
#include "broker/operation.h"
#include "broker/past.h"
#include "broker/record.h"
#include "broker/sandbox.h"
#include "broker/stored.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "common/walk.h"

/*
 * How a broker begins: the ledger reads the record to its end and says what it implies;
 * what the broker before us left open is ended on record, spent as it stands (D-10,
 * D-11); only then may a link be held.
 */

#define PRIORS_MAX 65536
/* beyond the kill grace: how long a sync may take before it is an outage */

/* An operation of a broker before us. */
struct prior {
	struct broker *broker;
	char id[40];
	char session[24]; /* that it was in; "": in none */
	uint64_t sequence; /* the last number of its block, or of its terminal event */
	struct past past; /* its ending; ENDING_none: still open */
	char (*calls)[65]; /* decided, and without an outcome */
	size_t ncalls;
};

/* Between the first page of the state and readiness; then gone. */
static struct {
	struct prior *priors;
	size_t npriors, cap;
	uint64_t count, segment, length;
	uint8_t chain[JOURNAL_HASH];
	int pending_fd; /* a segment that came before the state */
	uint64_t pending_number, pending_bytes;
	size_t unsettled; /* endings on their way to the disk */
} loading = { .pending_fd = -1 };

static void
text_copy(char *to, size_t cap, struct value v)
{
	snprintf(to, cap, "%.*s", (int)v.bytes.n, (const char *)v.bytes.p);
}

/* ---- the pages ------------------------------------------------------------------------ */

static bool
prior_read_calls(struct prior *p, struct slice list)
{
	struct value v = value_next(&list);

	p->calls = calloc(v.count + 1, sizeof *p->calls);
	if (p->calls == NULL)
		return false;
	for (uint32_t i = 0; i < v.count; i++) {
		struct value id = value_skip(&list);

		if (id.type == VALUE_STR)
			text_copy(p->calls[p->ncalls++], sizeof p->calls[0], id);
	}
	return true;
}

static enum operation_kind
kind_named(struct slice name)
{
	for (int k = operation_kind_command; k <= operation_kind_renameFile; k++)
		if (slice_is(name, operation_kind_name((enum operation_kind)k)))
			return (enum operation_kind)k;
	return operation_kind_turn;
}

static bool
prior_read(struct broker *b, struct value map)
{
	struct prior *grown, *p;
	struct value v;

	if (map.type != VALUE_MAP || !value_get(map.raw, "operation", &v) ||
	    v.type != VALUE_STR || loading.npriors == PRIORS_MAX)
		return false;
	if (loading.npriors == loading.cap) {
		loading.cap = loading.cap == 0 ? 64 : loading.cap * 2;
		grown = reallocarray(loading.priors, loading.cap, sizeof *grown);
		if (grown == NULL)
			return false;
		loading.priors = grown;
	}
	p = &loading.priors[loading.npriors++];
	memset(p, 0, sizeof *p);
	p->broker = b;
	text_copy(p->id, sizeof p->id, v);
	if (value_get(map.raw, "kind", &v) && v.type == VALUE_STR)
		p->past.kind = kind_named(v.bytes);
	if (value_get(map.raw, "reason", &v) && v.type == VALUE_STR)
		text_copy(p->past.code, sizeof p->past.code, v);
	if (value_get(map.raw, "session", &v) && v.type == VALUE_STR)
		text_copy(p->session, sizeof p->session, v);
	if (value_get(map.raw, "sequence", &v) && v.type == VALUE_UINT)
		p->sequence = v.uint;
	if (value_get(map.raw, "cause", &v) && v.type == VALUE_STR)
		p->past.ending = ending_named((const char *)v.bytes.p, v.bytes.n);
	if (value_get(map.raw, "status", &v) && v.type == VALUE_STR)
		text_copy(p->past.status, sizeof p->past.status, v);
	if (value_get(map.raw, "detail", &v) && v.type == VALUE_STR)
		text_copy(p->past.detail, sizeof p->past.detail, v);
	if (value_get(map.raw, "calls", &v) && v.type == VALUE_ARRAY)
		return prior_read_calls(p, v.raw);
	return true;
}

static void
priors_forget(void)
{
	for (size_t i = 0; i < loading.npriors; i++)
		free(loading.priors[i].calls);
	free(loading.priors);
	loading.priors = NULL;
	loading.npriors = loading.cap = 0;
}

/* ---- settling what was left open ------------------------------------------------------ */

/* What it carried is gone (D-16): its numbers, and its ending as the record has it. */
static void
prior_keep(struct broker *b, const struct prior *p, uint64_t sequence)
{
	struct sandbox *sb = NULL;

	if (p->session[0] != '\0')
		sb = sandbox_find(b, slice_of(p->session));
	if (p->session[0] != '\0' && sb == NULL) { /* released: nobody may ask for it any more */
		stored_drop(b->feeds->stored, p->id);
		return;
	}
	if (feeds_keep(b->feeds, sb != NULL ? &sb->feeds : NULL, p->id, &p->past, sequence,
		NULL) < 0)
		log_error("cannot keep the ending of %s: out of memory", p->id);
}

static void
prior_record_init(struct record *r, struct prior *p, const char *type)
{
	record_init(r, p->broker, NULL, type);
	RECORD_TEXT(&r->m, operation, p->id);
}

static void state_settled(struct broker *b);

static void
prior_on_record(void *arg, bool ok)
{
	struct broker *b = arg;

	if (!ok)
		log_error("the ending of an interrupted operation is not on record");
	if (--loading.unsettled == 0)
		state_settled(b);
}

/*
 * May it have had an effect?  A turn's are its calls.  A command or a file operation of a
 * session has begun if it is the first of its queue that has no ending: its record of that may
 * be lost, and what waits behind it has provably not run (OP-5, OP-41).
 */
static bool
prior_may_have_begun(struct prior *p)
{
	struct sandbox *sb =
	    p->session[0] != '\0' ? sandbox_find(p->broker, slice_of(p->session)) : NULL;
	bool first = sb == NULL || !sb->has_open_prior;

	if (sb != NULL)
		sb->has_open_prior = true;
	if (p->past.kind == operation_kind_turn || p->session[0] == '\0')
		return p->ncalls > 0;
	return first;
}

/* Its calls, its turn, itself: each gets its one ending, outcome unknown (D-10). */
static void
prior_settle(struct broker *b, struct prior *p)
{
	struct record r;

	for (size_t i = 0; i < p->ncalls; i++) {
		prior_record_init(&r, p, "tool.invoked");
		RECORD_TEXT(&r.m, call, p->calls[i]);
		RECORD_TEXT(&r.m, reason, "interrupted");
		RECORD_TEXT(&r.m, cause, "outcome_unknown");
		r.m.has_outcome = true;
		r.m.outcome = record_outcome_interrupted;
		record_append(&r, JOURNAL_ENDING, NULL, NULL);
	}
	p->past.ending =
	    prior_may_have_begun(p) ? ENDING_outcome_unknown : ENDING_host_lost;
	snprintf(p->past.status, sizeof p->past.status, "%s", ending_desc(p->past.ending)->turn_status);
	if (p->past.kind == operation_kind_turn) {
		prior_record_init(&r, p, "turn.ended");
		RECORD_TEXT(&r.m, status, p->past.status);
		RECORD_TEXT(&r.m, reason, ending_desc(p->past.ending)->turn_code);
		RECORD_TEXT(&r.m, cause, ending_desc(p->past.ending)->cause);
		record_append(&r, JOURNAL_ENDING, NULL, NULL);
	}
	prior_record_init(&r, p, "operation.ended");
	RECORD_TEXT(&r.m, cause, ending_desc(p->past.ending)->cause);
	RECORD_TEXT(&r.m, status, p->past.status);
	r.m.has_outcome = r.m.has_sequence = true;
	r.m.outcome = record_outcome_interrupted;
	r.m.sequence = p->sequence + 2;
	loading.unsettled++;
	if (record_append(&r, JOURNAL_ENDING, prior_on_record, b) < 0)
		loading.unsettled--;
	prior_keep(b, p, p->sequence + 2);
}

static void
state_settled(struct broker *b)
{
	struct control ready = { .verb = CONTROL_READY };

	priors_forget();
	STOP_POINT("broker.state_settled");
	b->ready = true;
	control_tell(b, &ready);
}

/* The journal can be written for the first time. */
static void
state_settle(struct broker *b)
{
	struct record r;
	char detail[32];
	size_t open = 0;

	loading.unsettled = 1; /* ours, until all are asked for */
	for (size_t i = 0; i < loading.npriors; i++)
		open += loading.priors[i].past.ending == ENDING_none;
	record_init(&r, b, NULL, "broker.started");
	snprintf(detail, sizeof detail, "%zu open operations", open);
	RECORD_TEXT(&r.m, detail, detail);
	RECORD_SLICE(
	    &r.m, digest, ((struct slice){ b->config->digest, sizeof b->config->digest }));
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
	for (size_t i = 0; i < loading.npriors; i++) {
		struct prior *p = &loading.priors[i];

		if (p->past.ending == ENDING_none)
			prior_settle(b, p);
		else
			prior_keep(b, p, p->sequence);
	}
	STOP_POINT("broker.state_recorded");
	prior_on_record(b, true);
}

/* ---- the journal's wishes ------------------------------------------------------------- */

static void
journal_on_segment_wanted(uint64_t number, void *arg)
{
	struct control more = { .verb = CONTROL_MORE, .index = (uint32_t)number };

	control_tell(arg, &more);
}

static void
journal_on_available(bool available, void *arg)
{
	struct broker *b = arg;
	struct session *s;
	static bool settling;

	grants_on_journal(b);
	if (!available) {
		log_error("the journal cannot be written: nothing new starts until it can");
	} else if (!b->ready && !settling) {
		settling = true;
		state_settle(b);
	} else {
		log_info("the journal can be written");
		TAILQ_FOREACH (s, &b->sessions, link)
			operation_renew_block(s->operation);
		broker_check_settled(b); /* it may have waited for nothing else */
	}
}

static const struct journal_handler journal_handler = {
	.on_segment_wanted = journal_on_segment_wanted,
	.on_available = journal_on_available,
};

static void
state_loaded(struct broker *b)
{
	if (!state_grants_attach(b))
		return;
	b->journal = journal_create(b->base, b->journal_io,
	    b->config->durability == durability_full, loading.count, loading.chain,
	    loading.segment, loading.length, &journal_handler, b);
	if (b->journal == NULL) {
		log_error("cannot begin the journal: out of memory or threads");
		b->on_settled(b);
		return;
	}
	STOP_POINT("broker.state_loaded");
	reload_set_stall(b);
	b->on_journal(b);
	if (loading.pending_fd >= 0)
		journal_segment(b->journal, steal_fd(&loading.pending_fd),
		    loading.pending_number, loading.pending_bytes);
}

void
state_segment(struct broker *b, int fd, uint64_t number, uint64_t reserved_bytes)
{
	if (b->journal != NULL) {
		journal_segment(b->journal, fd, number, reserved_bytes);
		return;
	}
	util_close(&loading.pending_fd);
	loading.pending_fd = fd;
	loading.pending_number = number;
	loading.pending_bytes = reserved_bytes;
}

void
state_no_segment(struct broker *b, int error)
{
	if (b->journal != NULL)
		journal_no_segment(b->journal, error);
}

/* ---- the ledger's link ---------------------------------------------------------------- */

static void
state_ask(struct broker *b, struct link *l, uint64_t cursor)
{
	struct msg_state_load m = { .cursor = cursor };
	uint32_t msgid;

	m.has_bodies = m.bodies = cursor == 0 && b->feeds->stored != NULL;
	link_request(l, MSG_state_load, &m, &msgid);
}

/* A session that was acquired, by the record of that: its lease begins anew. */
static int
session_read(struct broker *b, struct slice map)
{
	struct msg_record m = { 0 };
	struct fault fault;
	int r = protocol_unpack(map.p, map.n, MSG_record, &m, &fault);

	return r < 0 ? r : sandbox_restore(b, &m);
}

/* What was admitted into it, and under which key (OP-38). */
static int
admission_read(struct broker *b, struct slice map)
{
	struct value session, operation, key, fingerprint;
	struct admission_key k;
	struct sandbox *sb;
	char id[ADMISSION_ID_MAX];
	int r;

	if (!value_get(map, "session", &session) || session.type != VALUE_STR ||
	    !value_get(map, "operation", &operation) || operation.type != VALUE_STR ||
	    !value_get(map, "key", &key) || key.type != VALUE_BIN ||
	    !value_get(map, "fingerprint", &fingerprint) || fingerprint.type != VALUE_BIN ||
	    key.bytes.n != sizeof k.key || fingerprint.bytes.n != sizeof k.fingerprint ||
	    operation.bytes.n >= sizeof id)
		return -EINVAL;
	sb = sandbox_find(b, session.bytes);
	if (sb == NULL)
		return 0; /* its session was released */
	text_copy(id, sizeof id, operation);
	memcpy(k.key, key.bytes.p, sizeof k.key);
	memcpy(k.fingerprint, fingerprint.bytes.p, sizeof k.fingerprint);
	r = admissions_restore(&sb->keys, &sb->owner->keys, &k, id);
	return r < 0 ? r : 0;
}

static void
state_on_page(struct broker *b, struct link *l, const struct msg_state_load_reply *page)
{
	struct slice list = page->operations;
	struct value array = value_next(&list);
	int r = 0;

	for (uint32_t i = 0; i < array.count && r == 0; i++)
		r = prior_read(b, value_skip(&list)) ? 0 : -EINVAL;
	if (r == 0)
		r = state_grants_read(b, page);
	if (r == 0)
		r = state_asks_read(b, page);
	if (r == 0 && page->has_sessions)
		r = state_each_map(b, page->sessions, session_read);
	if (r == 0 && page->has_admissions)
		r = state_each_map(b, page->admissions, admission_read);
	if (r < 0) {
		log_error("the ledger's state makes no sense, or is too large");
		link_close(l);
		b->on_settled(b);
		return;
	}
	loading.count = page->count;
	loading.segment = page->segment;
	loading.length = page->length;
	memcpy(loading.chain, page->hash.p, sizeof loading.chain);
	if (page->next != 0)
		state_ask(b, l, page->next);
	else
		state_loaded(b);
}

static void
ledger_on_message(struct link *l, const struct message *m, void *arg)
{
	struct broker *b = arg;

	broker_tick(b);
	if (stored_on_message(b->feeds->stored, m))
		return;
	if (m->failed) {
		log_error("the ledger cannot give the state: %.*s", (int)m->error.message.n,
		    (const char *)m->error.message.p);
		b->on_settled(b); /* without its state no broker starts */
	} else if (m->type == MSG_state_load_reply && b->journal == NULL) {
		state_on_page(b, l, &m->u.state_load_reply);
	}
}

static void
ledger_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct broker *b = arg;

	(void)error;
	if (end == LINK_END_FAULT)
		log_error("the ledger broke the protocol: %s", fault->rule);
	if (b->ledger != l)
		return;
	stored_set_link(b->feeds->stored, NULL);
	b->ledger = NULL; /* no effect waits for it; the supervisor makes another */
}

static void
ledger_on_drained(struct link *l, void *arg)
{
	struct broker *b = arg;

	(void)l;
	broker_tick(b);
	stored_on_drained(b->feeds->stored);
}

static const struct link_handler ledger_handler = {
	.on_message = ledger_on_message,
	.on_end = ledger_on_end,
	.on_drained = ledger_on_drained,
};

void
state_ledger(struct broker *b, int fd)
{
	link_close(b->ledger);
	/* One that died between two of its pages: the next begins with its first again. */
	if (b->journal == NULL)
		priors_forget();
	b->ledger = link_open(b->base, fd, ROLE_BROKER, ROLE_LEDGER, &ledger_handler, b);
	if (b->ledger == NULL) {
		stored_set_link(b->feeds->stored, NULL);
		log_error("cannot reach the ledger: out of memory");
		return;
	}
	link_set_state(b->ledger, LINK_READY); /* both ends are ours: no hello */
	if (b->journal == NULL)
		state_ask(b, b->ledger, 0);
	stored_set_link(b->feeds->stored, b->ledger);
}
