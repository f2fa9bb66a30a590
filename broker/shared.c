#include "broker/shared.h"

#include <stdlib.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/provider.h"
#include "broker/session_private.h"

/*
 * A provider is in the set of each configuration that makes it as it is, and goes when it is in
 * none.  It holds the newest of them that the supervisor knows, which orders about it name.
 */

struct shared {
	struct broker *broker;
	struct config *config; /* held */
	unsigned sessions;
	struct child **v; /* one per configured provider; NULL if it is not shared */
	TAILQ_ENTRY(shared) entry; /* broker.shared */
};

/* ---- one of them ---------------------------------------------------------------------- */

static void
member_destroy(struct child *p)
{
	TAILQ_REMOVE(&p->broker->providers, p, of_all);
	provider_finish(p);
	free(p);
}

/* NULL if memory is out. */
static struct child *
member_create(struct broker *b, struct config *config, uint32_t index)
{
	struct child *p = malloc(sizeof *p);

	if (p == NULL)
		return NULL;
	provider_init(p, b, config_hold(config), index);
	p->number = b->next_session++;
	TAILQ_INSERT_TAIL(&b->providers, p, of_all);
	return p;
}

bool
shared_is_left(const struct child *p)
{
	return p->nsets == 0 && child_is_gone(p);
}

void
shared_reap(struct child *p)
{
	struct broker *b = p->broker;
	struct config *config = p->config;

	member_destroy(p);
	reload_release(b, config);
}

static void
member_leave(struct child *p)
{
	if (p == NULL || --p->nsets > 0)
		return;
	provider_stop(p);
	provider_arm(p);
}

struct child *
shared_find(struct broker *b, uint64_t number)
{
	struct child *p;

	TAILQ_FOREACH (p, &b->providers, of_all)
		if (p->number == number)
			break;
	return p;
}

const struct child *
shared_next(struct broker *b, const struct child *p)
{
	return p != NULL ? TAILQ_NEXT(p, of_all) : TAILQ_FIRST(&b->providers);
}

const struct child *
shared_find_named(struct broker *b, uint64_t number, struct slice id)
{
	const struct child *p = shared_find(b, number);

	return p != NULL && slice_is(id, child_provider(p)->id) ? p : NULL;
}

/* ---- sets ----------------------------------------------------------------------------- */

struct child *
shared_provider(struct shared *set, uint32_t index)
{
	return set->v[index];
}

/* One that is there, and that `config` makes as it is. */
static struct child *
find_same(struct broker *b, const struct config *config, uint32_t index)
{
	struct child *p;
	uint32_t at;

	TAILQ_FOREACH (p, &b->providers, of_all)
		if (p->nsets > 0 &&
		    config_same_provider(p->config, p->index, config, &at) && at == index)
			break;
	return p;
}

static void
shared_destroy(struct shared *set)
{
	struct broker *b = set->broker;
	struct config *config = set->config;

	TAILQ_REMOVE(&b->shared, set, entry);
	for (size_t i = 0; i < config->nproviders; i++)
		member_leave(set->v[i]);
	free(set->v);
	free(set);
	reload_release(b, config);
}

static void
look(struct shared *set)
{
	if (set->sessions == 0 && set->config != set->broker->config)
		shared_destroy(set);
}

/* Orders about those of the set name its configuration from now on, if they may. */
static void
go_over(struct shared *set)
{
	struct broker *b = set->broker;
	struct config *before;
	struct child *p;

	/* Before the supervisor has been told so it knows the configuration of before alone. */
	if (set->config != b->config || b->replaced != NULL)
		return;
	for (uint32_t i = 0; i < set->config->nproviders; i++) {
		p = set->v[i];
		if (p == NULL || p->config == set->config)
			continue;
		before = p->config;
		p->config = config_hold(set->config);
		p->index = i;
		reload_release(b, before);
	}
}

static bool
fill(struct shared *set)
{
	const struct config *c = set->config;
	struct child *p;

	for (uint32_t i = 0; i < c->nproviders; i++) {
		if (!c->providers[i].shared)
			continue;
		p = find_same(set->broker, c, i);
		if (p == NULL)
			p = member_create(set->broker, set->config, i);
		if (p == NULL)
			return false;
		p->nsets++;
		set->v[i] = p;
	}
	return true;
}

static struct shared *
shared_create(struct broker *b, struct config *config)
{
	struct shared *set = calloc(1, sizeof *set);

	if (set == NULL)
		return NULL;
	set->v = calloc(config->nproviders + 1, sizeof(*set->v));
	if (set->v == NULL) {
		free(set);
		return NULL;
	}
	set->broker = b;
	set->config = config_hold(config);
	TAILQ_INSERT_TAIL(&b->shared, set, entry);
	if (!fill(set)) {
		shared_destroy(set);
		return NULL;
	}
	go_over(set);
	return set;
}

struct shared *
shared_join(struct broker *b, struct config *config)
{
	struct shared *set;

	TAILQ_FOREACH (set, &b->shared, entry)
		if (set->config == config)
			break;
	if (set == NULL)
		set = shared_create(b, config);
	if (set != NULL)
		set->sessions++;
	return set;
}

void
shared_leave(struct shared *set)
{
	set->sessions--;
	look(set);
}

/* ---- another configuration ------------------------------------------------------------- */

void
shared_on_config(struct broker *b)
{
	/* Without memory for it they are made anew, as if nothing were as it was. */
	if (!TAILQ_EMPTY(&b->shared))
		shared_create(b, b->config);
}

void
shared_on_taken(struct broker *b)
{
	struct shared *set, *next;

	TAILQ_FOREACH_SAFE (set, &b->shared, entry, next) {
		go_over(set);
		look(set);
	}
}

/* ---- the end -------------------------------------------------------------------------- */

bool
shared_stop_all(struct broker *b)
{
	struct child *p;
	bool gone = true;

	TAILQ_FOREACH (p, &b->providers, of_all) {
		provider_stop(p);
		gone &= child_is_gone(p);
	}
	return gone;
}

void
shared_orphan_all(struct broker *b)
{
	struct child *p;

	TAILQ_FOREACH (p, &b->providers, of_all)
		provider_orphan(p);
}

void
shared_finish_all(struct broker *b)
{
	struct shared *set;
	struct child *p;

	/* The supervisor need not hear of their configurations any more. */
	while ((set = TAILQ_FIRST(&b->shared)) != NULL) {
		TAILQ_REMOVE(&b->shared, set, entry);
		config_release(set->config);
		free(set->v);
		free(set);
	}
	while ((p = TAILQ_FIRST(&b->providers)) != NULL) {
		struct config *config = p->config;

		member_destroy(p);
		config_release(config);
	}
}
