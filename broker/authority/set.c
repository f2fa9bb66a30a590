#include "broker/authority/set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "broker/authority/set_private.h"
#include "common/hex.h"

/* ---- keys ------------------------------------------------------------------------------ */

void
key_begin(struct key *k)
{
	k->n = 0;
}

void
key_add(struct key *k, uint64_t before, const char *text, size_t n)
{
	size_t i = k->n++;

	k->text[i] = text;
	k->end[i] = (uint32_t)(n + 1) + (i > 0 ? k->end[i - 1] : 0);
	k->hash[i] = hash_bytes(i > 0 ? k->hash[i - 1] : before, text, n);
}

/* Are the first `level` texts of the key these `bytes` bytes? */
static inline bool
key_is(const struct key *k, size_t level, const char *text, uint32_t bytes)
{
	uint32_t at = 0;
	size_t i;

	if (level == 0 || k->end[level - 1] != bytes)
		return false;
	for (i = 0; i < level; i++) {
		if (memcmp(text + at, k->text[i], k->end[i] - at - 1) != 0 ||
		    text[k->end[i] - 1] != '\0')
			return false;
		at = k->end[i];
	}
	return true;
}

static void
key_copy(const struct key *k, size_t level, char *to)
{
	uint32_t at = 0;
	size_t i;

	for (i = 0; i < level; i++) {
		memcpy(to + at, k->text[i], k->end[i] - at - 1);
		to[k->end[i] - 1] = '\0';
		at = k->end[i];
	}
}

void
principal_key(struct key *k, const char *issuer, const char *subject, const char *ns)
{
	key_begin(k);
	key_add(k, 1, issuer, strlen(issuer));
	key_add(k, 0, subject, strlen(subject));
	key_add(k, 0, ns, strlen(ns));
}

void
call_key(struct key *k, uint64_t before, const char *namespace, const char *tool,
    const uint8_t digest[AUTHORITY_DIGEST_BYTES], char hex[2 * AUTHORITY_DIGEST_BYTES + 1])
{
	hex_encode(digest, AUTHORITY_DIGEST_BYTES, hex);
	key_begin(k);
	key_add(k, before, namespace, strlen(namespace));
	key_add(k, 0, tool, strlen(tool));
	key_add(k, 0, hex, 2 * AUTHORITY_DIGEST_BYTES);
}

static void
capability_key(struct key *k, uint64_t before, const struct capability *c)
{
	size_t i;

	key_begin(k);
	key_add(k, before, c->namespace, strlen(c->namespace));
	for (i = 0; i < c->path.n; i++)
		key_add(k, 0, c->path.segment[i], strlen(c->path.segment[i]));
}

/* ---- finding --------------------------------------------------------------------------- */

struct principal *
principal_find(const struct grant_set *set, const struct key *k, size_t level)
{
	uint64_t hash = k->hash[level - 1], at = hash;
	struct principal *p;

	while ((p = table_next(&set->principals, hash, &at)) != NULL)
		if (key_is(k, level, p->text, p->bytes))
			break;
	return p;
}

struct node *
node_find(const struct table *t, const struct key *k, size_t level,
    const struct principal *principal, uint32_t action, uint64_t hash)
{
	uint64_t at = hash;
	struct node *n;

	while ((n = table_next(t, hash, &at)) != NULL)
		if (n->principal == principal && n->action == action &&
		    key_is(k, level, n->text, n->bytes))
			break;
	return n;
}

static struct name *
name_search(const struct grant_set *set, uint64_t hash, const char *text, size_t n)
{
	uint64_t at = hash;
	struct name *name;

	while ((name = table_next(&set->names, hash, &at)) != NULL)
		if (strlen(name->text) == n && memcmp(name->text, text, n) == 0)
			break;
	return name;
}

uint32_t
name_find(const struct grant_set *set, const char *text, size_t n)
{
	const struct name *name = name_search(set, hash_bytes(2, text, n), text, n);

	return name != NULL ? name->id : ACTION_UNKNOWN;
}

struct member *
member_find(const struct grant_set *set, const char *id, size_t n)
{
	uint64_t hash = hash_bytes(3, id, n), at = hash;
	struct member *m;

	while ((m = table_next(&set->members, hash, &at)) != NULL)
		if (strlen(m->grant->id) == n && memcmp(m->grant->id, id, n) == 0)
			break;
	return m;
}

/* ---- entries --------------------------------------------------------------------------- */

static int
name_intern(struct grant_set *set, const char *text, uint32_t *ret_id)
{
	size_t n = strlen(text);
	uint64_t hash = hash_bytes(2, text, n);
	struct name *name = name_search(set, hash, text, n);

	if (name == NULL) {
		if (table_reserve(&set->names, 1) < 0)
			return -ENOMEM;
		name = malloc(sizeof(*name) + n + 1);
		if (name == NULL)
			return -ENOMEM;
		name->id = set->nnames++;
		memcpy(name->text, text, n + 1);
		table_put(&set->names, hash, name);
	}
	*ret_id = name->id;
	return 0;
}

