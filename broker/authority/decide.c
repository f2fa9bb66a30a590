/*
 * decide: one requirement against a set of grants, deny by default (TU-33 to TU-47).
 */
#include <string.h>

#include "broker/authority/set_private.h"
#include "common/segment.h"

#define NEAR_MAX 16 /* grants that are looked at for one that is only close */

/* What came of the grants so far: the one that is told, and why it. */
struct best {
	unsigned rank; /* 0: nothing */
	uint64_t order;
	struct grant *grant;
	enum rejection rejection;
	enum missing missing;
	enum chain_fault chain;
	const struct grant *link;
};

/* One decision. */
struct view {
	const struct grant_set *set;
	const struct context *ctx;
	uint64_t now_ms;
	const struct principal *principal; /* NULL: nobody has granted this actor anything */
	struct best best;
};

/* ---- what was asked -------------------------------------------------------------------- */

static bool
is_empty(const char *text)
{
	return text == NULL || *text == '\0';
}

/*
 * The actor's principal.  The addresses of one that is found are those of a grant, which
 * were looked at when it came into the set.
 */
static bool
context_read(struct view *v)
{
	const struct context *c = v->ctx;
	struct key k;

	if (is_empty(c->actor) || is_empty(c->authority) || is_empty(c->namespace) ||
	    is_empty(c->purpose) || *address_fault(c->owner) != '\0')
		return false;
	if (v->set != NULL) {
		principal_key(&k, c->authority, c->actor, c->namespace);
		v->principal = principal_find(v->set, &k, 3);
	}
	return v->principal != NULL ||
	       (*address_fault(c->actor) == '\0' && *address_fault(c->authority) == '\0');
}

/* A requirement that names another owner is not of this world (TU-37). */
static bool
requirement_read(const struct view *v, const struct requirement *r, struct key *k)
{
	const char *segment;
	size_t i, n;

	if (is_empty(r->namespace) || is_empty(r->action) ||
	    (r->owner != NULL && strcmp(r->owner, v->ctx->owner) != 0) ||
	    r->path.n > PATH_SEGMENTS_MAX || (r->path.n > 0 && r->path.segment == NULL))
		return false;
	key_begin(k);
	key_add(k, v->principal != NULL ? v->principal->hash : 0, r->namespace,
	    strlen(r->namespace));
	for (i = 0; i < r->path.n; i++) {
		segment = r->path.segment[i];
		n = segment != NULL ? strnlen(segment, PATH_SEGMENT_MAX + 1) : 0;
		if (n == 0 || *segment_fault(segment, n) != '\0')
			return false;
		key_add(k, 0, segment, n);
		if (v->set != NULL)
			table_prefetch(&v->set->places, k->hash[i + 1]);
	}
	return true;
}

/* ---- the best -------------------------------------------------------------------------- */

/*
 * TU-45.  Allowed without bounds, allowed, chain unverified, chain invalid, host policy,
 * exhausted, no match: the nearest one of those.  The first in order among equals.
 */
static unsigned
rank(enum rejection r, enum missing missing, enum chain_fault chain, bool bounded)
{
	if (r == REJECTION_none)
		return 1000 + !bounded;
	return (unsigned)r * 8 + (unsigned)missing + (chain == CHAIN_parent_not_found);
}

static void
consider(struct view *v, const struct best *candidate)
{
	if (candidate->rank > v->best.rank ||
	    (candidate->rank == v->best.rank && candidate->order < v->best.order))
		v->best = *candidate;
}

static void
consider_missing(struct view *v, struct grant *g, uint64_t order, enum missing missing)
{
	struct best b = { .rank = rank(REJECTION_capability, missing, CHAIN_ok, false),
		.order = order,
		.grant = g,
		.rejection = REJECTION_capability,
		.missing = missing };

	consider(v, &b);
}

/* A grant that covers what is asked: does it allow it?  Ceiling before use (TU-44). */
static bool
consider_covering(struct view *v, const struct entry *e, enum ceiling_answer ceiling)
{
	struct best b = { .order = e->order, .grant = e->grant };

	b.rejection = member_standing(v->set, e->member, v->ctx, v->now_ms, &b.chain, &b.link);
	if (b.rejection == REJECTION_none && ceiling != CEILING_passes)
		b.rejection = REJECTION_host_policy;
	if (b.rejection == REJECTION_none && grant_is_exhausted(e->grant))
		b.rejection = REJECTION_exhausted;
	b.rank = rank(b.rejection, MISSING_none, b.chain, e->grant->bounded);
	consider(v, &b);
	return b.rejection == REJECTION_none;
}

