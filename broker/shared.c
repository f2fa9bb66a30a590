#include "broker/shared.h"

#include <stdlib.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/provider.h"
#include "broker/session_private.h"

struct shared {
	struct broker *broker;
	struct config *config; /* held */
	unsigned sessions;
	struct child *v; /* one per configured provider; CHILD_ABSENT if it is not shared */
	struct alarm alarm; /* frees it: nothing is freed from below a callback of its own */
	TAILQ_ENTRY(shared) entry; /* broker.shared */
};

/* Its configuration is the caller's to release. */
static void
shared_destroy(struct shared *set)
{
	TAILQ_REMOVE(&set->broker->shared, set, entry);
	for (size_t i = 0; i < set->config->nproviders; i++)
		provider_finish(&set->v[i]);
	alarm_clear(&set->alarm);
	free(set->v);
	free(set);
}

static bool
is_retired(const struct shared *set)
{
	return set->sessions == 0 && set->config != set->broker->config;
}

/* True if none is left. */
static bool
shared_stop(struct shared *set)
{
	bool gone = true;

	for (size_t i = 0; i < set->config->nproviders; i++) {
		provider_stop(&set->v[i]);
		gone &= child_is_gone(&set->v[i]);
	}
	return gone;
}

static void
shared_on_alarm(void *arg)
{
	struct shared *set = arg;
	struct broker *b = set->broker;
	struct config *config = set->config;

	broker_tick(b);
	if (!is_retired(set) || !shared_stop(set))
		return;
	shared_destroy(set);
	reload_release(b, config);
}

static void
look_soon(struct shared *set)
{
	if (is_retired(set))
		alarm_set(set->broker->alarms, &set->alarm, set->broker->now_ms);
}

struct child *
shared_provider(struct shared *set, uint32_t index)
{
	return &set->v[index];
}

struct child *
shared_find(struct broker *b, uint64_t number, uint32_t index)
{
	struct shared *set;

	TAILQ_FOREACH (set, &b->shared, entry)
		if (index < set->config->nproviders && set->v[index].number == number)
			return &set->v[index];
	return NULL;
}

const struct child *
shared_next(struct broker *b, const struct child *p)
{
	struct shared *set = p != NULL ? p->shared : TAILQ_FIRST(&b->shared);
	size_t i = p != NULL ? p->index + 1 : 0;

	for (; set != NULL; set = TAILQ_NEXT(set, entry), i = 0)
		if (i < set->config->nproviders)
			return &set->v[i];
	return NULL;
}

const struct child *
shared_find_named(struct broker *b, uint64_t number, struct slice id)
{
	const struct child *p;

	for (p = shared_next(b, NULL); p != NULL; p = shared_next(b, p))
		if (p->number == number && slice_is(id, child_provider(p)->id))
			return p;
	return NULL;
}

static struct shared *
shared_create(struct broker *b, struct config *config)
{
	struct shared *set = calloc(1, sizeof *set);

	if (set == NULL)
		return NULL;
	set->v = calloc(config->nproviders + 1, sizeof *set->v);
	if (set->v == NULL) {
		free(set);
		return NULL;
	}
	set->broker = b;
	set->config = config_hold(config);
	set->alarm = (struct alarm){ .fn = shared_on_alarm, .arg = set };
	for (size_t i = 0; i < config->nproviders; i++) {
		provider_init(&set->v[i], b, config, (uint32_t)i);
		set->v[i].shared = set;
		set->v[i].number = b->next_session++;
	}
	TAILQ_INSERT_TAIL(&b->shared, set, entry);
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
	look_soon(set);
}

void
shared_on_gone(struct shared *set)
{
	look_soon(set);
	broker_check_settled(set->broker);
}

void
shared_retire(struct broker *b)
{
	struct shared *set;

	TAILQ_FOREACH (set, &b->shared, entry)
		look_soon(set);
}

bool
shared_stop_all(struct broker *b)
{
	struct shared *set;
	bool gone = true;

	TAILQ_FOREACH (set, &b->shared, entry)
		gone &= shared_stop(set);
	return gone;
}

void
shared_orphan_all(struct broker *b)
{
	struct shared *set;

	TAILQ_FOREACH (set, &b->shared, entry)
		for (size_t i = 0; i < set->config->nproviders; i++)
			provider_orphan(&set->v[i]);
}

void
shared_finish_all(struct broker *b)
{
	struct shared *set;

	while ((set = TAILQ_FIRST(&b->shared)) != NULL) {
		struct config *config = set->config;

		shared_destroy(set);
		config_release(config); /* the supervisor need not hear of it any more */
	}
}
