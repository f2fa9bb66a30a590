/*
 * authority_world: random sets of grants, small enough that they often meet, and a model of
 * the decision.  The model is written from the contract, not from the code: a list of
 * grants, paths as text, nothing remembered, every question asked anew.
 */
#ifndef TESTS_AUTHORITY_WORLD_H
#define TESTS_AUTHORITY_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/authority_fixture.h"

#define WORLD_MAX   8 /* grants */
#define MEMBERS_MAX 3 /* capabilities, actions, segments, purposes */

static uint64_t seed;

static inline unsigned
pick(unsigned n)
{
	return (unsigned)(random_next(&seed) % n);
}

static const char *const ids[WORLD_MAX] = { "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7" };
static const char *words[] = { "a", "ab", "b", "*" };
static const char *const verbs[] = { "read", "write", "*", "rea" };
static const char *const tools[] = { "t", "u" };
static uint8_t digests[][AUTHORITY_DIGEST_BYTES] = { { 1 }, { 2 } };
static const char *const people[] = { "human:h", "agent:a", "human:o" };

/* Everything lies in one block: grants can be copied about and cut to pieces. */
struct world {
	struct grant g[WORLD_MAX];
	bool present[WORLD_MAX], late[WORLD_MAX], late_revoked[WORLD_MAX];
	unsigned order[WORLD_MAX];
	struct capability c[WORLD_MAX][MEMBERS_MAX], refused[MEMBERS_MAX];
	const char *seg[WORLD_MAX + 1][MEMBERS_MAX][MEMBERS_MAX];
	const char *act[WORLD_MAX + 1][MEMBERS_MAX][MEMBERS_MAX];
	const char *why[WORLD_MAX][MEMBERS_MAX];
	size_t n;
	enum revocation mode;
	bool has_ceiling;
	struct ceiling ceiling;
	struct grant_set *set;
	struct context ctx;
	uint64_t now_ms;
};

/* ---- making one ------------------------------------------------------------------------ */

static inline void
random_capability(struct world *w, size_t i, size_t k, struct capability *c)
{
	size_t j;

	for (j = 0; j < MEMBERS_MAX; j++) {
		w->seg[i][k][j] = words[pick(4)];
		w->act[i][k][j] = verbs[pick(4)];
	}
	*c = (struct capability){ pick(5) == 0 ? "other" : "workspace",
		pick(4) != 0 ? NULL : people[pick(3)], { w->seg[i][k], pick(MEMBERS_MAX) },
		pick(2) == 0, w->act[i][k], 1 + pick(2) };
}

static inline void
random_grant(struct world *w, size_t i)
{
	size_t k;

	for (k = 0; k < MEMBERS_MAX; k++) {
		random_capability(w, i, k, &w->c[i][k]);
		w->why[i][k] = pick(2) == 0 ? "work" : "play";
	}
	w->g[i] = (struct grant){ .id = ids[i],
		.subject = pick(4) == 0 ? people[pick(3)] : "agent:a",
		.issuer = pick(6) == 0 ? people[pick(3)] : "human:h",
		.namespace = pick(12) == 0 ? "other" : "default",
		.capabilities = w->c[i],
		.ncapabilities = 1 + pick(MEMBERS_MAX),
		.issued_at_ms = 998 + pick(4),
		.not_before_ms = pick(3) == 0 ? 998 + pick(4) : 0,
		.expires_at_ms = pick(3) == 0 ? 1998 + pick(5) : 0,
		.revoked_at_ms = pick(10) == 0 ? 1 + pick(3000) : 0,
		.purposes = pick(3) == 0 ? w->why[i] : NULL,
		.delegation_depth = pick(4),
		.bounded = pick(3) == 0,
		.max_uses = 1 + pick(2),
		.spent = pick(3) };
	w->g[i].npurposes = w->g[i].purposes != NULL ? pick(3) : 0;
	if (pick(4) == 0) { /* for one exact call */
		w->g[i].tool = tools[pick(4) == 0];
		memcpy(w->g[i].digest, digests[pick(5) == 0], AUTHORITY_DIGEST_BYTES);
		w->g[i].bounded = true;
		w->g[i].max_uses = 1;
		w->g[i].delegation_depth = 0;
		w->g[i].spent = pick(2);
	}
	/* Some chains are forged, some are what an issue would have made. */
	if (pick(2) == 0)
		w->g[i].parent = ids[(i + 1 + pick(WORLD_MAX - 1)) % WORLD_MAX];
}

