#include "broker/event_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RING_MIN 8 /* places of a log that holds anything */

struct event {
	uint64_t at; /* log.appended before it */
	uint32_t n; /* bytes of its body */
	uint8_t type;
	uint8_t stream;
	bool is_output;
	bool has_body;
	uint8_t body[];
};

/* ---- the store ------------------------------------------------------------------------ */

void
event_store_init(struct event_store *s, const struct event_limits *limits)
{
	memset(s, 0, sizeof *s);
	s->limits = *limits;
	for (unsigned i = 0; i < EVENT_LOG_CLASSES; i++)
		TAILQ_INIT(&s->open[i]);
	TAILQ_INIT(&s->full);
	TAILQ_INIT(&s->ended);
}

void
event_store_set_limits(struct event_store *s, const struct event_limits *limits)
{
	s->limits = *limits;
}

/* ---- where a log stands in it --------------------------------------------------------- */

static size_t
log_count(const struct event_log *log)
{
	return (size_t)(log->next - log->first);
}

static unsigned
class_of(uint64_t bytes)
{
	return 63u - (unsigned)__builtin_clzll(bytes);
}

static void
log_leave(struct event_log *log)
{
	TAILQ_REMOVE(&log->store->open[log->class], log, place);
	log->store->nopen--;
}

/* Before `bytes` of it are changed to what they are now: it held `before`. */
static void
log_move(struct event_log *log, uint64_t before)
{
	struct event_store *s = log->store;
	unsigned class = log->bytes == 0 ? 0 : class_of(log->bytes);

	if (log->has_ended)
		return;
	if (before > 0 && log->bytes > 0 && class == log->class)
		return;
	if (before > 0)
		log_leave(log);
	if (log->bytes == 0)
		return;
	log->class = class;
	TAILQ_INSERT_TAIL(&s->open[class], log, place);
	s->nopen++;
	if (class > s->top)
		s->top = class;
}

/* ---- its ring ------------------------------------------------------------------------- */

static struct event **
ring_at(const struct event_log *log, uint64_t sequence)
{
	return &log->ring[sequence & (log->cap - 1)];
}

/* Another size, for as many as it holds; false if memory is out: then it is as it was. */
static bool
ring_resize(struct event_log *log, size_t cap)
{
	struct event_log to = { .ring = calloc(cap, sizeof *to.ring), .cap = cap };

	if (to.ring == NULL)
		return false;
	for (uint64_t i = log->first; i < log->next; i++)
		*ring_at(&to, i) = *ring_at(log, i);
	free(log->ring);
	log->ring = to.ring;
	log->cap = cap;
	return true;
}

static void
log_drop_first(struct event_log *log)
{
	struct event **e = ring_at(log, log->first);
	uint64_t before = log->bytes;
	uint64_t cost = (*e)->n + EVENT_COST;

	free(*e);
	*e = NULL;
	log->first++;
	log->bytes -= cost;
	log->store->bytes -= cost;
	if (log_count(log) == 0) {
		free(log->ring);
		log->ring = NULL;
		log->cap = 0;
	} else if (log->cap > RING_MIN && log_count(log) <= log->cap / 8) {
		ring_resize(log, log->cap / 2);
	}
	log_move(log, before);
	if (log->has_ended && log_count(log) == 1)
		TAILQ_REMOVE(&log->store->full, log, place);
	if (log->has_ended && log_count(log) == 0) {
		TAILQ_REMOVE(&log->store->ended, log, ending);
		log->store->last_bytes -= cost;
	}
}

/* ---- a log ---------------------------------------------------------------------------- */

void
event_log_init(struct event_log *log, struct event_store *s, uint64_t next)
{
	memset(log, 0, sizeof *log);
	log->store = s;
	log->first = log->next = next;
}

void
event_log_clear(struct event_log *log)
{
	while (log_count(log) > 0)
		log_drop_first(log);
}

void
event_log_skip(struct event_log *log, uint64_t next)
{
	assert(next >= log->next && !log->has_ended);
	event_log_clear(log);
	log->first = log->next = next;
}

void
event_log_finish(struct event_log *log)
{
	if (log->store != NULL)
		event_log_clear(log);
}

static struct event *
event_create(const struct msg_operation_event *e)
{
	struct slice body = e->has_data ? e->data : e->has_body ? e->body : (struct slice){ 0 };
	struct event *kept = malloc(sizeof *kept + body.n);

	if (kept == NULL)
		return NULL;
	kept->n = (uint32_t)body.n;
	kept->type = (uint8_t)e->type;
	kept->stream = (uint8_t)e->stream;
	kept->is_output = e->has_data;
	kept->has_body = e->has_body;
	if (body.n > 0)
		memcpy(kept->body, body.p, body.n);
	return kept;
}

