#include "broker/authority/chain.h"

#include <string.h>

/* ---- wider or not ---------------------------------------------------------------------- */

static bool
actions_within(const struct capability *inner, const struct capability *outer)
{
	size_t i, k;

	for (i = 0; i < inner->nactions; i++) {
		for (k = 0; k < outer->nactions; k++)
			if (strcmp(outer->actions[k], inner->actions[i]) == 0 ||
			    strcmp(outer->actions[k], "*") == 0)
				break;
		if (k == outer->nactions)
			return false;
	}
	return true;
}

bool
capability_within(const struct capability *inner, const struct capability *outer)
{
	if (strcmp(inner->namespace, outer->namespace) != 0)
		return false;
	/* No owner is that of every context: wider than one that is named (TU-37). */
	if (outer->owner != NULL &&
	    (inner->owner == NULL || strcmp(inner->owner, outer->owner) != 0))
		return false;
	if (outer->descendants ? !path_within(&inner->path, &outer->path)
			       : inner->descendants || !path_equal(&inner->path, &outer->path))
		return false;
	return actions_within(inner, outer);
}

/* Each lies in one of the parent's: several together do not hold one (TU-34). */
static bool
capabilities_within(const struct grant *child, const struct grant *parent)
{
	size_t i, k;

	for (i = 0; i < child->ncapabilities; i++) {
		for (k = 0; k < parent->ncapabilities; k++)
			if (capability_within(
				&child->capabilities[i], &parent->capabilities[k]))
				break;
		if (k == parent->ncapabilities)
			return false;
	}
	return true;
}

static bool
purposes_within(const struct grant *child, const struct grant *parent)
{
	size_t i, k;

	if (parent->purposes == NULL)
		return true;
	if (child->purposes == NULL)
		return false;
	for (i = 0; i < child->npurposes; i++) {
		for (k = 0; k < parent->npurposes; k++)
			if (strcmp(child->purposes[i], parent->purposes[k]) == 0)
				break;
		if (k == parent->npurposes)
			return false;
	}
	return true;
}

static bool
window_within(const struct grant *child, const struct grant *parent)
{
	return child->not_before_ms >= parent->not_before_ms &&
	       (parent->expires_at_ms == 0 ||
		   (child->expires_at_ms != 0 &&
		       child->expires_at_ms <= parent->expires_at_ms));
}

/* ---- at issue -------------------------------------------------------------------------- */

/* An omitted constraint is the parent's, and is written down. */
static struct grant
inherit(const struct grant *parent, const struct grant *child)
{
	struct grant g = *child;

	g.parent = parent->id;
	g.issuer = parent->subject;
	g.namespace = parent->namespace;
	if (g.purposes == NULL) {
		g.purposes = parent->purposes;
		g.npurposes = parent->npurposes;
	}
	if (g.not_before_ms == 0)
		g.not_before_ms = parent->not_before_ms;
	if (g.expires_at_ms == 0)
		g.expires_at_ms = parent->expires_at_ms;
	return g;
}

enum derivation
grant_derive(const struct grant *parent, struct grant *child)
{
	struct grant g = inherit(parent, child);

	if (g.ncapabilities == 0)
		return DERIVATION_empty_capabilities;
	if (strcmp(g.id, parent->id) == 0)
		return DERIVATION_id_collides_with_parent;
	if (parent->delegation_depth == 0)
		return DERIVATION_parent_not_delegable;
	if (g.delegation_depth >= parent->delegation_depth)
		return DERIVATION_depth_exhausted;
	if (!capabilities_within(&g, parent))
		return DERIVATION_capability_not_within_parent;
	if (!purposes_within(&g, parent))
		return DERIVATION_purpose_not_within_parent;
	if (!window_within(&g, parent))
		return DERIVATION_window_not_within_parent;
	if (g.issued_at_ms < parent->issued_at_ms)
		return DERIVATION_issued_before_parent;
	if (parent->bounded)
		return DERIVATION_bounded_parent_not_delegable;
	*child = g;
	return DERIVATION_ok;
}

/* ---- at use ---------------------------------------------------------------------------- */

enum chain_fault
grant_link_fault(const struct grant *child, const struct grant *parent)
{
	if (strcmp(child->issuer, parent->subject) != 0)
		return CHAIN_issuer_not_parent_subject;
	if (strcmp(child->namespace, parent->namespace) != 0)
		return CHAIN_namespace_mismatch;
	if (!capabilities_within(child, parent))
		return CHAIN_capability_widened;
	if (!purposes_within(child, parent) || !window_within(child, parent) ||
	    child->issued_at_ms < parent->issued_at_ms)
		return CHAIN_constraints_widened;
	if (parent->delegation_depth == 0)
		return CHAIN_delegation_not_permitted;
	if (child->delegation_depth >= parent->delegation_depth)
		return CHAIN_delegation_depth_exceeded;
	return parent->bounded ? CHAIN_bounded_parent_not_delegable : CHAIN_ok;
}