/* Narrows a grant so that it can hang below another, with luck. */
static inline void
random_child(struct world *w, size_t i, size_t parent)
{
	struct grant *g = &w->g[i], *p = &w->g[parent];
	struct grant root = { .id = p->id };

	if (pick(4) != 0) {
		g->subject = "agent:a";
		p->subject = "human:h";
		p->bounded = pick(4) == 0;
		p->delegation_depth = pick(4);
		p->revoked_at_ms = 0;
		p->issued_at_ms = 998;
		g->capabilities = p->capabilities;
		g->ncapabilities = p->ncapabilities;
		if (pick(2) == 0)
			g->delegation_depth = 0;
	}
	if (grant_derive(p, g) != DERIVATION_ok && pick(2) == 0)
		g->parent = root.id;
}

static inline void
world_add(struct world *w, size_t i, bool late)
{
	static unsigned order;
	const char *field;

	if (*grant_fault(&w->g[i], &field) != '\0')
		return; /* a window that is empty, after it was narrowed */
	ck_assert_int_eq(grant_set_add(w->set, &w->g[i]), 0);
	w->present[i] = true;
	w->late[i] = late;
	w->order[i] = order++;
}

static inline void
random_world(struct world *w)
{
	size_t i;

	memset(w, 0, sizeof(*w));
	w->n = 1 + pick(WORLD_MAX);
	w->mode = pick(2) == 0 ? REVOCATION_immediate : REVOCATION_next_turn;
	w->now_ms = NOW - 3 + pick(6);
	for (i = 0; i < w->n; i++)
		random_grant(w, i);
	for (i = w->n; i-- > 1;)
		if (pick(2) == 0)
			random_child(w, i, pick((unsigned)i));
	for (i = 0; i < MEMBERS_MAX; i++) {
		random_capability(w, WORLD_MAX, i, &w->refused[i]);
		w->refused[i].path.n = pick(2); /* wide enough to be met */
	}
	w->has_ceiling = pick(3) == 0;
	w->ceiling = (struct ceiling){ pick(5) != 0, w->refused, pick(MEMBERS_MAX) };
	w->set = grant_set_create(w->mode);
	grant_set_ceiling(w->set, w->has_ceiling ? &w->ceiling : NULL);
	for (i = 0; i < w->n; i++)
		if (pick(8) != 0)
			world_add(w, i, false);
	w->ctx = admitted(w->set);
	/* In mid-turn: some more, some less, some revoked. */
	for (i = 0; i < w->n; i++) {
		if (!w->present[i]) {
			world_add(w, i, true);
		} else if (pick(12) == 0) {
			grant_set_remove(w->set, &w->g[i]);
			w->present[i] = false;
			if (pick(2) == 0)
				world_add(w, i, true);
		} else if (pick(12) == 0 && w->g[i].revoked_at_ms == 0) {
			grant_set_revoke(w->set, &w->g[i], pick(3000));
			w->late_revoked[i] = true;
		}
	}
}

static inline void
world_end(struct world *w)
{
	grant_set_destroy(w->set);
}

static inline struct requirement
random_requirement(const char **segments)
{
	size_t j;

	for (j = 0; j < MEMBERS_MAX; j++)
		segments[j] = words[pick(4)];
	return (struct requirement){ pick(6) == 0 ? "other" : "workspace",
		pick(3) == 0 ? "human:o" : NULL, { segments, pick(MEMBERS_MAX + 1) },
		verbs[pick(4)], pick(6) != 0 ? tools[pick(4) == 0] : NULL, digests[pick(5) == 0] };
}

/* ---- the model ------------------------------------------------------------------------- */

/* A path as text with a slash behind each segment: below is then to begin with. */
static inline const char *
text_of(const struct path *p, char out[64])
{
	size_t i, n = 0;

	out[0] = '\0';
	for (i = 0; i < p->n; i++)
		n += (size_t)snprintf(out + n, 64 - n, "%s/", p->segment[i]);
	return out;
}

static inline bool
model_place(const struct capability *c, const struct path *p, bool below)
{
	char have[64], want[64];

	text_of(&c->path, have);
	text_of(p, want);
	return c->descendants ? strncmp(have, want, strlen(have)) == 0
			      : !below && strcmp(have, want) == 0;
}