void
event_log_append(struct event_log *log, const struct msg_operation_event *e)
{
	struct event *kept = event_create(e);
	uint64_t before = log->bytes;

	assert(e->sequence == log->next && !log->has_ended);
	if (kept != NULL && log_count(log) == log->cap &&
	    !ring_resize(log, log->cap == 0 ? RING_MIN : log->cap * 2)) {
		free(kept);
		kept = NULL;
	}
	if (kept == NULL) { /* what is kept has no hole */
		event_log_clear(log);
		log->first = ++log->next;
		return;
	}
	kept->at = log->appended;
	log->appended += kept->n + EVENT_COST;
	*ring_at(log, log->next) = kept;
	log->next++;
	log->bytes += kept->n + EVENT_COST;
	log->store->bytes += kept->n + EVENT_COST;
	log_move(log, before);
}

void
event_log_end(struct event_log *log, uint64_t now_ms)
{
	struct event_store *s = log->store;
	struct event_log *before;

	assert(!log->has_ended);
	if (log->bytes > 0)
		log_leave(log);
	log->has_ended = true;
	log->ended_at_ms = now_ms;
	if (log_count(log) == 0)
		return;
	/* One that a broker before us had may have ended before those that ended since. */
	before = TAILQ_LAST(&s->ended, event_logs);
	while (before != NULL && before->ended_at_ms > now_ms)
		before = TAILQ_PREV(before, event_logs, ending);
	if (before == NULL)
		TAILQ_INSERT_HEAD(&s->ended, log, ending);
	else
		TAILQ_INSERT_AFTER(&s->ended, before, log, ending);
	s->last_bytes += (*ring_at(log, log->next - 1))->n + EVENT_COST;
	if (log_count(log) == 1)
		return;
	before = TAILQ_LAST(&s->full, event_logs);
	while (before != NULL && before->ended_at_ms > now_ms)
		before = TAILQ_PREV(before, event_logs, place);
	if (before == NULL)
		TAILQ_INSERT_HEAD(&s->full, log, place);
	else
		TAILQ_INSERT_AFTER(&s->full, before, log, place);
}

bool
event_log_read(const struct event_log *log, uint64_t sequence, struct msg_operation_event *ret)
{
	const struct event *e;
	struct slice body;

	if (sequence < log->first || sequence >= log->next)
		return false;
	e = *ring_at(log, sequence);
	body = (struct slice){ e->body, e->n };
	*ret = (struct msg_operation_event){ .sequence = sequence,
		.type = (enum event_type)e->type };
	if (e->is_output) {
		ret->has_stream = ret->has_data = true;
		ret->stream = (enum stream)e->stream;
		ret->data = body;
	} else if (e->has_body) {
		ret->has_body = true;
		ret->body = body;
	}
	return true;
}

/* ---- bounds --------------------------------------------------------------------------- */

/* The one to lose its first event; NULL: nothing is kept. */
static struct event_log *
store_richest(struct event_store *s)
{
	if (!TAILQ_EMPTY(&s->full))
		return TAILQ_FIRST(&s->full);
	while (s->top > 0 && TAILQ_EMPTY(&s->open[s->top]))
		s->top--;
	if (!TAILQ_EMPTY(&s->open[s->top]))
		return TAILQ_FIRST(&s->open[s->top]);
	return TAILQ_FIRST(&s->ended);
}

static uint64_t
own_bound(const struct event_log *log, uint64_t least_bytes)
{
	uint64_t bytes = log->store->limits.operation_bytes;

	return bytes > least_bytes ? bytes : least_bytes;
}

uint64_t
event_log_behind(const struct event_log *log, uint64_t next)
{
	if (next >= log->next)
		return 0;
	return next <= log->first ? log->bytes : log->appended - (*ring_at(log, next))->at;
}

/* Which of those of the highest magnitude is the one that goes is not said: hence the half. */
uint64_t
event_log_room(const struct event_log *log, uint64_t least_bytes)
{
	const struct event_store *s = log->store;
	uint64_t own = own_bound(log, least_bytes), part = 0;
	size_t n = s->nopen + (log->bytes == 0);

	if (s->limits.total_bytes > s->last_bytes)
		part = (s->limits.total_bytes - s->last_bytes) / (2 * n);
	return own < part ? own : part;
}

void
event_log_trim(struct event_log *log, uint64_t least_bytes)
{
	struct event_store *s = log->store;
	uint64_t bound = own_bound(log, least_bytes);
	size_t least = log->has_ended ? 1 : 0;

	while (log->bytes > bound && log_count(log) > least)
		log_drop_first(log);
	while (s->bytes > s->limits.total_bytes)
		log_drop_first(store_richest(s));
}

uint64_t
event_store_expire(struct event_store *s, uint64_t now_ms)
{
	struct event_log *log;

	while ((log = TAILQ_FIRST(&s->ended)) != NULL &&
	    now_ms >= log->ended_at_ms + s->limits.time_ms)
		event_log_clear(log);
	return log == NULL ? 0 : log->ended_at_ms + s->limits.time_ms;
}
