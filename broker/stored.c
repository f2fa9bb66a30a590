#include "broker/stored.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/broker.h"
#include "broker/config.h"
#include "broker/feed.h"
#include "broker/subscriber.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

#define WINDOW	   (1u << 20) /* bytes that wait for the ledger, and no more events join them */
#define PAGE_BYTES (256u << 10)
#define RETRY_MS   1000 /* behind a failure of the ledger's */

struct stored {
	struct feeds *feeds;
	struct link *link; /* NULL: it is away */
	bool failed; /* it cannot keep anything now: until the alarm */
	bool fresh; /* it has not answered this broker yet */
	TAILQ_HEAD(, feed) unsent; /* feed.sent is not the end of its log */
	TAILQ_HEAD(, feed) unkept; /* nor is feed.kept */
	TAILQ_HEAD(, feed) loading; /* the first is being read, if there is a link */
	uint32_t msgid; /* of that request */
	char asked[FEED_ID_MAX]; /* whose events */
	bool reading;
	struct alarm retry;
};

/* ---- what is not kept yet ------------------------------------------------------------- */

static bool
can_send(const struct stored *st)
{
	return st->link != NULL && !st->failed;
}

/* So much of it may be delivered. */
static void
set_kept(struct stored *st, struct feed *f, uint64_t kept)
{
	f->kept = kept;
	if (kept == f->log.next && f->is_unkept) {
		TAILQ_REMOVE(&st->unkept, f, unkept);
		f->is_unkept = false;
	}
}

static void
set_unsent(struct stored *st, struct feed *f, bool unsent)
{
	if (unsent && !f->is_unsent)
		TAILQ_INSERT_TAIL(&st->unsent, f, unsent);
	else if (!unsent && f->is_unsent)
		TAILQ_REMOVE(&st->unsent, f, unsent);
	f->is_unsent = unsent;
}

static void
send_next(struct stored *st, struct feed *f)
{
	struct msg_operation_event e;
	struct msg_body_keep m = { .operation = slice_of(f->id) };

	if (!event_log_read(&f->log, f->sent, &e))
		return;
	m.sequence = e.sequence;
	m.type = e.type;
	m.has_stream = e.has_stream;
	m.stream = e.stream;
	m.has_data = e.has_data;
	m.data = e.data;
	m.has_body = e.has_body;
	m.body = e.body;
	if (link_notify(st->link, MSG_body_keep, &m) == 0)
		f->sent++;
	else
		link_close(st->link); /* memory is out, or it ends: with the next one */
}

/*
 * One event of each, in turn.  What the log has dropped is kept nowhere: if nothing is left
 * behind it, that may be told.
 */
static void
push(struct stored *st)
{
	struct feed *f;

	while (can_send(st) && (f = TAILQ_FIRST(&st->unsent)) != NULL) {
		if (link_queued(st->link) >= WINDOW) {
			link_watch(st->link, WINDOW / 2);
			return;
		}
		set_unsent(st, f, false);
		if (f->sent < f->log.first)
			f->sent = f->log.first;
		if (f->sent < f->log.next) {
			uint64_t before = f->sent;

			send_next(st, f);
			if (f->sent == before) {
				set_unsent(st, f, true);
				return;
			}
		} else {
			set_kept(st, f, f->log.next);
			subscribers_pump(f);
		}
		set_unsent(st, f, f->sent < f->log.next);
	}
}

void
stored_append(struct stored *st, struct feed *f)
{
	if (st == NULL)
		return;
	if (!f->is_unkept) {
		TAILQ_INSERT_TAIL(&st->unkept, f, unkept);
		f->is_unkept = true;
	}
	set_unsent(st, f, true);
	push(st);
}

static void
on_kept(struct stored *st, const struct msg_body_kept *m)
{
	struct feed *f = feed_find(st->feeds, m->operation);
	uint64_t kept = m->sequence + 1;

	st->fresh = false;
	if (f == NULL || !f->is_unkept || kept <= f->kept)
		return;
	set_kept(st, f, kept < f->log.next ? kept : f->log.next);
	STOP_POINT("broker.body_kept");
	subscribers_pump(f);
}

/* ---- what a broker before us had ------------------------------------------------------ */

static void
read_next(struct stored *st)
{
	struct feed *f = TAILQ_FIRST(&st->loading);
	struct msg_body_read m = { .limit = PAGE_BYTES };

	if (st->reading || f == NULL || !can_send(st))
		return;
	m.operation = slice_of(f->id);
	m.after = f->log.next - 1;
	snprintf(st->asked, sizeof st->asked, "%s", f->id);
	st->reading = link_request(st->link, MSG_body_read, &m, &st->msgid) == 0;
	if (!st->reading)
		link_close(st->link); /* memory is out, or it ends: with the next one */
}

static void
loaded(struct stored *st, struct feed *f, uint64_t age_ms)
{
	uint64_t now_ms = st->feeds->broker->now_ms;

	TAILQ_REMOVE(&st->loading, f, loading);
	f->is_loading = false;
	event_log_end(&f->log, age_ms < now_ms ? now_ms - age_ms : 0);
	event_log_trim(&f->log, 0);
	feeds_on_ending(st->feeds);
	subscribers_pump(f);
}

