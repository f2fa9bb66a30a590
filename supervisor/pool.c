#include "supervisor/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <event2/event.h>

#include "common/limits.h"
#include "supervisor/deaths.h"

#define BACK_OFF_FIRST_MS 100
#define BACK_OFF_LAST_MS  30000
#define STABLE_MS	  10000 /* one that has waited so long had nothing wrong with its start */
#define REFILL_MS	  5	/* after one was taken: its session's first step comes before */

_Static_assert(START_DEATHS_MAX == DEATHS_MAX, "what is refused counts as deaths.h does");

struct line {
	unsigned want, have;
	unsigned back_off_ms; /* the last pause; 0: none is due */
	uint64_t again_at_ms; /* none is started before */
	struct deaths deaths;
	uint64_t off_until_ms;
	unsigned off_deaths; /* of those that put it off, and since */
	TAILQ_HEAD(, pool_entry) waiting; /* oldest first */
};

struct pool {
	const struct pool_handler *handler;
	void *arg;
	struct event *timer;
	bool filling;
	size_t n;
	struct line lines[];
};

/* ---- when -------------------------------------------------------------------------- */

static uint64_t
due_at_ms(const struct line *l)
{
	return l->again_at_ms > l->off_until_ms ? l->again_at_ms : l->off_until_ms;
}

static void
arm(struct pool *p)
{
	uint64_t now_ms = p->handler->now_ms(), first = UINT64_MAX, in_ms;
	struct timeval tv;
	size_t i;

	for (i = 0; i < p->n; i++)
		if (p->lines[i].have < p->lines[i].want && due_at_ms(&p->lines[i]) < first)
			first = due_at_ms(&p->lines[i]);
	if (!p->filling || first == UINT64_MAX) {
		event_del(p->timer);
		return;
	}
	in_ms = first > now_ms ? first - now_ms : 0;
	tv.tv_sec = (time_t)(in_ms / 1000);
	tv.tv_usec = (suseconds_t)(in_ms % 1000) * 1000;
	event_add(p->timer, &tv);
}

static void
back_off(struct line *l, uint64_t now_ms, uint64_t lived_ms)
{
	if (l->back_off_ms == 0 || lived_ms >= STABLE_MS)
		l->back_off_ms = BACK_OFF_FIRST_MS;
	else
		l->back_off_ms *= 2;
	if (l->back_off_ms > BACK_OFF_LAST_MS)
		l->back_off_ms = BACK_OFF_LAST_MS;
	l->again_at_ms = now_ms + l->back_off_ms;
}

static bool
note_death(struct line *l, uint64_t now_ms)
{
	bool many = deaths_note(&l->deaths, now_ms, START_WINDOW_MS);

	if (now_ms < l->off_until_ms) {
		l->off_deaths++;
		return false;
	}
	if (many) {
		l->off_until_ms = now_ms + START_WINDOW_MS;
		l->off_deaths = START_DEATHS_MAX + 1;
	}
	return many;
}

void
pool_tick(struct pool *p)
{
	uint64_t now_ms = p->handler->now_ms();
	struct line *l;

	for (l = p->lines; p->filling && l < p->lines + p->n; l++) {
		if (l->have >= l->want || now_ms < due_at_ms(l))
			continue;
		if (p->handler->start((size_t)(l - p->lines), p->arg) < 0)
			back_off(l, now_ms, 0);
		break; /* the rest in further turns of the loop */
	}
	arm(p);
}

static void
pool_on_timer(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	pool_tick(arg);
}

/* ---- who --------------------------------------------------------------------------- */

static void
leave(struct pool *p, struct pool_entry *e)
{
	struct line *l = &p->lines[e->line];

	TAILQ_REMOVE(&l->waiting, e, link);
	l->have--;
	e->waits = false;
}

void
pool_enter(struct pool *p, struct pool_entry *e, size_t line)
{
	assert(line < p->n);
	*e = (struct pool_entry){
		.line = line, .since_ms = p->handler->now_ms(), .waits = true
	};
	TAILQ_INSERT_TAIL(&p->lines[line].waiting, e, link);
	p->lines[line].have++;
}

struct pool_entry *
pool_take(struct pool *p, size_t line)
{
	uint64_t now_ms = p->handler->now_ms();
	struct line *l = &p->lines[line];
	struct pool_entry *e;

	assert(line < p->n);
	TAILQ_FOREACH (e, &l->waiting, link)
		if (p->handler->is_fit(e, p->arg))
			break;
	if (!e)
		return NULL;
	leave(p, e);
	if (now_ms - e->since_ms >= STABLE_MS)
		l->back_off_ms = 0;
	if (l->again_at_ms < now_ms + REFILL_MS)
		l->again_at_ms = now_ms + REFILL_MS;
	arm(p);
	return e;
}

bool
pool_lost(struct pool *p, struct pool_entry *e, bool ran)
{
	uint64_t now_ms = p->handler->now_ms();
	struct line *l = &p->lines[e->line];
	bool off;

	if (!e->waits)
		return false;
	leave(p, e);
	back_off(l, now_ms, now_ms - e->since_ms);
	off = ran && note_death(l, now_ms);
	arm(p);
	return off;
}

bool
pool_died(struct pool *p, size_t line)
{
	bool off;

	assert(line < p->n);
	off = note_death(&p->lines[line], p->handler->now_ms());
	arm(p);
	return off;
}

unsigned
pool_refuses(const struct pool *p, size_t line)
{
	const struct line *l = &p->lines[line];

	assert(line < p->n);
	return p->handler->now_ms() < l->off_until_ms ? l->off_deaths : 0;
}

/* ---- all of it --------------------------------------------------------------------- */

struct pool *
pool_create(struct event_base *base, const unsigned *want, size_t n,
    const struct pool_handler *handler, void *arg)
{
	struct pool *p = calloc(1, sizeof(*p) + n * sizeof(p->lines[0]));
	size_t i;

	if (!p)
		return NULL;
	p->handler = handler;
	p->arg = arg;
	p->n = n;
	for (i = 0; i < n; i++) {
		p->lines[i].want = want[i];
		TAILQ_INIT(&p->lines[i].waiting);
	}
	p->timer = evtimer_new(base, pool_on_timer, p);
	if (!p->timer) {
		free(p);
		errno = ENOMEM;
		return NULL;
	}
	return p;
}

void
pool_destroy(struct pool *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < p->n; i++)
		assert(TAILQ_EMPTY(&p->lines[i].waiting));
	event_free(p->timer);
	free(p);
}

void
pool_go_on(struct pool *p, size_t line, struct pool *from, size_t from_line)
{
	struct line *to = &p->lines[line], *old = &from->lines[from_line];
	struct pool_entry *e;

	assert(line < p->n && from_line < from->n);
	assert(to->have == 0 && to->want == old->want);
	*to = *old;
	TAILQ_INIT(&to->waiting);
	while ((e = TAILQ_FIRST(&old->waiting))) {
		leave(from, e);
		e->line = line;
		e->waits = true;
		TAILQ_INSERT_TAIL(&to->waiting, e, link);
	}
}

void
pool_fill(struct pool *p)
{
	p->filling = true;
	arm(p);
}

void
pool_drain(struct pool *p)
{
	struct pool_entry *e;
	size_t i;

	p->filling = false;
	arm(p);
	for (i = 0; i < p->n; i++)
		while ((e = TAILQ_FIRST(&p->lines[i].waiting))) {
			leave(p, e);
			p->handler->end(e, p->arg);
		}
}
