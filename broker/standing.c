#include "broker/standing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>

#include "broker/authority/table.h"
#include "broker/grant_copy.h"

/* One grant, and the memory behind it in which all that it names lies. */
struct item {
	struct grant grant;
	bool gone;	  /* revoked, as no configuration says it any more */
	bool was_revoked; /* and somebody else had done so before: that outlives a reload */
	uint64_t gone_in; /* generation */
	uint64_t seen_in; /* generation that said it last */
	TAILQ_ENTRY(item) link;
};

/* Uses of a grant that does not stand. */
struct memory {
	uint32_t spent;
	size_t n;
	char id[];
};

TAILQ_HEAD(item_list, item);

struct standing {
	struct grant_set *set;
	struct item_list items; /* in the set; gone ones too */
	struct item_list dead;	/* out of it; a call may still name one */
	struct table by_id;	/* of items */
	struct table memories;
};

static struct item *
item_create(const struct grant *g)
{
	struct item *item = calloc(1, sizeof(*item) + grant_copy_bytes(g));

	if (item == NULL)
		return NULL;
	grant_copy_into(item + 1, g, &item->grant);
	item->grant.spent = 0;
	item->grant.users = 0;
	return item;
}

/* ---- comparing ------------------------------------------------------------------------- */

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool
same_list(const char *const *a, size_t na, const char *const *b, size_t nb)
{
	size_t i;

	if (na != nb || (a == NULL) != (b == NULL))
		return false;
	for (i = 0; i < na; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static bool
same_capability(const struct capability *a, const struct capability *b)
{
	return same_text(a->namespace, b->namespace) && same_text(a->owner, b->owner) &&
	       path_equal(&a->path, &b->path) && a->descendants == b->descendants &&
	       same_list(a->actions, a->nactions, b->actions, b->nactions);
}

/* All that a configuration can say of it. */
static bool
same_grant(const struct grant *a, const struct grant *b)
{
	size_t i;

	if (!same_text(a->subject, b->subject) || !same_text(a->issuer, b->issuer) ||
	    !same_text(a->namespace, b->namespace) || !same_text(a->parent, b->parent) ||
	    !same_text(a->tool, b->tool) ||
	    memcmp(a->digest, b->digest, sizeof(a->digest)) != 0 ||
	    a->issued_at_ms != b->issued_at_ms || a->not_before_ms != b->not_before_ms ||
	    a->expires_at_ms != b->expires_at_ms ||
	    a->delegation_depth != b->delegation_depth || a->bounded != b->bounded ||
	    a->max_uses != b->max_uses || a->ncapabilities != b->ncapabilities ||
	    !same_list(a->purposes, a->npurposes, b->purposes, b->npurposes))
		return false;
	for (i = 0; i < a->ncapabilities; i++)
		if (!same_capability(&a->capabilities[i], &b->capabilities[i]))
			return false;
	return true;
}

/* ---- who there is ---------------------------------------------------------------------- */

static uint64_t
id_hash(const char *id, size_t n)
{
	return hash_bytes(5, id, n);
}

static struct item *
item_find(const struct standing *s, const char *id, size_t n)
{
	uint64_t hash = id_hash(id, n), at = hash;
	struct item *i;

	while ((i = table_next(&s->by_id, hash, &at)) != NULL)
		if (strlen(i->grant.id) == n && memcmp(i->grant.id, id, n) == 0)
			break;
	return i;
}

static struct memory *
memory_find(const struct standing *s, const char *id, size_t n)
{
	uint64_t hash = id_hash(id, n), at = hash;
	struct memory *m;

	while ((m = table_next(&s->memories, hash, &at)) != NULL)
		if (m->n == n && memcmp(m->id, id, n) == 0)
			break;
	return m;
}

static int
memory_keep(struct standing *s, const char *id, size_t n, uint32_t spent)
{
	struct memory *m = memory_find(s, id, n);

	if (m == NULL) {
		if (spent == 0)
			return 0;
		if (s->memories.n >= STANDING_MEMORIES_MAX)
			return -ENOSPC;
		m = table_reserve(&s->memories, 1) == 0 ? malloc(sizeof(*m) + n) : NULL;
		if (m == NULL)
			return -ENOMEM;
		m->n = n;
		memcpy(m->id, id, n);
		table_put(&s->memories, id_hash(id, n), m);
	}
	m->spent = spent;
	return 0;
}

int
standing_spent(struct standing *s, struct slice id, uint32_t spent)
{
	struct grant *g = grant_set_find(s->set, (const char *)id.p, id.n);

	if (g == NULL)
		return memory_keep(s, (const char *)id.p, id.n, spent);
	g->spent = spent;
	return 0;
}

void
standing_give_back(struct standing *s, struct grant *g)
{
	size_t n = strlen(g->id);
	struct grant *now = grant_set_find(s->set, g->id, n);
	struct memory *m = memory_find(s, g->id, n);
	uint32_t *spent = now != NULL ? &now->spent : m != NULL ? &m->spent : &g->spent;

	if (*spent > 0)
		--*spent;
}

bool
standing_knows(const struct standing *s, struct slice id)
{
	return item_find(s, (const char *)id.p, id.n) != NULL ||
	       memory_find(s, (const char *)id.p, id.n) != NULL;
}

/* ---- coming and going ------------------------------------------------------------------ */

static void
item_leave(struct standing *s, struct item *i)
{
	grant_set_remove(s->set, &i->grant);
	table_remove(&s->by_id, id_hash(i->grant.id, strlen(i->grant.id)), i);
	TAILQ_REMOVE(&s->items, i, link);
	TAILQ_INSERT_TAIL(&s->dead, i, link);
}

/* There is room in `by_id`. */
static int
item_join(struct standing *s, struct item *i, const struct item *old)
{
	size_t n = strlen(i->grant.id);
	const struct memory *m = memory_find(s, i->grant.id, n);
	int r = grant_set_add(s->set, &i->grant);

	if (r < 0)
		return r;
	i->grant.spent = old != NULL ? old->grant.spent : m != NULL ? m->spent : 0;
	if (old != NULL && old->grant.revoked_at_ms != 0 && (!old->gone || old->was_revoked))
		grant_set_revoke(s->set, &i->grant, old->grant.revoked_at_ms);
	table_put(&s->by_id, id_hash(i->grant.id, n), i);
	TAILQ_INSERT_TAIL(&s->items, i, link);
	return 0;
}

static void
item_end(struct standing *s, struct item *i, uint64_t generation, uint64_t at_ms)
{
	i->gone = true;
	i->gone_in = generation;
	i->was_revoked = i->grant.revoked_at_ms != 0;
	grant_set_revoke(s->set, &i->grant, at_ms);
}

static void
dead_sweep(struct standing *s)
{
	struct item *i, *next;

	TAILQ_FOREACH_SAFE (i, &s->dead, link, next) {
		if (i->grant.users > 0)
			continue; /* a call, or the release of its use, is on its way */
		TAILQ_REMOVE(&s->dead, i, link);
		free(i);
	}
}

void
standing_forget(struct standing *s, uint64_t oldest)
{
	struct item *i, *next;

	TAILQ_FOREACH_SAFE (i, &s->items, link, next) {
		/* Who revoked it on record did so for good: the id stays known. */
		if (!i->gone || i->gone_in > oldest || i->was_revoked ||
		    memory_keep(s, i->grant.id, strlen(i->grant.id), i->grant.spent) < 0)
			continue;
		item_leave(s, i);
	}
	dead_sweep(s);
}

/* ---- the next configuration ------------------------------------------------------------ */

/* One row of it that is not as it stands. */
struct change {
	struct item *item; /* new */
	struct item *old;  /* of that id, which it takes the place of; NULL */
};

/* Ours, and as it is said now: nothing to do for it. */
static bool
is_kept(const struct item *old, const struct grant *g)
{
	return old != NULL && !old->gone && same_grant(&old->grant, g);
}

/* Everything that can be made, or is wrong, before anything is changed. */
static int
prepare(struct standing *s, const struct config *c, struct change *changes, size_t *ret_n,
    const char **ret_id)
{
	const struct grant *g;
	struct item *old;

	for (g = c->grants; g < c->grants + c->ngrants; g++) {
		old = item_find(s, g->id, strlen(g->id));
		if (old == NULL && grant_set_find(s->set, g->id, strlen(g->id)) != NULL) {
			*ret_id = g->id;
			return -EEXIST;
		}
		if (is_kept(old, g))
			continue;
		changes[*ret_n].old = old;
		changes[*ret_n].item = item_create(g);
		if (changes[(*ret_n)++].item == NULL)
			return -ENOMEM;
	}
	if (grant_set_size(s->set) + *ret_n > AUTHORITY_GRANTS_MAX)
		return -ENOSPC;
	return table_reserve(&s->by_id, *ret_n);
}

/* What is new comes first: memory that is out is found out where all can be undone. */
static int
add_new(struct standing *s, struct change *changes, size_t n)
{
	size_t i;
	int r = 0;

	for (i = 0; i < n && r == 0; i++)
		if (changes[i].old == NULL)
			r = item_join(s, changes[i].item, NULL);
	for (i -= r < 0; r < 0 && i-- > 0;)
		if (changes[i].old == NULL) {
			item_leave(s, changes[i].item);
			changes[i].item = NULL;
		}
	return r;
}

static int
add_changed(struct standing *s, struct change *changes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (changes[i].old != NULL) {
			item_leave(s, changes[i].old);
			if (item_join(s, changes[i].item, changes[i].old) < 0) {
				grant_set_fail(s->set, UNAVAILABLE_grant_source_failed);
				return -EIO;
			}
		}
		changes[i].item = NULL;
	}
	return 0;
}

static void
end_others(struct standing *s, const struct config *c, uint64_t generation, uint64_t at_ms)
{
	struct item *item;
	size_t i;

	for (i = 0; i < c->ngrants; i++) {
		item = item_find(s, c->grants[i].id, strlen(c->grants[i].id));
		item->seen_in = generation;
	}
	TAILQ_FOREACH (item, &s->items, link)
		if (item->seen_in != generation && !item->gone)
			item_end(s, item, generation, at_ms);
}

int
standing_replace(struct standing *s, const struct config *c, uint64_t generation,
    uint64_t at_ms, const char **ret_id)
{
	struct change *changes = calloc(c->ngrants + 1, sizeof(*changes));
	size_t i, n = 0;
	int r;

	if (changes == NULL)
		return -ENOMEM;
	r = prepare(s, c, changes, &n, ret_id);
	if (r == 0)
		r = add_new(s, changes, n);
	if (r == 0)
		r = add_changed(s, changes, n);
	if (r == 0) {
		end_others(s, c, generation, at_ms);
		grant_set_ceiling(s->set, c->ceiling.nrefused > 0 ? &c->ceiling : NULL);
	}
	for (i = 0; i < n; i++)
		free(changes[i].item); /* of those that did not join */
	free(changes);
	return r;
}

/* ---- all of it ------------------------------------------------------------------------- */

struct standing *
standing_create(struct grant_set *set)
{
	struct standing *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->set = set;
	TAILQ_INIT(&s->items);
	TAILQ_INIT(&s->dead);
	if (table_init(&s->by_id) < 0 || table_init(&s->memories) < 0) {
		standing_destroy(s);
		return NULL;
	}
	return s;
}

static void
list_free(struct item_list *list)
{
	struct item *i;

	while ((i = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, i, link);
		free(i);
	}
}

void
standing_destroy(struct standing *s)
{
	size_t i;

	if (s == NULL)
		return;
	list_free(&s->items);
	list_free(&s->dead);
	for (i = 0; s->memories.slots != NULL && i <= s->memories.mask; i++)
		free(s->memories.slots[i].item);
	table_finish(&s->memories);
	table_finish(&s->by_id);
	free(s);
}
