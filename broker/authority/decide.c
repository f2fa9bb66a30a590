/*
 * decide: one requirement against grants, deny by default (TU-33 to TU-45).
 */
#include "broker/authority/authority.h"

#include <string.h>

static const char *const verdict_names[] = {
	[VERDICT_allowed] = "allowed",
	[VERDICT_no_matching_grant] = "no_matching_grant",
	[VERDICT_grant_exhausted] = "grant_exhausted",
	[VERDICT_invalid_request] = "invalid_request",
	[VERDICT_invalid_context] = "invalid_context",
	[VERDICT_authority_unavailable] = "authority_unavailable",
};

static const char *const rejection_names[] = {
	[REJECTION_none] = "none",
	[REJECTION_issuer] = "issuer",
	[REJECTION_subject] = "subject",
	[REJECTION_namespace] = "namespace",
	[REJECTION_window] = "window",
	[REJECTION_revoked] = "revoked",
	[REJECTION_purpose] = "purpose",
	[REJECTION_capability] = "capability",
	[REJECTION_exhausted] = "exhausted",
};

static bool
is_empty(const char *text)
{
	return text == NULL || *text == '\0';
}

static bool
context_is_valid(const struct context *c)
{
	return *address_fault(c->actor) == '\0' && *address_fault(c->authority) == '\0' &&
	       *address_fault(c->owner) == '\0' && !is_empty(c->namespace) &&
	       !is_empty(c->purpose);
}

/* A requirement that names another owner is not of this world (TU-37). */
static bool
requirement_is_valid(const struct requirement *r, const struct context *c)
{
	return !is_empty(r->namespace) && !is_empty(r->action) &&
	       (r->owner == NULL || strcmp(r->owner, c->owner) == 0) &&
	       *path_fault(&r->path) == '\0';
}

/*
 * Two instants (TU-41): what may open a grant is judged when the turn was admitted, what
 * may close it now.  The operation's clock only takes away, so a clock that was set back
 * does not bring a grant to life.  An expiry is the first instant at which it is over.
 */
static bool
window_is_open(const struct grant *g, uint64_t admitted_at_ms, uint64_t now_ms)
{
	uint64_t latest_ms = now_ms > admitted_at_ms ? now_ms : admitted_at_ms;

	return g->issued_at_ms <= admitted_at_ms && g->not_before_ms <= admitted_at_ms &&
	       (g->expires_at_ms == 0 || latest_ms < g->expires_at_ms);
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

/* TU-39, in the order of enum rejection. */
static enum rejection
eligible(const struct grant *g, const struct context *c, uint64_t now_ms)
{
	if (strcmp(g->issuer, c->authority) != 0)
		return REJECTION_issuer;
	if (strcmp(g->subject, c->actor) != 0)
		return REJECTION_subject;
	if (strcmp(g->namespace, c->namespace) != 0)
		return REJECTION_namespace;
	if (!window_is_open(g, c->admitted_at_ms, now_ms))
		return REJECTION_window;
	if (g->revoked_at_ms != 0)
		return REJECTION_revoked;
	if (!purpose_is_met(g, c->purpose))
		return REJECTION_purpose;
	return REJECTION_none;
}

/* Everything but the path. */
static bool
capability_concerns(const struct capability *cap, const struct context *c,
    const char *namespace, const char *action)
{
	size_t i;

	if (strcmp(cap->namespace, namespace) != 0)
		return false;
	if (cap->owner != NULL && strcmp(cap->owner, c->owner) != 0)
		return false;
	/* A requested "*" is a literal like any other: only a held one equals it (TU-36). */
	for (i = 0; i < cap->nactions; i++)
		if (strcmp(cap->actions[i], action) == 0 || strcmp(cap->actions[i], "*") == 0)
			return true;
	return false;
}

/* One capability covers the whole requirement, or none does (TU-34). */
static bool
grant_covers(const struct grant *g, const struct context *c, const struct requirement *r)
{
	const struct capability *cap;
	size_t i;

	for (i = 0; i < g->ncapabilities; i++) {
		cap = &g->capabilities[i];
		if (cap->descendants ? !path_within(&r->path, &cap->path)
				     : !path_equal(&r->path, &cap->path))
			continue;
		if (capability_concerns(cap, c, r->namespace, r->action))
			return true;
	}
	return false;
}

static bool
is_exhausted(const struct grant *g)
{
	return g->bounded && g->spent >= g->max_uses;
}

static enum rejection
reject(const struct grant *g, const struct context *ctx, const struct requirement *req,
    uint64_t now_ms)
{
	enum rejection r = eligible(g, ctx, now_ms);

	if (r != REJECTION_none)
		return r;
	if (!grant_covers(g, ctx, req))
		return REJECTION_capability;
	return is_exhausted(g) ? REJECTION_exhausted : REJECTION_none;
}

struct decision
authority_decide(const struct grant *grants, size_t n, const struct context *ctx,
    const struct requirement *req, uint64_t now_ms)
{
	struct decision d = { VERDICT_no_matching_grant, NULL, REJECTION_none };
	enum rejection r;
	size_t i;

	if (!context_is_valid(ctx))
		return (struct decision){ VERDICT_invalid_context, NULL, REJECTION_none };
	if (!requirement_is_valid(req, ctx))
		return (struct decision){ VERDICT_invalid_request, NULL, REJECTION_none };
	if (grants == NULL && n > 0)
		return (struct decision){ VERDICT_authority_unavailable, NULL, REJECTION_none };
	for (i = 0; i < n; i++) {
		r = reject(&grants[i], ctx, req, now_ms);
		if (r == REJECTION_none) {
			if (d.verdict != VERDICT_allowed)
				d = (struct decision){ VERDICT_allowed, &grants[i], r };
			if (!grants[i].bounded) {
				d.grant = &grants[i];
				return d;
			}
		} else if (d.verdict != VERDICT_allowed) {
			if (r == REJECTION_exhausted && d.grant == NULL)
				d = (struct decision){ VERDICT_grant_exhausted, &grants[i], r };
			if (r > d.nearest)
				d.nearest = r;
		}
	}
	return d;
}

bool
authority_discoverable(const struct grant *grants, size_t n, const struct context *ctx,
    const char *namespace, const char *action, uint64_t now_ms)
{
	size_t i, k;

	if (grants == NULL || is_empty(namespace) || is_empty(action) || !context_is_valid(ctx))
		return false;
	for (i = 0; i < n; i++) {
		if (eligible(&grants[i], ctx, now_ms) != REJECTION_none ||
		    is_exhausted(&grants[i]))
			continue;
		for (k = 0; k < grants[i].ncapabilities; k++)
			if (capability_concerns(
				&grants[i].capabilities[k], ctx, namespace, action))
				return true;
	}
	return false;
}

const char *
verdict_name(enum verdict v)
{
	if ((size_t)v >= sizeof(verdict_names) / sizeof(verdict_names[0]))
		return "unknown";
	return verdict_names[v];
}

const char *
rejection_name(enum rejection r)
{
	if ((size_t)r >= sizeof(rejection_names) / sizeof(rejection_names[0]))
		return "unknown";
	return rejection_names[r];
}