static struct node *
node_get(struct table *t, const struct key *k, size_t level, const struct principal *principal,
    uint32_t action, uint64_t hash)
{
	struct node *n = node_find(t, k, level, principal, action, hash);

	if (n != NULL)
		return n;
	if (table_reserve(t, 1) < 0)
		return NULL;
	n = calloc(1, sizeof(*n) + k->end[level - 1]);
	if (n == NULL)
		return NULL;
	n->hash = hash;
	n->principal = principal;
	n->action = action;
	n->bytes = k->end[level - 1];
	key_copy(k, level, n->text);
	table_put(t, hash, n);
	return n;
}

/* An entry at the end of its node's list: grants come in order. */
static struct entry *
entry_add(struct member *m, struct node *node, const struct capability *c, size_t nactions)
{
	struct entry *e = calloc(1, sizeof(*e) + nactions * sizeof(e->actions[0]));
	struct entry_list *l = &node->list[m->grant->bounded];

	if (e == NULL)
		return NULL;
	*e = (struct entry){ .grant = m->grant,
		.member = m,
		.capability = c,
		.owner = c->owner,
		.descendants = c->descendants,
		.order = m->order,
		.node = node,
		.of_member = m->entries,
		.nactions = (uint32_t)nactions };
	m->entries = e;
	if (l->last != NULL)
		l->last->next = e;
	else
		l->first = e;
	l->last = e;
	return e;
}

static void
node_drop_if_empty(struct grant_set *set, struct node *n)
{
	if (n->list[0].first != NULL || n->list[1].first != NULL)
		return;
	table_remove(n->action == ACTION_NONE || n->action == ACTION_CALL ? &set->places
									  : &set->offers,
	    n->hash, n);
	free(n);
}

static void
entry_remove(struct grant_set *set, struct entry *e)
{
	struct entry_list *l = &e->node->list[e->grant->bounded];
	struct entry *before = NULL, *at;

	for (at = l->first; at != e; at = at->next)
		before = at;
	if (before != NULL)
		before->next = e->next;
	else
		l->first = e->next;
	if (l->last == e)
		l->last = before;
	node_drop_if_empty(set, e->node);
	free(e);
}

/* A node that was made for an entry which then could not be is empty, and goes again. */
static int
index_capability(struct grant_set *set, struct member *m, const struct capability *c)
{
	const struct grant *g = m->grant;
	struct principal *p = m->principal[2];
	size_t i, level = g->tool != NULL ? CALL_OFFER : 1;
	char hex[2 * AUTHORITY_DIGEST_BYTES + 1];
	struct entry *e;
	struct node *n;
	struct key k;

	if (g->tool != NULL)
		call_key(&k, p->hash, c->namespace, g->tool, g->digest, hex);
	else
		capability_key(&k, p->hash, c);
	n = node_get(&set->places, &k, k.n, p, g->tool != NULL ? ACTION_CALL : ACTION_NONE,
	    k.hash[k.n - 1]);
	if (n == NULL)
		return -ENOMEM;
	e = entry_add(m, n, c, c->nactions);
	if (e == NULL) {
		node_drop_if_empty(set, n);
		return -ENOMEM;
	}
	for (i = 0; i < c->nactions; i++) {
		if (name_intern(set, c->actions[i], &e->actions[i]) < 0)
			return -ENOMEM;
		n = node_get(&set->offers, &k, level, p, e->actions[i],
		    offer_hash(k.hash[level - 1], e->actions[i]));
		if (n == NULL)
			return -ENOMEM;
		if (entry_add(m, n, c, 0) == NULL) {
			node_drop_if_empty(set, n);
			return -ENOMEM;
		}
	}
	return 0;
}

/* ---- principals ------------------------------------------------------------------------ */

static void
principal_leave(struct grant_set *set, struct principal *p)
{
	if (p == NULL || --p->n > 0)
		return;
	table_remove(&set->principals, p->hash, p);
	free(p);
}

static int
principal_join(struct grant_set *set, struct member *m)
{
	struct principal *p;
	struct key k;
	size_t i;

	principal_key(&k, m->grant->issuer, m->grant->subject, m->grant->namespace);
	for (i = 1; i <= 3; i++) {
		p = principal_find(set, &k, i);
		if (p == NULL) {
			if (table_reserve(&set->principals, 1) < 0)
				return -ENOMEM;
			p = calloc(1, sizeof(*p) + k.end[i - 1]);
			if (p == NULL)
				return -ENOMEM;
			p->hash = k.hash[i - 1];
			p->bytes = k.end[i - 1];
			key_copy(&k, i, p->text);
			table_put(&set->principals, p->hash, p);
		}
		p->n++;
		m->principal[i - 1] = p;
	}
	if (p->last != NULL)
		p->last->next = m;
	else
		p->first = m;
	p->last = m;
	return 0;
}