/* One event of it; false: it is none that may stand where its ending is on record. */
static bool
take_event(struct feed *f, struct slice map)
{
	struct msg_body_keep m = { 0 };
	struct msg_operation_event e = { 0 };
	struct fault fault;
	bool is_last;

	if (protocol_unpack(map.p, map.n, MSG_body_keep, &m, &fault) < 0 ||
	    m.sequence < f->log.next || m.sequence > f->beyond)
		return false;
	is_last = m.type == event_type_completed || m.type == event_type_failed;
	if (is_last != (m.sequence == f->beyond))
		return false;
	e.sequence = m.sequence;
	e.type = m.type;
	e.has_stream = m.has_stream;
	e.stream = m.stream;
	e.has_data = m.has_data;
	e.data = m.data;
	e.has_body = m.has_body;
	e.body = m.body;
	if (m.sequence != f->log.next)
		event_log_skip(&f->log, m.sequence);
	event_log_append(&f->log, &e);
	event_log_trim(&f->log, 0);
	return true;
}

static void
on_page(struct stored *st, struct feed *f, const struct msg_body_read_reply *page)
{
	struct slice list = page->events;
	struct value array = value_next(&list);
	bool more = page->more && array.count > 0;

	st->fresh = false;
	for (uint32_t i = 0; i < array.count; i++)
		if (!take_event(f, value_skip(&list).raw)) {
			more = false;
			break;
		}
	if (!more)
		loaded(st, f, page->has_ageMs ? page->ageMs : 0);
}

static void
on_read(struct stored *st, const struct message *m)
{
	struct feed *f = TAILQ_FIRST(&st->loading);

	st->reading = false;
	if (f != NULL && slice_is(slice_of(f->id), st->asked)) {
		if (m->failed)
			loaded(st, f, 0);
		else
			on_page(st, f, &m->u.body_read_reply);
	}
	read_next(st);
}

void
stored_load(struct stored *st, struct feed *f)
{
	f->is_loading = true;
	f->kept = UINT64_MAX;
	TAILQ_INSERT_TAIL(&st->loading, f, loading);
	read_next(st);
}

/* ---- the ledger ----------------------------------------------------------------------- */

static void
tell_bounds(struct stored *st)
{
	const struct config *c = st->feeds->broker->config;
	struct msg_body_bounds m = {
		.operationBytes = c->retained.operation_bytes,
		.totalBytes = c->retained.total_bytes,
		.timeMs = c->retained.time_ms,
		.sync = c->durability == durability_full,
		.fresh = st->fresh,
	};

	if (can_send(st))
		link_notify(st->link, MSG_body_bounds, &m);
}

/* All that it has not said to be kept, again. */
static void
begin(struct stored *st)
{
	struct feed *f;

	tell_bounds(st);
	TAILQ_FOREACH (f, &st->unkept, unkept) {
		f->sent = f->kept;
		set_unsent(st, f, true);
	}
	push(st);
	read_next(st);
}

static void
stored_on_retry(void *arg)
{
	struct stored *st = arg;

	st->failed = false;
	if (st->link != NULL)
		begin(st);
}

void
stored_set_link(struct stored *st, struct link *l)
{
	if (st == NULL)
		return;
	st->link = l;
	st->failed = st->reading = false;
	alarm_clear(&st->retry);
	if (l != NULL)
		begin(st);
}

static void
on_failed(struct stored *st, const struct msg_body_failed *m)
{
	struct broker *b = st->feeds->broker;

	log_error("the ledger cannot keep events, so they are not delivered: %.*s",
	    (int)m->problem.n, (const char *)m->problem.p);
	st->failed = true;
	alarm_set(b->alarms, &st->retry, b->now_ms + RETRY_MS);
}

bool
stored_on_message(struct stored *st, const struct message *m)
{
	if (m->type != MSG_body_kept && m->type != MSG_body_failed &&
	    m->type != MSG_body_read_reply)
		return false;
	if (st == NULL)
		return true;
	if (m->type == MSG_body_kept)
		on_kept(st, &m->u.body_kept);
	else if (m->type == MSG_body_failed)
		on_failed(st, &m->u.body_failed);
	else if (st->reading && m->msgid == st->msgid)
		on_read(st, m);
	return true;
}

void
stored_on_drained(struct stored *st)
{
	if (st != NULL)
		push(st);
}

void
stored_on_config(struct stored *st)
{
	if (st != NULL)
		tell_bounds(st);
}

/* ---- feeds ---------------------------------------------------------------------------- */

void
stored_init_feed(struct stored *st, struct feed *f)
{
	f->kept = st != NULL ? f->log.next : UINT64_MAX;
	f->sent = f->log.next;
}

void
stored_drop(struct stored *st, const char *operation)
{
	struct msg_body_drop m = { .operation = slice_of(operation) };

	if (st != NULL && can_send(st))
		link_notify(st->link, MSG_body_drop, &m);
}

void
stored_forget(struct stored *st, struct feed *f)
{
	if (st == NULL)
		return;
	set_unsent(st, f, false);
	if (f->is_unkept)
		TAILQ_REMOVE(&st->unkept, f, unkept);
	if (f->is_loading)
		TAILQ_REMOVE(&st->loading, f, loading);
	f->is_unkept = f->is_loading = false;
	f->kept = UINT64_MAX;
	stored_drop(st, f->id);
}

struct stored *
stored_create(struct feeds *fs)
{
	struct stored *st = calloc(1, sizeof *st);

	if (st == NULL)
		return NULL;
	st->feeds = fs;
	st->fresh = true;
	TAILQ_INIT(&st->unsent);
	TAILQ_INIT(&st->unkept);
	TAILQ_INIT(&st->loading);
	st->retry = (struct alarm){ .fn = stored_on_retry, .arg = st };
	return st;
}

void
stored_destroy(struct stored *st)
{
	if (st == NULL)
		return;
	alarm_clear(&st->retry);
	free(st);
}
