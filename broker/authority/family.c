/*
 * family: parents and children among the members of a set, in whatever order they come.
 */
#include "broker/authority/set_private.h"

static uint64_t
parent_hash(const struct member *m)
{
	return hash_bytes(3, m->grant->parent, strlen(m->grant->parent));
}

/* The first of those who wait for the grant of that id. */
static struct member *
orphans_of(const struct grant_set *set, uint64_t hash, const char *id)
{
	uint64_t at = hash;
	struct member *m;

	while ((m = table_next(&set->orphans, hash, &at)) != NULL)
		if (strcmp(m->grant->parent, id) == 0)
			break;
	return m;
}

static void
orphan_join(struct grant_set *set, struct member *m)
{
	uint64_t hash = parent_hash(m);
	struct member *first = orphans_of(set, hash, m->grant->parent);

	m->parent = NULL;
	m->sibling = NULL;
	if (first != NULL) {
		m->sibling = first->sibling;
		first->sibling = m;
	} else {
		table_put(&set->orphans, hash, m);
	}
}

static void
orphan_leave(struct grant_set *set, struct member *m)
{
	uint64_t hash = parent_hash(m);
	struct member *at = orphans_of(set, hash, m->grant->parent);

	if (at == m) {
		table_remove(&set->orphans, hash, m);
		if (m->sibling != NULL)
			table_put(&set->orphans, hash, m->sibling);
		return;
	}
	while (at->sibling != m)
		at = at->sibling;
	at->sibling = m->sibling;
}

static void
child_join(struct member *m, struct member *parent)
{
	m->parent = parent;
	m->link = grant_link_fault(m->grant, parent->grant);
	m->sibling = parent->children;
	parent->children = m;
}

static void
child_leave(struct member *m)
{
	struct member **at = &m->parent->children;

	while (*at != m)
		at = &(*at)->sibling;
	*at = m->sibling;
}

/* As many as name a parent can wait, each for another one. */
int
family_reserve(struct grant_set *set, const struct grant *g)
{
	if (g->parent == NULL)
		return 0;
	return table_reserve(&set->orphans, set->nchildren + 1 - set->orphans.n);
}

void
family_join(struct grant_set *set, struct member *m)
{
	const struct grant *g = m->grant;
	struct member *parent, *orphan, *next;
	uint64_t hash;

	if (g->parent != NULL) {
		set->nchildren++;
		parent = member_find(set, g->parent, strlen(g->parent));
		if (parent != NULL)
			child_join(m, parent);
		else
			orphan_join(set, m);
	}
	hash = hash_bytes(3, g->id, strlen(g->id));
	orphan = orphans_of(set, hash, g->id);
	if (orphan != NULL)
		table_remove(&set->orphans, hash, orphan);
	for (; orphan != NULL; orphan = next) {
		next = orphan->sibling;
		child_join(orphan, m);
	}
}

void
family_leave(struct grant_set *set, struct member *m)
{
	struct member *child;

	if (m->grant->parent != NULL) {
		set->nchildren--;
		if (m->parent != NULL)
			child_leave(m);
		else
			orphan_leave(set, m);
	}
	while ((child = m->children) != NULL) {
		m->children = child->sibling;
		orphan_join(set, child);
	}
}