static enum verdict
verdict_of(const struct best *b, const struct ceiling *ceiling)
{
	if (b->rank == 0)
		return VERDICT_no_matching_grant;
	switch (b->rejection) {
	case REJECTION_none: return VERDICT_allowed;
	case REJECTION_exhausted: return VERDICT_grant_exhausted;
	case REJECTION_host_policy:
		return ceiling->available ? VERDICT_host_policy_denied
					  : VERDICT_host_policy_unavailable;
	case REJECTION_delegation:
		return b->chain == CHAIN_parent_not_found ? VERDICT_delegation_chain_unverified
							  : VERDICT_delegation_chain_invalid;
	default: return VERDICT_no_matching_grant;
	}
}

static struct decision
decision_of(const struct view *v)
{
	const struct best *b = &v->best;
	struct decision d = { .verdict = verdict_of(b, v->set->ceiling) };

	if (d.verdict != VERDICT_no_matching_grant)
		d.grant = b->grant;
	if (d.verdict == VERDICT_allowed)
		return d;
	d.nearest = b->rejection;
	d.closest = b->grant;
	d.missing = b->missing;
	d.chain = b->chain;
	d.link = b->link;
	return d;
}

static struct decision
unavailable(const struct grant_set *set)
{
	return (struct decision){ .verdict = VERDICT_authority_unavailable,
		.unavailable = set != NULL ? set->failed : UNAVAILABLE_grant_source_failed };
}

/* ---- places ---------------------------------------------------------------------------- */

static bool
entry_acts(const struct entry *e, uint32_t action)
{
	uint32_t i;

	for (i = 0; i < e->nactions; i++)
		if (e->actions[i] == action || e->actions[i] == ACTION_STAR)
			return true;
	return false;
}

/* What is granted at one place, or from it downwards if what is asked for is below. */
static void
look_at_place(struct view *v, const struct node *place, bool below, uint32_t action,
    enum ceiling_answer ceiling)
{
	const struct entry *e;
	int bounded;

	for (bounded = 0; bounded < 2; bounded++) {
		for (e = place->list[bounded].first; e != NULL; e = e->next) {
			if (below && !e->descendants)
				continue;
			if (!entry_acts(e, action))
				consider_missing(v, e->grant, e->order, MISSING_action);
			else if (e->owner != NULL && strcmp(e->owner, v->ctx->owner) != 0)
				consider_missing(v, e->grant, e->order, MISSING_owner);
			else if (consider_covering(v, e, ceiling))
				return; /* all that follow come after it */
		}
	}
}

/* ---- exact calls ----------------------------------------------------------------------- */

static bool
is_of_a_call(const struct requirement *req)
{
	return req->tool != NULL && req->digest != NULL;
}

/* What is granted for exactly this call; that it is this one, the key says. */
static void
look_at_call(struct view *v, const struct requirement *req, enum ceiling_answer ceiling)
{
	char hex[2 * AUTHORITY_DIGEST_BYTES + 1];
	const struct node *place;
	const struct entry *e;
	enum missing missing;
	struct key k;

	call_key(&k, v->principal->hash, req->namespace, req->tool, req->digest, hex);
	place = node_find(&v->set->places, &k, CALL_LEVELS, v->principal, ACTION_CALL,
	    k.hash[CALL_LEVELS - 1]);
	for (e = place != NULL ? place->list[1].first : NULL; e != NULL; e = e->next) {
		missing = capability_missing(e->capability, v->ctx, req);
		if (missing != MISSING_none)
			consider_missing(v, e->grant, e->order, missing);
		else if (consider_covering(v, e, ceiling))
			return;
	}
}

/* Of some grants for other calls of this tool: what do they lack but being for this one? */
static void
look_at_other_calls(struct view *v, const struct requirement *req, uint32_t action)
{
	const struct node *offer;
	const struct entry *e;
	enum missing missing;
	struct key k;
	int seen = 0;

	key_begin(&k);
	key_add(&k, v->principal->hash, req->namespace, strlen(req->namespace));
	key_add(&k, 0, req->tool, strlen(req->tool));
	offer = node_find(&v->set->offers, &k, CALL_OFFER, v->principal, action,
	    offer_hash(k.hash[CALL_OFFER - 1], action));
	for (e = offer != NULL ? offer->list[1].first : NULL; e != NULL && seen < NEAR_MAX;
	     e = e->next, seen++) {
		missing = capability_missing(e->capability, v->ctx, req);
		consider_missing(
		    v, e->grant, e->order, missing != MISSING_none ? missing : MISSING_call);
	}
}

