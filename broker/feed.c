#include "broker/feed.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/config.h"
#include "broker/operation.h"
#include "broker/stored.h"
#include "broker/subscriber.h"
#include "common/clock.h"
#include "common/walk.h"

/* ---- all of them ---------------------------------------------------------------------- */

static void
feeds_on_alarm(void *arg)
{
	struct feeds *fs = arg;
	uint64_t at_ms;

	broker_tick(fs->broker);
	at_ms = event_store_expire(&fs->store, fs->broker->now_ms);
	if (at_ms != 0)
		alarm_set(fs->broker->alarms, &fs->alarm, at_ms);
}

struct feeds *
feeds_create(struct broker *b)
{
	struct feeds *fs = calloc(1, sizeof *fs);

	if (fs == NULL || table_init(&fs->by_id) < 0) {
		free(fs);
		return NULL;
	}
	fs->broker = b;
	if (b->config->retention == retention_durable &&
	    (fs->stored = stored_create(fs)) == NULL) {
		table_finish(&fs->by_id);
		free(fs);
		return NULL;
	}
	fs->alarm = (struct alarm){ .fn = feeds_on_alarm, .arg = fs };
	feed_list_init(&fs->loose, NULL, NULL);
	TAILQ_INIT(&fs->ended);
	event_store_init(&fs->store, &b->config->retained);
	return fs;
}

void
feeds_on_config(struct feeds *fs)
{
	event_store_set_limits(&fs->store, &fs->broker->config->retained);
	stored_on_config(fs->stored);
	feeds_on_alarm(fs);
}

void
feeds_on_ending(struct feeds *fs)
{
	if (fs->alarm.at_ms == 0)
		feeds_on_alarm(fs);
}

void
feeds_destroy(struct feeds *fs)
{
	if (fs == NULL)
		return;
	feed_list_finish(&fs->loose);
	alarm_clear(&fs->alarm);
	stored_destroy(fs->stored);
	table_finish(&fs->by_id);
	buf_finish(&fs->scratch);
	free(fs);
}

static uint64_t
hash_of(struct slice id)
{
	return hash_bytes(5, (const char *)id.p, id.n);
}

struct feed *
feed_find(const struct feeds *fs, struct slice id)
{
	uint64_t hash = hash_of(id), at = hash;
	struct feed *f;

	while ((f = table_next(&fs->by_id, hash, &at)) != NULL)
		if (slice_is(id, f->id))
			break;
	return f;
}

/* ---- who is waited for ---------------------------------------------------------------- */

bool
feed_may_append(struct feed *f)
{
	struct ahead a;

	subscribers_pump(f);
	subscribers_ahead(f, &a);
	if (a.has_room || a.until_ms == 0 ||
	    event_log_behind(&f->log, a.next) + FEED_SPARE_BYTES <=
		event_log_room(&f->log, FEED_FLIGHT_BYTES))
		return true;
	f->held = true;
	alarm_set(f->all->broker->alarms, &f->alarm, a.until_ms);
	return false;
}

static void
feed_on_alarm(void *arg)
{
	struct feed *f = arg;

	broker_tick(f->all->broker);
	if (f->held && feed_may_append(f) && feed_let_go(f) && f->on_room != NULL)
		f->on_room(f->arg);
}

void
feed_wake(struct feed *f)
{
	if (f->held)
		alarm_set(f->all->broker->alarms, &f->alarm, f->all->broker->now_ms);
}

bool
feed_let_go(struct feed *f)
{
	bool held = f->held;

	alarm_clear(&f->alarm);
	f->held = false;
	return held;
}

/* What waits for its clients is dropped with the rest only when none of them is waited for. */
static void
feed_trim(struct feed *f)
{
	struct ahead a;
	uint64_t behind;

	subscribers_ahead(f, &a);
	behind = event_log_behind(&f->log, a.least);
	event_log_trim(&f->log, behind < FEED_FLIGHT_BYTES ? behind : FEED_FLIGHT_BYTES);
}

/* ---- the life of one ------------------------------------------------------------------ */

static struct feed *
feed_make(struct feeds *fs, struct feed_list *l, const char *id, uint64_t next)
{
	struct feed *f = calloc(1, sizeof *f);

	if (f == NULL || table_reserve(&fs->by_id, 1) < 0) {
		free(f);
		return NULL;
	}
	assert(strlen(id) < sizeof f->id);
	f->all = fs;
	f->list = l;
	memcpy(f->id, id, strlen(id));
	f->number = ++fs->last_number;
	f->alarm = (struct alarm){ .fn = feed_on_alarm, .arg = f };
	event_log_init(&f->log, &fs->store, next);
	stored_init_feed(l != &fs->loose ? fs->stored : NULL, f);
	TAILQ_INIT(&f->subscribers);
	table_put(&fs->by_id, hash_of(slice_of(f->id)), f);
	TAILQ_INSERT_TAIL(&l->feeds, f, entry);
	return f;
}

