#include "broker/grants.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/authority/table.h"
#include "broker/digest.h"
#include "broker/grant_copy.h"
#include "broker/grant_wire.h"
#include "common/walk.h"

struct grants {
	struct digest *digest;
	struct grant_set *set; /* attached; NULL: none yet */
	struct zone zone;      /* texts of what was issued */
	struct table facts;    /* by id */
	struct grant_fact **issued; /* in order */
	size_t nissued, cap;
	struct buf material; /* empty between uses */
};

struct grants *
grants_create(struct digest *digest)
{
	struct grants *g = calloc(1, sizeof *g);

	if (g == NULL)
		return NULL;
	g->digest = digest;
	if (table_init(&g->facts) < 0) {
		free(g);
		return NULL;
	}
	return g;
}

void
grants_destroy(struct grants *g)
{
	if (g == NULL)
		return;
	for (size_t i = 0; i <= g->facts.mask; i++)
		free(g->facts.slots[i].item);
	table_finish(&g->facts);
	zone_finish(&g->zone);
	buf_finish(&g->material);
	free(g->issued);
	free(g);
}

/* ---- facts ---------------------------------------------------------------------------- */

static uint64_t
id_hash(struct slice id)
{
	return hash_bytes(1, (const char *)id.p, id.n);
}

struct grant_fact *
grants_fact(const struct grants *g, struct slice id)
{
	uint64_t hash = id_hash(id), at = hash;
	struct grant_fact *f;

	while ((f = table_next(&g->facts, hash, &at)) != NULL)
		if (slice_is(id, f->id))
			break;
	return f;
}

struct grant_fact *
grants_fact_make(struct grants *g, struct slice id)
{
	struct grant_fact *f = grants_fact(g, id);
	char *text;

	if (f != NULL)
		return f;
	f = table_reserve(&g->facts, 1) == 0 ? calloc(1, sizeof *f + id.n + 1) : NULL;
	if (f == NULL)
		return NULL;
	text = (char *)(f + 1);
	memcpy(text, id.p, id.n);
	f->id = text;
	table_put(&g->facts, id_hash(id), f);
	return f;
}

void
grants_fact_drop(struct grants *g, struct grant_fact *f)
{
	assert(!f->issued && f->revoked_at_ms == 0);
	table_remove(&g->facts, id_hash(slice_of(f->id)), f);
	free(f);
}

bool
grants_knows(const struct grants *g, struct slice id)
{
	return grants_fact(g, id) != NULL ||
	       (g->set != NULL && grant_set_find(g->set, (const char *)id.p, id.n) != NULL);
}

/* ---- what was issued ------------------------------------------------------------------ */

int
grants_digest(struct grants *g, const struct grant *grant, uint8_t ret[32])
{
	g->material.n = 0;
	g->material.failed = false;
	grant_pack(&g->material, grant, NULL);
	if (g->material.failed)
		return -ENOMEM;
	return digest_value(g->digest, buf_slice(&g->material), ret);
}

/* Room for one more, so that noting it cannot fail. */
static int
reserve(struct grants *g)
{
	struct grant_fact **grown;
	size_t cap = g->cap > 0 ? g->cap * 2 : 64;

	if (g->nissued >= AUTHORITY_GRANTS_MAX)
		return -ENOSPC;
	if (g->nissued < g->cap)
		return 0;
	grown = reallocarray(g->issued, cap, sizeof *grown);
	if (grown == NULL)
		return -ENOMEM;
	g->issued = grown;
	g->cap = cap;
	return 0;
}

static void
note(struct grants *g, struct grant_fact *f, const struct grant *grant)
{
	f->grant = *grant;
	f->issued = true;
	f->reserved = false;
	g->issued[g->nissued++] = f;
}

int
grants_take_issued(struct grants *g, const struct msg_record *r, char *err, size_t cap)
{
	struct grant_fact *f;
	uint8_t digest[32];
	struct grant grant;
	int ret;

	snprintf(err, cap, "it has no id");
	if (!r->has_grant)
		return -EINVAL;
	f = grants_fact(g, r->grant);
	if (f != NULL && f->issued)
		return 0;
	ret = grant_read_record(&g->zone, r, &grant, err, cap);
	if (ret == 0)
		ret = grants_digest(g, &grant, digest);
	if (ret == 0 && memcmp(digest, r->digest.p, sizeof digest) != 0) {
		snprintf(err, cap, "its digest is not one of this installation's key");
		return -EINVAL;
	}
	if (ret == 0)
		ret = reserve(g);
	if (ret < 0)
		return ret;
	f = grants_fact_make(g, r->grant);
	if (f == NULL)
		return -ENOMEM;
	note(g, f, &grant);
	return 0;
}

int
grants_take_revoked(struct grants *g, struct slice id, uint64_t at_ms)
{
	struct grant_fact *f = grants_fact(g, id);

	if (f == NULL && g->facts.n >= GRANTS_FACTS_MAX)
		return -ENOSPC;
	f = grants_fact_make(g, id);
	if (f == NULL)
		return -ENOMEM;
	if (f->revoked_at_ms == 0)
		f->revoked_at_ms = at_ms != 0 ? at_ms : 1;
	return 0;
}

bool
grants_take_spent(struct grants *g, struct slice id, uint32_t spent)
{
	struct grant_fact *f = grants_fact(g, id);

	if (f == NULL || !f->issued)
		return false;
	f->grant.spent = spent;
	return true;
}

/* ---- the set -------------------------------------------------------------------------- */

void
grants_reapply(struct grants *g)
{
	struct grant_fact *f;
	struct grant *grant;

	for (size_t i = 0; i <= g->facts.mask; i++) {
		f = g->facts.slots[i].item;
		if (f == NULL || f->revoked_at_ms == 0)
			continue;
		grant = grant_set_find(g->set, f->id, strlen(f->id));
		if (grant != NULL)
			grant_set_revoke(g->set, grant, f->revoked_at_ms);
	}
}

int
grants_attach(struct grants *g, struct grant_set *set, char *err, size_t cap)
{
	int r;

	g->set = set;
	for (size_t i = 0; i < g->nissued; i++) {
		r = grant_set_add(set, &g->issued[i]->grant);
		if (r < 0) {
			snprintf(err, cap, "%s", g->issued[i]->id);
			return r;
		}
	}
	grants_reapply(g);
	return 0;
}

int
grants_add(struct grants *g, const struct grant *new)
{
	struct grant_fact *f;
	struct grant copy;
	int r = reserve(g);

	if (r == 0)
		r = grant_copy(&g->zone, new, &copy);
	if (r < 0)
		return r;
	f = grants_fact_make(g, slice_of(new->id));
	if (f == NULL)
		return -ENOMEM;
	if (f->issued)
		return -EEXIST;
	note(g, f, &copy);
	r = grant_set_add(g->set, &f->grant);
	if (r < 0) {
		g->nissued--;
		f->issued = false;
	}
	return r;
}

size_t
grants_count(const struct grants *g, const struct config *c)
{
	return c->ngrants + g->nissued;
}

struct grant *
grants_at(const struct grants *g, const struct config *c, size_t i)
{
	const char *id;

	if (i >= c->ngrants)
		return &g->issued[i - c->ngrants]->grant;
	id = c->grants[i].id;
	return grant_set_find(g->set, id, strlen(id));
}

bool
grants_issued(const struct grants *g, const struct grant *grant)
{
	const struct grant_fact *f = grants_fact(g, slice_of(grant->id));

	return f != NULL && grant == &f->grant;
}
