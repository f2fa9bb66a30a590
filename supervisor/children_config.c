/*
 * The configurations that children are made by.  A session goes on with the one under which it
 * began: its broker names it with each order, until it says that it is over.
 */
#include <errno.h>
#include <stdlib.h>

#include "supervisor/children_private.h"

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
	if (g->owned)
		conf_finish(g->owned);
	free(g->owned);
	free(g);
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
	if (!g->pool) {
		free(g);
		return NULL;
	}
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

void
children_config_take(struct children *ch, bool fill)
{
	struct generation *before = ch->current;

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