struct feed *
feed_create(struct feeds *fs, struct feed_list *l, const char *id, enum operation_kind kind)
{
	struct feed *f = feed_make(fs, l, id, 1);

	if (f != NULL)
		f->past.kind = kind;
	return f;
}

/* Who follows it is told how it ended first, if it has: the words are few by then. */
static void
feed_destroy(struct feed *f)
{
	struct feeds *fs = f->all;

	stored_forget(f->list != &fs->loose ? fs->stored : NULL, f);
	event_log_finish(&f->log);
	subscribers_finish(f);
	feed_let_go(f);
	if (feed_has_ended(f))
		f->list->nended--;
	if (feed_has_ended(f) && f->list != &fs->loose) {
		TAILQ_REMOVE(&fs->ended, f, ended);
		fs->nended--;
	}
	table_remove(&fs->by_id, hash_of(slice_of(f->id)), f);
	TAILQ_REMOVE(&f->list->feeds, f, entry);
	free(f);
}

void
feed_list_init(struct feed_list *l, const char *session, const char *principal)
{
	TAILQ_INIT(&l->feeds);
	l->session = session;
	l->principal = principal;
	l->nended = 0;
}

void
feed_list_finish(struct feed_list *l)
{
	struct feed *f;

	while ((f = TAILQ_FIRST(&l->feeds)) != NULL)
		feed_destroy(f);
}

void
feed_admit(struct feed *f)
{
	f->admitted = true;
	f->accepted_at_ms = clock_wall_ms();
	subscribers_answer(f);
}

void
feed_refuse(struct feed *f, const char *code, const char *message)
{
	subscribers_refuse(f, code, message);
	feed_destroy(f);
}

void
feed_begin(struct feed *f)
{
	f->has_begun = true;
	f->started_at_ms = clock_wall_ms();
}

void
feed_append(struct feed *f, struct msg_operation_event *e)
{
	event_log_append(&f->log, e);
	stored_append(f->all->stored, f);
	subscribers_pump(f);
	feed_trim(f);
}

/* ---- its end -------------------------------------------------------------------------- */

/* `last` has just ended: it may have been admitted before all others that have. */
static void
list_forget_oldest(struct feed_list *l, const struct feed *last)
{
	struct feed *f;

	TAILQ_FOREACH (f, &l->feeds, entry)
		if (f != last && feed_has_ended(f)) {
			feed_destroy(f);
			return;
		}
}

/* It has ended, and is the last of those to go. */
static void
feed_settle(struct feed *f)
{
	struct feeds *fs = f->all;
	struct feed_list *l = f->list;

	l->nended++;
	if (l == &fs->loose) {
		if (l->nended > FEEDS_LOOSE_MAX)
			list_forget_oldest(l, f);
	} else {
		TAILQ_INSERT_TAIL(&fs->ended, f, ended);
		fs->nended++;
		if (l->nended > FEEDS_LIST_MAX)
			list_forget_oldest(l, f);
		else if (fs->nended > FEEDS_ENDED_MAX)
			feed_destroy(TAILQ_FIRST(&fs->ended));
	}
	if (f->is_loading)
		return;
	event_log_end(&f->log, fs->broker->now_ms);
	feeds_on_ending(fs);
}

void
feed_check(struct feed *f)
{
	if (f->all->broker->config->retention == retention_none && feed_has_ended(f) &&
	    f->nsubscribers == 0)
		event_log_clear(&f->log);
}

void
feed_end(struct feed *f, const struct past *p, struct msg_operation_event *e)
{
	struct event_log *log = &f->log;

	assert(p->ending != ENDING_none);
	event_log_append(log, e);
	f->past = *p;
	f->ended_at_ms = clock_wall_ms();
	feed_let_go(f);
	f->on_room = NULL;
	stored_append(f->all->stored, f);
	subscribers_pump(f);
	feed_settle(f);
	feed_check(f);
	feed_trim(f);
}

