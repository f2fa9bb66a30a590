/*
 * names: the vocabulary of the contract, a word for each value.
 */
#include "broker/authority/authority.h"
#include "broker/authority/chain.h"
#include "common/util.h"

static const char *const verdict_names[] = {
	[VERDICT_allowed] = "allowed",
	[VERDICT_no_matching_grant] = "no_matching_grant",
	[VERDICT_grant_exhausted] = "grant_exhausted",
	[VERDICT_host_policy_denied] = "host_policy_denied",
	[VERDICT_delegation_chain_invalid] = "delegation_chain_invalid",
	[VERDICT_invalid_request] = "invalid_request",
	[VERDICT_invalid_context] = "invalid_context",
	[VERDICT_host_policy_unavailable] = "host_policy_unavailable",
	[VERDICT_delegation_chain_unverified] = "delegation_chain_unverified",
	[VERDICT_authority_unavailable] = "authority_unavailable",
};

static const char *const rejection_names[] = {
	[REJECTION_none] = "none",
	[REJECTION_issuer] = "issuer",
	[REJECTION_subject] = "subject",
	[REJECTION_namespace] = "namespace",
	[REJECTION_capability] = "capability",
	[REJECTION_window] = "window",
	[REJECTION_revoked] = "revoked",
	[REJECTION_purpose] = "purpose",
	[REJECTION_exhausted] = "exhausted",
	[REJECTION_host_policy] = "host_policy",
	[REJECTION_delegation] = "delegation",
};

static const char *const missing_names[] = {
	[MISSING_none] = "none",
	[MISSING_resource] = "resource",
	[MISSING_path] = "path",
	[MISSING_action] = "action",
	[MISSING_owner] = "owner",
	[MISSING_call] = "call",
};

static const char *const chain_names[] = {
	[CHAIN_ok] = "none",
	[CHAIN_issuer_not_parent_subject] = "issuer_not_parent_subject",
	[CHAIN_namespace_mismatch] = "namespace_mismatch",
	[CHAIN_parent_inactive] = "parent_inactive",
	[CHAIN_capability_widened] = "capability_widened",
	[CHAIN_constraints_widened] = "constraints_widened",
	[CHAIN_delegation_not_permitted] = "delegation_not_permitted",
	[CHAIN_delegation_depth_exceeded] = "delegation_depth_exceeded",
	[CHAIN_bounded_parent_not_delegable] = "bounded_parent_not_delegable",
	[CHAIN_cycle] = "chain_cycle",
	[CHAIN_too_long] = "chain_too_long",
	[CHAIN_parent_not_found] = "parent_not_found",
};

static const char *const unavailable_names[] = {
	[UNAVAILABLE_none] = "none",
	[UNAVAILABLE_grant_source_failed] = "grant_source_failed",
	[UNAVAILABLE_invalid_grant_material] = "invalid_grant_material",
	[UNAVAILABLE_grant_scope_mismatch] = "grant_scope_mismatch",
	[UNAVAILABLE_grant_limit_exceeded] = "grant_limit_exceeded",
};

static const char *const derivation_names[] = {
	[DERIVATION_ok] = "none",
	[DERIVATION_empty_capabilities] = "empty_capabilities",
	[DERIVATION_id_collides_with_parent] = "id_collides_with_parent",
	[DERIVATION_parent_not_delegable] = "parent_not_delegable",
	[DERIVATION_depth_exhausted] = "depth_exhausted",
	[DERIVATION_capability_not_within_parent] = "capability_not_within_parent",
	[DERIVATION_purpose_not_within_parent] = "purpose_not_within_parent",
	[DERIVATION_window_not_within_parent] = "window_not_within_parent",
	[DERIVATION_issued_before_parent] = "issued_before_parent",
	[DERIVATION_bounded_parent_not_delegable] = "bounded_parent_not_delegable",
};

#define NAME(names, value) ((size_t)(value) < countof(names) ? names[value] : "unknown")

const char *
verdict_name(enum verdict v)
{
	return NAME(verdict_names, v);
}

const char *
rejection_name(enum rejection r)
{
	return NAME(rejection_names, r);
}

const char *
missing_name(enum missing m)
{
	return NAME(missing_names, m);
}

const char *
chain_fault_name(enum chain_fault f)
{
	return NAME(chain_names, f);
}

const char *
unavailable_name(enum unavailable u)
{
	return NAME(unavailable_names, u);
}

const char *
derivation_name(enum derivation d)
{
	return NAME(derivation_names, d);
}

bool
verdict_fails_closed(enum verdict v)
{
	return v == VERDICT_host_policy_unavailable ||
	       v == VERDICT_delegation_chain_unverified || v == VERDICT_authority_unavailable;
}

const char *
decision_cause(const struct decision *d)
{
	if (d->unavailable != UNAVAILABLE_none)
		return unavailable_name(d->unavailable);
	if (d->nearest == REJECTION_delegation)
		return chain_fault_name(d->chain);
	return rejection_name(d->nearest);
}

const char *
decision_detail(const struct decision *d)
{
	if (d->missing != MISSING_none)
		return missing_name(d->missing);
	return d->link != NULL ? d->link->id : NULL;
}