static void
principal_unlist(struct member *m)
{
	struct principal *p = m->principal[2];
	struct member *before = NULL, *at;

	if (p == NULL)
		return;
	for (at = p->first; at != m; at = at->next)
		before = at;
	if (before != NULL)
		before->next = m->next;
	else
		p->first = m->next;
	if (p->last == m)
		p->last = before;
}

/* ---- the set --------------------------------------------------------------------------- */

static void
member_destroy(struct grant_set *set, struct member *m)
{
	struct entry *e;
	size_t i;

	while ((e = m->entries) != NULL) {
		m->entries = e->of_member;
		entry_remove(set, e);
	}
	principal_unlist(m);
	for (i = 0; i < 3; i++)
		principal_leave(set, m->principal[i]);
	free(m);
}

struct grant_set *
grant_set_create(enum revocation revocation)
{
	struct grant_set *set = calloc(1, sizeof(*set));
	uint32_t star;

	if (set == NULL)
		return NULL;
	set->revocation = revocation;
	if (table_init(&set->members) < 0 || table_init(&set->names) < 0 ||
	    table_init(&set->principals) < 0 || table_init(&set->places) < 0 ||
	    table_init(&set->orphans) < 0 || table_init(&set->offers) < 0 ||
	    name_intern(set, "*", &star) < 0) {
		grant_set_destroy(set);
		return NULL;
	}
	assert(star == ACTION_STAR);
	return set;
}

static void
free_items(struct table *t)
{
	size_t i;

	for (i = 0; t->slots != NULL && i <= t->mask; i++)
		free(t->slots[i].item);
	table_finish(t);
}

void
grant_set_destroy(struct grant_set *set)
{
	struct member *m;
	struct entry *e;
	size_t i;

	if (set == NULL)
		return;
	for (i = 0; set->members.slots != NULL && i <= set->members.mask; i++) {
		m = set->members.slots[i].item;
		while (m != NULL && (e = m->entries) != NULL) {
			m->entries = e->of_member;
			free(e);
		}
	}
	table_finish(&set->orphans);
	free_items(&set->members);
	free_items(&set->names);
	free_items(&set->principals);
	free_items(&set->places);
	free_items(&set->offers);
	free(set);
}

int
grant_set_add(struct grant_set *set, struct grant *g)
{
	const char *field;
	struct member *m;
	size_t i;

	if (*grant_fault(g, &field) != '\0')
		return -EINVAL;
	if (grant_set_find(set, g->id, strlen(g->id)) != NULL)
		return -EEXIST;
	if (set->members.n >= AUTHORITY_GRANTS_MAX)
		return -ENOSPC;
	m = table_reserve(&set->members, 1) == 0 ? calloc(1, sizeof(*m)) : NULL;
	if (m == NULL)
		return -ENOMEM;
	m->grant = g;
	m->order = set->order;
	if (family_reserve(set, g) < 0 || principal_join(set, m) < 0)
		goto fail;
	for (i = 0; i < g->ncapabilities; i++)
		if (index_capability(set, m, &g->capabilities[i]) < 0)
			goto fail;
	set->order++;
	set->ncalls += g->tool != NULL;
	table_put(&set->members, hash_bytes(3, g->id, strlen(g->id)), m);
	family_join(set, m);
	g->issued_revision = ++set->revision;
	g->revoked_revision = 0;
	return 0;
fail:
	member_destroy(set, m);
	return -ENOMEM;
}

void
grant_set_remove(struct grant_set *set, struct grant *g)
{
	struct member *m = member_find(set, g->id, strlen(g->id));

	assert(m != NULL && m->grant == g);
	set->ncalls -= g->tool != NULL;
	family_leave(set, m);
	table_remove(&set->members, hash_bytes(3, g->id, strlen(g->id)), m);
	member_destroy(set, m);
}

void
grant_set_revoke(struct grant_set *set, struct grant *g, uint64_t at_ms)
{
	if (g->revoked_at_ms != 0)
		return;
	g->revoked_at_ms = at_ms != 0 ? at_ms : 1;
	g->revoked_revision = ++set->revision;
}

void
grant_set_fail(struct grant_set *set, enum unavailable cause)
{
	if (set->failed == UNAVAILABLE_none)
		set->failed = cause;
}

void
grant_set_ceiling(struct grant_set *set, const struct ceiling *c)
{
	set->ceiling = c;
}

struct grant *
grant_set_find(const struct grant_set *set, const char *id, size_t n)
{
	const struct member *m = member_find(set, id, n);

	return m != NULL ? m->grant : NULL;
}

size_t
grant_set_size(const struct grant_set *set)
{
	return set->members.n;
}

uint64_t
grant_set_revision(const struct grant_set *set)
{
	return set->revision;
}