static inline bool
model_holds(const struct capability *c, const char *action)
{
	bool held = false;
	size_t i;

	for (i = 0; i < c->nactions; i++)
		held |= c->actions[i][0] == '*' || strcmp(c->actions[i], action) == 0;
	return held;
}

static inline bool
model_capability(const struct capability *c, const struct requirement *r)
{
	return model_place(c, &r->path, false) && model_holds(c, r->action) &&
	       strcmp(c->namespace, r->namespace) == 0 &&
	       (c->owner == NULL || strcmp(c->owner, "human:o") == 0);
}

/* What is for one exact call is for no other, and for nothing that is no call. */
static inline bool
model_call(const struct grant *g, const struct requirement *r)
{
	size_t i, same = 0;

	if (g->tool == NULL)
		return true;
	for (i = 0; i < AUTHORITY_DIGEST_BYTES; i++)
		same += g->digest[i] == r->digest[i];
	return same == AUTHORITY_DIGEST_BYTES && r->tool != NULL &&
	       strcmp(g->tool, r->tool) == 0;
}

static inline bool
model_revoked(const struct world *w, size_t i)
{
	return w->g[i].revoked_at_ms != 0 &&
	       !(w->mode == REVOCATION_next_turn && w->late_revoked[i]);
}

static inline bool
model_open(const struct world *w, size_t i)
{
	const struct grant *g = &w->g[i];

	return !w->late[i] && !(g->issued_at_ms > ADMITTED) && !(g->not_before_ms > ADMITTED) &&
	       (g->expires_at_ms == 0 || g->expires_at_ms > w->now_ms);
}

/* Every element of one list in another: texts are in one, capabilities in a wider one. */
static inline bool
model_purposes(const struct grant *c, const struct grant *p)
{
	size_t i, k, in = 0;

	if (p->purposes == NULL || c->purposes == NULL)
		return p->purposes == NULL;
	for (i = 0; i < c->npurposes; i++) {
		for (k = 0; k < p->npurposes; k++)
			if (strcmp(c->purposes[i], p->purposes[k]) == 0)
				break;
		in += k < p->npurposes;
	}
	return in == c->npurposes;
}

static inline bool
model_inside(const struct capability *c, const struct capability *p)
{
	bool actions = true;
	size_t i;

	for (i = 0; i < c->nactions; i++)
		actions &= model_holds(p, c->actions[i]);
	return actions && strcmp(c->namespace, p->namespace) == 0 &&
	       model_place(p, &c->path, c->descendants) &&
	       (p->owner == NULL || (c->owner != NULL && strcmp(c->owner, p->owner) == 0));
}

static inline bool
model_capabilities(const struct grant *c, const struct grant *p)
{
	size_t i, k, in = 0;

	for (i = 0; i < c->ncapabilities; i++) {
		for (k = 0; k < p->ncapabilities; k++)
			if (model_inside(&c->capabilities[i], &p->capabilities[k]))
				break;
		in += k < p->ncapabilities;
	}
	return in == c->ncapabilities;
}

static inline bool
model_constraints(const struct grant *c, const struct grant *p)
{
	uint64_t c_end = c->expires_at_ms != 0 ? c->expires_at_ms : UINT64_MAX;
	uint64_t p_end = p->expires_at_ms != 0 ? p->expires_at_ms : UINT64_MAX;

	return model_purposes(c, p) && c_end <= p_end && c->not_before_ms >= p->not_before_ms &&
	       c->issued_at_ms >= p->issued_at_ms;
}

static inline enum chain_fault
model_link(const struct world *w, const struct grant *c, const struct grant *p, bool active)
{
	(void)w;
	return strcmp(c->issuer, p->subject) != 0	      ? CHAIN_issuer_not_parent_subject
	       : strcmp(c->namespace, p->namespace) != 0      ? CHAIN_namespace_mismatch
	       : !active				      ? CHAIN_parent_inactive
	       : !model_capabilities(c, p)		      ? CHAIN_capability_widened
	       : !model_constraints(c, p)		      ? CHAIN_constraints_widened
	       : p->delegation_depth == 0		      ? CHAIN_delegation_not_permitted
	       : !(c->delegation_depth < p->delegation_depth) ? CHAIN_delegation_depth_exceeded
	       : p->bounded ? CHAIN_bounded_parent_not_delegable
			    : CHAIN_ok;
}