/* ---- what is only close ---------------------------------------------------------------- */

static size_t
common_segments(const struct path *a, const struct path *b)
{
	size_t i;

	for (i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->segment[i], b->segment[i]) != 0)
			break;
	return i;
}

/* Of some grants of this action on this resource the one whose path goes along longest. */
static void
look_elsewhere(struct view *v, const struct key *k, const struct path *path, uint32_t action)
{
	const struct entry *e, *closest = NULL;
	const struct node *offer;
	size_t common = 0, n;
	int bounded, seen = 0;

	offer = node_find(
	    &v->set->offers, k, 1, v->principal, action, offer_hash(k->hash[0], action));
	for (bounded = 0; offer != NULL && bounded < 2; bounded++) {
		for (e = offer->list[bounded].first; e != NULL && seen < NEAR_MAX;
		     e = e->next, seen++) {
			n = common_segments(&e->capability->path, path);
			if (closest == NULL || n > common) {
				closest = e;
				common = n;
			}
		}
	}
	if (closest != NULL)
		consider_missing(v, closest->grant, closest->order, MISSING_path);
}

/* Of some grants of this actor the one that lacks least. */
static void
look_at_others(struct view *v, const struct requirement *req)
{
	enum missing missing, least;
	const struct member *m;
	int seen = 0;
	size_t i;

	for (m = v->principal->first; m != NULL && seen < NEAR_MAX; m = m->next, seen++) {
		least = MISSING_resource;
		for (i = 0; i < m->grant->ncapabilities; i++) {
			missing = capability_missing(&m->grant->capabilities[i], v->ctx, req);
			/* All that it lacks is to be for this call, or it would do. */
			if (missing == MISSING_none)
				missing = MISSING_call;
			if (missing > least)
				least = missing;
		}
		consider_missing(v, m->grant, m->order, least);
	}
}

/* No grant is for this actor: how far does any come? */
static enum rejection
nearest_principal(const struct view *v)
{
	struct key k;

	principal_key(&k, v->ctx->authority, v->ctx->actor, v->ctx->namespace);
	if (principal_find(v->set, &k, 2) != NULL)
		return REJECTION_namespace;
	if (principal_find(v->set, &k, 1) != NULL)
		return REJECTION_subject;
	return grant_set_size(v->set) > 0 ? REJECTION_issuer : REJECTION_none;
}

/* ---- the decision ---------------------------------------------------------------------- */

static struct decision
decide(struct view *v, const struct requirement *req, const struct key *k)
{
	enum ceiling_answer ceiling = ceiling_on_requirement(v->set->ceiling, v->ctx, req);
	uint32_t action = name_find(v->set, req->action, strlen(req->action));
	const struct node *place;
	size_t level;

	for (level = 1; level <= k->n; level++) {
		place = node_find(
		    &v->set->places, k, level, v->principal, ACTION_NONE, k->hash[level - 1]);
		if (place != NULL)
			look_at_place(v, place, level < k->n, action, ceiling);
	}
	if (v->set->ncalls > 0 && is_of_a_call(req))
		look_at_call(v, req, ceiling);
	if (v->set->ncalls > 0 && is_of_a_call(req) &&
	    v->best.rank < rank(REJECTION_capability, MISSING_call, CHAIN_ok, false)) {
		look_at_other_calls(v, req, action);
		look_at_other_calls(v, req, ACTION_STAR);
	}
	if (v->best.rank == 0) {
		look_elsewhere(v, k, &req->path, action);
		look_elsewhere(v, k, &req->path, ACTION_STAR);
	}
	if (v->best.rank == 0)
		look_at_others(v, req);
	return decision_of(v);
}

struct decision
authority_decide(const struct grant_set *set, const struct context *ctx,
    const struct requirement *req, uint64_t now_ms)
{
	struct view v = { .set = set, .ctx = ctx, .now_ms = now_ms };
	struct key k;

	if (!context_read(&v))
		return (struct decision){ .verdict = VERDICT_invalid_context };
	if (!requirement_read(&v, req, &k))
		return (struct decision){ .verdict = VERDICT_invalid_request };
	if (set == NULL || set->failed != UNAVAILABLE_none)
		return unavailable(set);
	if (v.principal == NULL)
		return (struct decision){ .verdict = VERDICT_no_matching_grant,
			.nearest = nearest_principal(&v) };
	return decide(&v, req, &k);
}

