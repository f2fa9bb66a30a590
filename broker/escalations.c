#include "broker/escalations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/digest.h"
#include "common/hex.h"
#include "common/walk.h"

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

static void
pack_optional(struct buf *b, bool has, struct slice text)
{
	if (has)
		pack_str_n(b, text.p, text.n);
	else
		pack_nil(b);
}

int
escalation_id(
    struct digest *d, const struct msg_record *m, struct slice reason, char ret[ESCALATION_ID])
{
	uint8_t digest[32];
	struct buf b = { 0 };
	int r = -ENOMEM;

	pack_array(&b, 9);
	pack_optional(&b, m->has_namespace, m->namespace);
	pack_optional(&b, m->has_actor, m->actor);
	pack_optional(&b, m->has_owner, m->owner);
	pack_optional(&b, m->has_tool, m->tool);
	pack_optional(&b, m->has_action, m->action);
	pack_optional(&b, m->has_resource, m->resource);
	if (m->has_path)
		pack_raw(&b, m->path);
	else
		pack_nil(&b);
	if (m->has_digest)
		pack_bin(&b, m->digest.p, m->digest.n);
	else
		pack_nil(&b);
	pack_optional(&b, !m->has_digest, reason);
	if (!b.failed)
		r = digest_value(d, buf_slice(&b), digest);
	buf_finish(&b);
	if (r < 0)
		return r;
	memcpy(ret, "e-", 2);
	hex_encode(digest, 16, ret + 2);
	return 0;
}

bool
escalation_names_a_call(const struct escalation *e)
{
	return e->tool != NULL;
}