int
feeds_keep(struct feeds *fs, struct feed_list *l, const char *id, const struct past *p,
    uint64_t sequence, const struct msg_operation_event *e)
{
	bool load = e == NULL && l != NULL && fs->stored != NULL;
	struct feed *f = feed_make(fs, l != NULL ? l : &fs->loose, id,
	    load ? 1 : e != NULL ? sequence : sequence + 1);

	if (f == NULL)
		return -ENOMEM;
	f->admitted = true;
	f->past = *p;
	if (e != NULL) {
		event_log_append(&f->log, e);
		f->ended_at_ms = clock_wall_ms();
	}
	if (load) {
		f->beyond = sequence;
		stored_load(fs->stored, f);
	}
	feed_settle(f);
	event_log_trim(&f->log, 0);
	return 0;
}

/* ---- what is told of it --------------------------------------------------------------- */

/* What each of them begins with is known, whether it is kept or not. */
static void
read_accepted(const struct feed *f, struct buf *scratch, struct msg_operation_event *ret)
{
	*ret = (struct msg_operation_event){ .sequence = 1, .type = event_type_accepted };
	pack_map(scratch, 1);
	pack_str(scratch, "operationID");
	pack_str(scratch, f->id);
}

static void
read_gap(uint64_t from, uint64_t to, struct buf *scratch, struct msg_operation_event *ret)
{
	*ret = (struct msg_operation_event){ .sequence = to, .type = event_type_gap };
	pack_map(scratch, 2);
	pack_str(scratch, "from");
	pack_uint(scratch, from);
	pack_str(scratch, "to");
	pack_uint(scratch, to);
}

int
feed_read(const struct feed *f, uint64_t next, struct msg_operation_event *ret,
    uint64_t *ret_next)
{
	struct buf *scratch = &f->all->scratch;
	uint64_t last = feed_last(f);
	uint64_t first = feed_retained_from(f);

	scratch->n = 0;
	if (next > last || next >= f->kept || f->is_loading)
		return 0;
	if (event_log_read(&f->log, next, ret)) {
		*ret_next = next + 1;
		return 1;
	}
	if (next == 1 && f->list->session != NULL && !(feed_has_ended(f) && last == 1)) {
		read_accepted(f, scratch, ret);
	} else if (next < first || next < last) {
		read_gap(next, (next < first ? first : last) - 1, scratch, ret);
		if (ret->sequence >= f->kept)
			return 0;
	} else {
		*ret = (struct msg_operation_event){ .sequence = last };
		ret->type = past_pack(scratch, &f->past);
	}
	if (scratch->failed) {
		buf_finish(scratch);
		return -ENOMEM;
	}
	ret->has_body = true;
	ret->body = buf_slice(scratch);
	*ret_next = ret->sequence + 1;
	return 1;
}

static enum operation_state
feed_state(const struct feed *f)
{
	return feed_has_ended(f) ? past_state(&f->past)
	    : f->has_begun	 ? operation_state_running
				 : operation_state_queued;
}

/* The names in protocol.def, of an enum that no field has. */
static const char *const state_names[] = {
	[operation_state_queued] = "queued",
	[operation_state_running] = "running",
	[operation_state_succeeded] = "succeeded",
	[operation_state_failed] = "failed",
	[operation_state_cancelled] = "cancelled",
	[operation_state_timed_out] = "timed_out",
};

static void
pack_instant(struct buf *b, const char *name, uint64_t at_ms)
{
	if (at_ms == 0)
		return;
	pack_str(b, name);
	pack_uint(b, at_ms);
}

void
feed_pack(struct buf *b, const struct feed *f)
{
	bool failed = feed_has_ended(f) && past_code(&f->past)[0] != '\0';

	pack_map(b, 6u + (f->accepted_at_ms != 0) + (f->started_at_ms != 0) +
		(f->ended_at_ms != 0) + 2u * failed);
	pack_str(b, "operationID");
	pack_str(b, f->id);
	pack_str(b, "session");
	pack_str(b, f->list->session != NULL ? f->list->session : "");
	pack_str(b, "kind");
	pack_str(b, operation_kind_name(f->past.kind));
	pack_str(b, "state");
	pack_str(b, state_names[feed_state(f)]);
	pack_str(b, "sequence");
	pack_uint(b, feed_last(f));
	pack_str(b, "retainedFrom");
	pack_uint(b, feed_retained_from(f));
	pack_instant(b, "acceptedAt", f->accepted_at_ms);
	pack_instant(b, "startedAt", f->started_at_ms);
	pack_instant(b, "endedAt", f->ended_at_ms);
	if (!failed)
		return;
	pack_str(b, "code");
	pack_str(b, past_code(&f->past));
	pack_str(b, "cause");
	pack_str(b, ending_desc(f->past.ending)->cause);
}
