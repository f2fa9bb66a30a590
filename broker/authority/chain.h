/*
 * chain: grants that come from grants (TU-46): what may be derived when it is issued, and
 * what holds when it is used.
 */
#ifndef BROKER_AUTHORITY_CHAIN_H
#define BROKER_AUTHORITY_CHAIN_H

#include "broker/authority/authority.h"

/* Why a grant cannot be derived, in the order in which they are looked for. */
enum derivation {
	DERIVATION_ok,
	DERIVATION_empty_capabilities,
	DERIVATION_id_collides_with_parent,
	DERIVATION_parent_not_delegable,
	DERIVATION_depth_exhausted,
	DERIVATION_capability_not_within_parent,
	DERIVATION_purpose_not_within_parent,
	DERIVATION_window_not_within_parent,
	DERIVATION_issued_before_parent,
	DERIVATION_bounded_parent_not_delegable,
};

/*
 * Makes `child` a grant derived from `parent`: who issues it and where it counts follow
 * from the parent, and a constraint that was left out is the parent's, written down: an
 * omitted one would be a wider one (TU-46).  What it takes over points into the parent.
 * The caller has set id, subject, capabilities, issued_at_ms and what it wants narrower.
 * On anything but DERIVATION_ok `child` is unchanged.  A grant_fault() is not looked for,
 * nor whether the parent's own chain stands: that is authority_parent_fault().
 */
enum derivation grant_derive(const struct grant *parent, struct grant *child);

/* Does everything that `inner` covers lie in `outer`, for every owner of a context? */
bool capability_within(const struct capability *inner, const struct capability *outer);

/*
 * What is wrong between a grant and its parent, whatever the time: anything of enum
 * chain_fault but parent_inactive and what concerns the chain as a whole.
 */
enum chain_fault grant_link_fault(const struct grant *child, const struct grant *parent);

/*
 * Could a child of this grant of the set be used at all, at this instant: does the chain
 * above it stand, and is there a place left in it?  What to ask before deriving.
 */
enum chain_fault authority_parent_fault(
    const struct grant_set *set, const struct grant *parent, uint64_t now_ms);

/*
 * Does the chain above this grant stand, at this instant?  Nothing is said of the grant itself,
 * and CHAIN_ok of one that is not in the set.  For who looks at a grant; calls are decided.
 */
enum chain_fault authority_chain_fault(
    const struct grant_set *set, const struct grant *g, uint64_t now_ms);

/* "capability_not_within_parent": as in the contract's vocabulary. */
const char *derivation_name(enum derivation d);

#endif /* BROKER_AUTHORITY_CHAIN_H */