struct decision
authority_recheck(const struct grant_set *set, const struct grant *g, const struct context *ctx,
    uint64_t now_ms)
{
	struct view v = { .set = set, .ctx = ctx, .now_ms = now_ms };
	const struct member *m;
	struct best b = { .rank = 1 };

	if (set == NULL || set->failed != UNAVAILABLE_none)
		return unavailable(set);
	m = member_find(set, g->id, strlen(g->id));
	if (m == NULL || m->grant != g)
		return (struct decision){ .verdict = VERDICT_no_matching_grant };
	b.grant = m->grant;
	b.rejection = member_standing(set, m, ctx, now_ms, &b.chain, &b.link);
	v.best = b;
	return decision_of(&v);
}

/* ---- discovery and reach --------------------------------------------------------------- */

static void
look_at_offer(
    struct view *v, const struct key *k, size_t level, const char *name, uint32_t action)
{
	const struct node *offer;
	const struct entry *e;
	int bounded;

	offer = node_find(&v->set->offers, k, level, v->principal, action,
	    offer_hash(k->hash[level - 1], action));
	for (bounded = 0; offer != NULL && bounded < 2; bounded++)
		for (e = offer->list[bounded].first; e != NULL; e = e->next)
			if ((e->owner == NULL || strcmp(e->owner, v->ctx->owner) == 0) &&
			    consider_covering(v, e,
				ceiling_on_capability(
				    v->set->ceiling, v->ctx, e->capability, name)))
				return;
}

enum verdict
authority_discover(const struct grant_set *set, const struct context *ctx,
    const char *tool, const char *namespace, const char *action, uint64_t now_ms)
{
	struct view v = { .set = set, .ctx = ctx, .now_ms = now_ms };
	uint32_t id;
	size_t level;
	struct key k;

	if (!context_read(&v))
		return VERDICT_invalid_context;
	if (is_empty(namespace) || is_empty(action))
		return VERDICT_invalid_request;
	if (set == NULL || set->failed != UNAVAILABLE_none)
		return VERDICT_authority_unavailable;
	if (v.principal == NULL)
		return VERDICT_no_matching_grant;
	key_begin(&k);
	key_add(&k, v.principal->hash, namespace, strlen(namespace));
	if (tool != NULL && set->ncalls > 0)
		key_add(&k, 0, tool, strlen(tool));
	id = name_find(set, action, strlen(action));
	for (level = 1; level <= k.n; level++) { /* of any tool; then calls of this one */
		look_at_offer(&v, &k, level, action, id);
		if (id != ACTION_STAR)
			look_at_offer(&v, &k, level, action, ACTION_STAR);
	}
	return verdict_of(&v.best, set->ceiling);
}

/* Is it to be told to the runtime as something that it could use? */
static bool
is_in_reach(const struct view *v, const struct member *m)
{
	const struct grant *link;
	enum chain_fault chain;

	return m->grant->tool == NULL && !grant_is_exhausted(m->grant) &&
	       member_standing(v->set, m, v->ctx, v->now_ms, &chain, &link) == REJECTION_none;
}

const struct capability *
authority_reach(
    const struct grant_set *set, const struct context *ctx, uint64_t now_ms, struct reach *at)
{
	struct view v = { .set = set, .ctx = ctx, .now_ms = now_ms };
	const struct capability *c;
	const struct member *m;

	if (set == NULL || set->failed != UNAVAILABLE_none || !context_read(&v) ||
	    v.principal == NULL)
		return NULL;
	if (!at->begun)
		*at = (struct reach){ v.principal->first, 0, true };
	for (m = at->member; m != NULL; m = m->next, at->capability = 0) {
		at->member = m;
		if (at->capability == 0 && !is_in_reach(&v, m))
			continue;
		while (at->capability < m->grant->ncapabilities) {
			c = &m->grant->capabilities[at->capability++];
			if ((c->owner == NULL || strcmp(c->owner, ctx->owner) == 0) &&
			    ceiling_on_capability(set->ceiling, ctx, c, NULL) == CEILING_passes)
				return c;
		}
	}
	at->member = NULL;
	return NULL;
}