static inline enum chain_fault
model_chain(const struct world *w, size_t i)
{
	size_t line[WORLD_MAX + 1], n = 0, k, j;
	enum chain_fault fault = CHAIN_ok;

	for (line[n++] = i; w->g[line[n - 1]].parent != NULL; line[n++] = j) {
		for (j = 0; j < w->n; j++)
			if (w->present[j] && strcmp(w->g[j].id, w->g[line[n - 1]].parent) == 0)
				break;
		if (j == w->n)
			return CHAIN_parent_not_found;
		for (k = 0; k < n; k++)
			if (line[k] == j)
				return CHAIN_cycle;
	}
	for (k = 0; k + 1 < n && fault == CHAIN_ok; k++)
		fault = model_link(w, &w->g[line[k]], &w->g[line[k + 1]],
		    model_open(w, line[k + 1]) && !model_revoked(w, line[k + 1]));
	return fault;
}

static inline bool
model_refused(const struct world *w, const struct requirement *r)
{
	bool refused = false, action;
	size_t i;

	for (i = 0; w->has_ceiling && i < w->ceiling.nrefused; i++) {
		action = strcmp(r->action, "*") == 0 || model_holds(&w->refused[i], r->action);
		refused |= action && model_place(&w->refused[i], &r->path, false) &&
			   strcmp(w->refused[i].namespace, r->namespace) == 0 &&
			   (w->refused[i].owner == NULL ||
			       strcmp(w->refused[i].owner, "human:o") == 0);
	}
	return refused;
}

/* What one grant says to it, alone. */
static inline enum verdict
model_grant(
    const struct world *w, size_t i, const struct requirement *r, enum chain_fault *ret_chain)
{
	const struct grant *g = &w->g[i];
	bool covered = false, purpose = g->purposes == NULL;
	size_t k;

	*ret_chain = CHAIN_ok;
	for (k = 0; k < g->npurposes; k++)
		purpose |= strcmp(g->purposes[k], "work") == 0;
	for (k = 0; k < g->ncapabilities; k++)
		covered |= model_capability(&g->capabilities[k], r);
	if (!covered || !model_call(g, r) || !purpose || strcmp(g->subject, "agent:a") != 0 ||
	    strcmp(g->issuer, "human:h") != 0 || strcmp(g->namespace, "default") != 0 ||
	    !model_open(w, i) || model_revoked(w, i))
		return VERDICT_no_matching_grant;
	*ret_chain = model_chain(w, i);
	if (*ret_chain != CHAIN_ok)
		return *ret_chain == CHAIN_parent_not_found
			   ? VERDICT_delegation_chain_unverified
			   : VERDICT_delegation_chain_invalid;
	if (w->has_ceiling && !w->ceiling.available)
		return VERDICT_host_policy_unavailable;
	if (model_refused(w, r))
		return VERDICT_host_policy_denied;
	return g->bounded && g->spent >= g->max_uses ? VERDICT_grant_exhausted
						     : VERDICT_allowed;
}

/* What the contract says of the whole: TU-34, TU-45, and which grant it is. */
static inline enum verdict
model_decide(const struct world *w, const struct requirement *r, const struct grant **ret,
    enum chain_fault *ret_chain)
{
	static const enum verdict precedence[] = { VERDICT_allowed,
		VERDICT_delegation_chain_unverified, VERDICT_delegation_chain_invalid,
		VERDICT_host_policy_denied, VERDICT_host_policy_unavailable,
		VERDICT_grant_exhausted };
	enum chain_fault chain;
	size_t p, i, best;
	int bounded;

	for (p = 0; p < countof(precedence); p++) {
		for (bounded = 0; bounded < 2; bounded++) {
			best = w->n;
			for (i = 0; i < w->n; i++) {
				if (!w->present[i] ||
				    model_grant(w, i, r, &chain) != precedence[p])
					continue;
				/* Only of what allows the unbounded come first. */
				if (p == 0 && w->g[i].bounded != (bounded == 1))
					continue;
				if (best == w->n || w->order[i] < w->order[best])
					best = i;
			}
			if (best < w->n) {
				model_grant(w, best, r, ret_chain);
				*ret = &w->g[best];
				return precedence[p];
			}
		}
	}
	*ret = NULL;
	*ret_chain = CHAIN_ok;
	return VERDICT_no_matching_grant;
}

#endif /* TESTS_AUTHORITY_WORLD_H */
