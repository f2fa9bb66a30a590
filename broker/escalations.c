#include "broker/escalations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
escalations_init(struct escalations *e)
{
	TAILQ_INIT(&e->list);
	e->n = 0;
}

static void
escalation_destroy(struct escalation *e)
{
	free(e->requester);
	free(e->operation);
	free(e->tool);
	free(e->action);
	free(e->resource);
	buf_finish(&e->path);
	free(e);
}

static void
take_out(struct escalations *all, struct escalation *e)
{
	if (e == NULL)
		return;
	TAILQ_REMOVE(&all->list, e, link);
	all->n--;
	escalation_destroy(e);
}

void
escalations_finish(struct escalations *all)
{
	while (!TAILQ_EMPTY(&all->list))
		take_out(all, TAILQ_FIRST(&all->list));
}

static struct escalation *
oldest(const struct escalations *all)
{
	struct escalation *e;

	TAILQ_FOREACH (e, &all->list, link)
		if (e->resolved)
			return e;
	return TAILQ_FIRST(&all->list);
}

static bool
copy(char **to, bool has, struct slice text)
{
	*to = has ? slice_dup(text) : NULL;
	return !has || *to != NULL;
}

int
escalations_add(struct escalations *all, const struct msg_record *m)
{
	bool call = m->has_tool && m->has_action && m->has_resource && m->has_path &&
		    m->has_digest;
	struct escalation *e;

	if (!m->has_escalation || m->escalation.n >= ESCALATION_ID || !m->has_actor)
		return -EINVAL;
	e = calloc(1, sizeof *e);
	if (e == NULL)
		return -ENOMEM;
	memcpy(e->id, m->escalation.p, m->escalation.n);
	e->requested_at_ms = m->at;
	if (call) {
		memcpy(e->digest, m->digest.p, sizeof e->digest);
		buf_add(&e->path, m->path.p, m->path.n);
	}
	if (!copy(&e->requester, true, m->actor) ||
	    !copy(&e->operation, m->has_operation, m->operation) ||
	    !copy(&e->tool, call, m->tool) || !copy(&e->action, call, m->action) ||
	    !copy(&e->resource, call, m->resource) || e->path.failed) {
		escalation_destroy(e);
		return -ENOMEM;
	}
	take_out(all, escalations_find(all, slice_of(e->id)));
	if (all->n >= ESCALATIONS_MAX)
		take_out(all, oldest(all));
	TAILQ_INSERT_TAIL(&all->list, e, link);
	all->n++;
	return 0;
}

struct escalation *
escalations_find(struct escalations *all, struct slice id)
{
	struct escalation *e;

	TAILQ_FOREACH (e, &all->list, link)
		if (slice_is(id, e->id))
			return e;
	return NULL;
}

bool
escalation_names_a_call(const struct escalation *e)
{
	return e->tool != NULL;
}
