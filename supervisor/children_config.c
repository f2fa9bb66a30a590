/*
 * The configurations that children are made by.  A session goes on with the one under which it
 * began: its broker names it with each order, until it says that it is over.
 *
 * What a later one would make the same way is kept: a child whose row and profile are as they
 * were goes over to it, under the name that the broker knows, so that nothing is replaced
 * that has not changed, and no old configuration is kept for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "supervisor/children_private.h"
#include "supervisor/config_compare.h"
#include "supervisor/profiles.h"

struct generation *
generation_find(const struct children *ch, uint64_t number)
{
	struct generation *g;

	TAILQ_FOREACH (g, &ch->generations, link)
		if (g->number == number)
			return g->named ? g : NULL;
	return NULL;
}

static void
generation_free(struct generation *g)
{
	if (!g)
		return;
	pool_destroy(g->pool);
	free(g->since);
	if (g->owned)
		conf_finish(g->owned);
	free(g->owned);
	free(g);
}

/* Which line of `other` makes what the line `i` of `c` makes; SIZE_MAX: none. */
static size_t
same_line(const struct conf_namespace *c, size_t i, const struct conf_namespace *other)
{
	size_t at;

	if (i < c->runtimes.n)
		return conf_same_runtime(c, i, other);
	at = conf_same_provider(c, i - c->runtimes.n, other);
	return at == SIZE_MAX ? at : other->runtimes.n + at;
}

static size_t
count_lines(const struct conf_namespace *c)
{
	return c->runtimes.n + c->providers.n;
}

/* Since when each line of `g` has been as it is, if it follows `before`, which may be NULL. */
static void
set_since(struct generation *g, const struct generation *before)
{
	size_t i, at;

	for (i = 0; i < count_lines(g->config); i++) {
		at = before ? same_line(g->config, i, before->config) : SIZE_MAX;
		g->since[i] = at == SIZE_MAX ? g->number : before->since[at];
	}
}

/* In no list. */
static struct generation *
generation_new(struct children *ch, uint64_t number, const struct conf_namespace *c)
{
	struct generation *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->number = number;
	g->config = c;
	g->pool = children_create_pool(ch, c);
	g->since = calloc(count_lines(c) + 1, sizeof(*g->since));
	if (!g->pool || !g->since) {
		generation_free(g);
		return NULL;
	}
	set_since(g, ch->current);
	return g;
}

struct generation *
generation_create(struct children *ch, uint64_t number, const struct conf_namespace *c)
{
	struct generation *g = generation_new(ch, number, c);

	if (!g)
		return NULL;
	g->named = true;
	TAILQ_INSERT_TAIL(&ch->generations, g, link);
	return g;
}

void
generation_destroy(struct children *ch, struct generation *g)
{
	TAILQ_REMOVE(&ch->generations, g, link);
	generation_free(g);
}

void
generation_release(struct children *ch, struct generation *g)
{
	if (g->children == 0 && !g->named && g != ch->current)
		generation_destroy(ch, g);
}

int
children_config_offer(struct children *ch, uint64_t number, struct conf_namespace *c)
{
	struct generation *g;
	unsigned n = 0;

	TAILQ_FOREACH (g, &ch->generations, link)
		n++;
	if (ch->offered || n >= CHILDREN_GENERATIONS_MAX)
		return -EBUSY;
	ch->offered = generation_new(ch, number, c);
	if (!ch->offered)
		return -ENOMEM;
	ch->offered->owned = c;
	return 0;
}

const uint64_t *
children_config_since(const struct children *ch)
{
	return (ch->offered ? ch->offered : ch->current)->since;
}

/* The place of its kind in the lists of `g`; false if that makes another. */
static bool
find_place(const struct child *c, const struct generation *g, uint32_t *ret)
{
	size_t at;

	if (c->kind == CHILD_WORKSPACE) { /* no file says anything of it */
		*ret = 0;
		return true;
	}
	at = same_line(c->by->config, children_line(c->by, c->kind, c->index), g->config);
	if (at == SIZE_MAX)
		return false;
	*ret = (uint32_t)(c->kind == CHILD_PROVIDER ? at - g->config->runtimes.n : at);
	return true;
}

/* All that it had of the configuration before is the same in this one. */
static void
go_over(struct child *c, struct generation *g, uint32_t index)
{
	const struct conf_namespace *before = c->by->config;

	/* Not one that every configuration has. */
	if (c->profile && conf_profile_named(before, c->profile->name) == c->profile)
		c->profile = conf_profile_named(g->config, c->profile->name);
	c->by->children--;
	c->by = g;
	c->index = index;
	g->children++;
}

static void
keep(struct child_list *list, const struct generation *before, struct generation *g)
{
	struct child *c;
	uint32_t index;

	TAILQ_FOREACH (c, list, link)
		/* What was to wait and does not is going. */
		if (c->by == before && (!c->warm || c->entry.waits) &&
		    find_place(c, g, &index))
			go_over(c, g, index);
}

static void
keep_lines(struct generation *before, struct generation *g)
{
	size_t i, at;

	for (i = 0; i < count_lines(g->config); i++) {
		at = same_line(g->config, i, before->config);
		if (at != SIZE_MAX)
			pool_go_on(g->pool, i, before->pool, at);
	}
}

void
children_config_take(struct children *ch, bool fill)
{
	struct generation *before = ch->current;

	keep_lines(before, ch->offered);
	keep(&ch->list, before, ch->offered);
	keep(&ch->warm, before, ch->offered);
	pool_drain(before->pool);
	ch->current = ch->offered;
	ch->offered = NULL;
	ch->current->named = true;
	TAILQ_INSERT_TAIL(&ch->generations, ch->current, link);
	if (fill)
		pool_fill(ch->current->pool);
	generation_release(ch, before);
}

struct conf_namespace *
children_config_drop(struct children *ch)
{
	struct generation *g = ch->offered;
	struct conf_namespace *c;

	if (!g)
		return NULL;
	c = g->owned;
	g->owned = NULL;
	ch->offered = NULL;
	generation_free(g);
	return c;
}

int
children_config_over(struct children *ch, uint64_t number)
{
	struct generation *g = generation_find(ch, number);

	if (!g || g == ch->current)
		return -EPROTO;
	g->named = false;
	generation_release(ch, g);
	return 0;
}

void
children_config_over_all(struct children *ch)
{
	struct generation *g, *next;

	TAILQ_FOREACH_SAFE(g, &ch->generations, link, next)
	{
		if (g == ch->current)
			continue;
		g->named = false;
		generation_release(ch, g);
	}
}

void
children_refresh(struct children *ch)
{
	pool_drain(ch->current->pool);
	pool_fill(ch->current->pool);
}
