/*
 * standing: does a grant stand, at this instant, for this turn, with the whole chain above
 * it?  TU-39 to TU-42, TU-46, D-7.
 */
#include <assert.h>
#include <string.h>

#include "broker/authority/set_private.h"

/*
 * Two instants (TU-41): what may open a grant is judged when the turn was admitted, what
 * may close it now.  The operation's clock only takes away, so a clock that was set back
 * does not bring a grant to life.  An expiry is the first instant at which it is over.
 * The revision says the same where clocks cannot: what was not there at admission is not
 * seen by that turn (TU-40).
 */
static bool
window_is_open(
    const struct grant *g, uint64_t admitted_at_ms, uint64_t revision, uint64_t now_ms)
{
	uint64_t latest_ms = now_ms > admitted_at_ms ? now_ms : admitted_at_ms;

	return g->issued_revision <= revision && g->issued_at_ms <= admitted_at_ms &&
	       g->not_before_ms <= admitted_at_ms &&
	       (g->expires_at_ms == 0 || latest_ms < g->expires_at_ms);
}

/* Whatever the clock says: a revocation is a fact, and its instant is for the record. */
static bool
is_revoked(const struct grant_set *set, const struct grant *g, uint64_t revision)
{
	if (g->revoked_at_ms == 0)
		return false;
	return set->revocation == REVOCATION_immediate || g->revoked_revision <= revision;
}

static bool
purpose_is_met(const struct grant *g, const char *purpose)
{
	size_t i;

	if (g->purposes == NULL)
		return true;
	for (i = 0; i < g->npurposes; i++)
		if (strcmp(g->purposes[i], purpose) == 0)
			return true;
	return false;
}

bool
grant_is_exhausted(const struct grant *g)
{
	return g->bounded && g->spent >= g->max_uses;
}

struct chain {
	const struct member *member[AUTHORITY_CHAIN_MAX]; /* the used one, its parent, ... */
	size_t n;
};

/*
 * The chain as such, up to its root: before any link of it is judged, as of a chain that
 * is not known to its end nothing is known.
 */
static enum chain_fault
chain_climb(const struct member *m, struct chain *c, const struct grant **ret_link)
{
	size_t i;

	for (c->n = 0; m != NULL; m = m->parent) {
		for (i = 0; i < c->n; i++) {
			if (c->member[i] == m) {
				*ret_link = c->member[c->n - 1]->grant;
				return CHAIN_cycle;
			}
		}
		if (c->n == AUTHORITY_CHAIN_MAX) {
			*ret_link = c->member[c->n - 1]->grant;
			return CHAIN_too_long;
		}
		c->member[c->n++] = m;
	}
	m = c->member[c->n - 1];
	if (m->grant->parent == NULL)
		return CHAIN_ok;
	*ret_link = m->grant;
	return CHAIN_parent_not_found;
}

static enum chain_fault
chain_judge(const struct grant_set *set, const struct member *m, uint64_t admitted_at_ms,
    uint64_t revision, uint64_t now_ms, const struct grant **ret_link)
{
	const struct grant *parent;
	enum chain_fault fault;
	struct chain c;
	size_t i;

	fault = chain_climb(m, &c, ret_link);
	for (i = 0; fault == CHAIN_ok && i + 1 < c.n; i++) {
		parent = c.member[i + 1]->grant;
		*ret_link = c.member[i]->grant;
		fault = c.member[i]->link;
		/* In the order of the vocabulary: what is wider matters of a live parent. */
		if (fault != CHAIN_issuer_not_parent_subject &&
		    fault != CHAIN_namespace_mismatch &&
		    (is_revoked(set, parent, revision) ||
			!window_is_open(parent, admitted_at_ms, revision, now_ms)))
			fault = CHAIN_parent_inactive;
	}
	if (fault == CHAIN_ok)
		*ret_link = NULL;
	return fault;
}

bool
grant_set_within(
    const struct grant_set *set, const struct grant *g, const struct grant *ancestor)
{
	const struct member *m = member_find(set, g->id, strlen(g->id));
	size_t i;

	/* It is out of the set, and a call still runs under it: another has taken its place,
	 * or none.  Ids say where it hung. */
	if (m == NULL || m->grant != g) {
		if (strcmp(g->id, ancestor->id) == 0)
			return true;
		m = g->parent != NULL ? member_find(set, g->parent, strlen(g->parent)) : NULL;
	}
	for (i = 0; m != NULL && i < AUTHORITY_CHAIN_MAX; i++, m = m->parent)
		if (m->grant == ancestor)
			return true;
	return false;
}

enum rejection
member_standing(const struct grant_set *set, const struct member *m, const struct context *ctx,
    uint64_t now_ms, enum chain_fault *ret_chain, const struct grant **ret_link)
{
	const struct grant *g = m->grant;

	*ret_chain = CHAIN_ok;
	*ret_link = NULL;
	if (!window_is_open(g, ctx->admitted_at_ms, ctx->revision, now_ms))
		return REJECTION_window;
	if (is_revoked(set, g, ctx->revision))
		return REJECTION_revoked;
	if (!purpose_is_met(g, ctx->purpose))
		return REJECTION_purpose;
	if (g->parent == NULL)
		return REJECTION_none;
	*ret_chain = chain_judge(set, m, ctx->admitted_at_ms, ctx->revision, now_ms, ret_link);
	return *ret_chain != CHAIN_ok ? REJECTION_delegation : REJECTION_none;
}

enum chain_fault
authority_chain_fault(const struct grant_set *set, const struct grant *g, uint64_t now_ms)
{
	const struct member *m = member_find(set, g->id, strlen(g->id));
	const struct grant *link;

	if (m == NULL || m->grant != g)
		return CHAIN_ok;
	return chain_judge(set, m, now_ms, set->revision, now_ms, &link);
}

enum chain_fault
authority_parent_fault(const struct grant_set *set, const struct grant *parent, uint64_t now_ms)
{
	const struct member *m = member_find(set, parent->id, strlen(parent->id));
	const struct grant *link = NULL;
	enum chain_fault fault;
	struct chain c;

	if (m == NULL || m->grant != parent)
		return CHAIN_parent_not_found;
	if (is_revoked(set, parent, set->revision) ||
	    !window_is_open(parent, now_ms, set->revision, now_ms))
		return CHAIN_parent_inactive;
	fault = chain_judge(set, m, now_ms, set->revision, now_ms, &link);
	if (fault != CHAIN_ok)
		return fault;
	return chain_climb(m, &c, &link) == CHAIN_ok && c.n == AUTHORITY_CHAIN_MAX
		   ? CHAIN_too_long
		   : CHAIN_ok;
}
