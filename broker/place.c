#include "broker/place.h"

#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/child.h"
#include "broker/operation.h"
#include "broker/provider.h"
#include "broker/record.h"
#include "common/link.h"
#include "common/log.h"

/*
 * The places of a provider: as many calls as it runs at once.
 *
 * Calls wait in their session's lane.  Lanes with calls stand in a ring, and the next place
 * goes to the first of them that may have it, which then stands last.  At a shared provider a
 * session that holds a place gets no more when only the last quarter is free: that is kept
 * for those that hold none, so that nobody can have all of them, however long its calls take.
 *
 * A place is free again when the answer comes, whether somebody still waits for it or not.
 */

static struct lane *
lane_of(const struct call *c)
{
	return &c->operation->session->lanes[c->tool->provider];
}

void
lane_init(struct lane *l)
{
	*l = (struct lane){ 0 };
	TAILQ_INIT(&l->waiting);
}

/* ---- who is next ---------------------------------------------------------------------- */

static uint32_t
most(const struct child *p)
{
	return child_provider(p)->concurrency;
}

/* Of them, for sessions that hold none. */
static uint32_t
kept(const struct child *p)
{
	if (p->session != NULL || most(p) < 2)
		return 0;
	return most(p) < 4 ? 1 : most(p) / 4;
}

bool
place_is_left(const struct child *p)
{
	return p->link != NULL && link_get_state(p->link) != LINK_NEW && p->running < most(p) &&
	    link_queued(p->link) < PROVIDER_QUEUE_MAX;
}

static bool
may_have_place(const struct child *p, const struct lane *l)
{
	return l->running == 0 || most(p) - p->running > kept(p);
}

void
place_wait(struct call *c)
{
	struct lane *l = lane_of(c);

	if (TAILQ_EMPTY(&l->waiting))
		TAILQ_INSERT_TAIL(&c->provider->lanes, l, entry);
	TAILQ_INSERT_TAIL(&l->waiting, c, queue);
	c->provider->nwaiting++;
}

void
place_leave(struct call *c)
{
	struct lane *l = lane_of(c);

	TAILQ_REMOVE(&l->waiting, c, queue);
	c->provider->nwaiting--;
	if (TAILQ_EMPTY(&l->waiting))
		TAILQ_REMOVE(&c->provider->lanes, l, entry);
}

struct call *
place_next(struct child *p)
{
	struct lane *l;
	struct call *c;

	if (!place_is_left(p))
		return NULL;
	TAILQ_FOREACH (l, &p->lanes, entry)
		if (may_have_place(p, l))
			break;
	if (l == NULL)
		return NULL;
	c = TAILQ_FIRST(&l->waiting);
	place_leave(c);
	if (!TAILQ_EMPTY(&l->waiting)) {
		TAILQ_REMOVE(&p->lanes, l, entry);
		TAILQ_INSERT_TAIL(&p->lanes, l, entry);
	}
	return c;
}

struct call *
place_waiting(const struct child *p)
{
	const struct lane *l = TAILQ_FIRST(&p->lanes);

	return l != NULL ? TAILQ_FIRST(&l->waiting) : NULL;
}

/* ---- calls that are there ------------------------------------------------------------- */

void
place_take(struct call *c)
{
	lane_of(c)->running++;
	c->provider->running++;
	TAILQ_INSERT_TAIL(&c->provider->dispatched, c, queue);
	link_set_state(c->provider->link, LINK_BUSY);
}

void
place_give(struct call *c)
{
	lane_of(c)->running--;
	TAILQ_REMOVE(&c->provider->dispatched, c, queue);
}

void
place_answered(struct child *p)
{
	if (p->running > 0)
		p->running--;
	if (p->running == 0)
		link_set_state(p->link, LINK_READY);
}

struct call *
place_find(const struct child *p, uint32_t msgid)
{
	struct call *c;

	TAILQ_FOREACH (c, &p->dispatched, queue)
		if (c->provider_msgid == msgid)
			return c;
	return NULL;
}

/* ---- calls that nobody waits for any more --------------------------------------------- */

static void
late_destroy(struct child *p, struct late *l)
{
	TAILQ_REMOVE(&p->late, l, entry);
	p->lost -= l->lost;
	l->grant->users--;
	buf_finish(&l->fields.packed);
	free(l);
}

void
place_keep_late(const struct call *c)
{
	struct child *p = c->provider;
	size_t name = strlen(c->tool->name) + 1;
	struct late *l;

	if (p->link == NULL) /* nothing comes from it */
		return;
	l = calloc(1, sizeof *l + name);
	if (l == NULL || record_call_common(&l->fields, c) < 0) {
		log_warn("out of memory: a late answer will have no name");
		if (l != NULL)
			buf_finish(&l->fields.packed);
		free(l);
		return;
	}
	memcpy(l->operation, c->operation->id, sizeof l->operation);
	memcpy(l->call, c->id, sizeof l->call);
	memcpy(l->tool, c->tool->name, name);
	l->grant = c->grant;
	l->grant->users++;
	l->msgid = c->provider_msgid;
	l->lost_at_ms = p->broker->now_ms + c->operation->config->kill_grace_ms;
	TAILQ_INSERT_TAIL(&p->late, l, entry);
	provider_arm(p);
}

void
place_on_late(struct child *p, uint32_t msgid)
{
	struct record r;
	struct late *l;

	TAILQ_FOREACH (l, &p->late, entry)
		if (l->msgid == msgid)
			break;
	if (l == NULL)
		record_init(&r, p->broker, NULL, "tool.invoked");
	else
		record_init_with(&r, p->broker, &l->fields, "tool.invoked");
	RECORD_TEXT(&r.m, cause, "late");
	r.m.has_source = true;
	r.m.source = record_source_broker;
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
	if (l == NULL)
		return;
	if (l->lost)
		log_info("provider %s: a late answer gives a place back: %u of %u are lost",
		    child_provider(p)->id, p->lost - 1, most(p));
	late_destroy(p, l);
}

void
place_forget_late(struct child *p)
{
	struct late *l;

	while ((l = TAILQ_FIRST(&p->late)) != NULL)
		late_destroy(p, l);
}

uint64_t
place_lost_at(const struct child *p)
{
	const struct late *l;
	uint64_t at = 0;

	/* The grace is that of the configuration which each began under. */
	TAILQ_FOREACH (l, &p->late, entry)
		if (!l->lost && (at == 0 || l->lost_at_ms < at))
			at = l->lost_at_ms;
	return at;
}

void
place_count_lost(struct child *p)
{
	struct late *l;
	unsigned before = p->lost;

	TAILQ_FOREACH (l, &p->late, entry)
		if (!l->lost && p->broker->now_ms >= l->lost_at_ms) {
			l->lost = true;
			p->lost++;
		}
	if (p->lost > before)
		log_warn("provider %s: %u of its %u places are lost to calls that outlived "
			 "their turn",
		    child_provider(p)->id, p->lost, most(p));
}
