/*
 * authority: may this actor do this, now?  TU-33 to TU-49.
 *
 * A pure library: no I/O, no clock, no globals, no allocation inside a decision.  It takes
 * a set of grants (set.h), a context, a requirement and an instant, and returns a decision.
 * Everything in it is unit-tested and property-tested; everything around it is plumbing.
 * How grants come from grants is chain.h.
 */
#ifndef BROKER_AUTHORITY_H
#define BROKER_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTHORITY_CAPABILITIES_MAX 64
#define AUTHORITY_ACTIONS_MAX	   64
#define AUTHORITY_PURPOSES_MAX	   64
#define AUTHORITY_CHAIN_MAX	   16 /* grants, from the one that is used to its root */
#define AUTHORITY_GRANTS_MAX	   (1u << 20)
#define AUTHORITY_DIGEST_BYTES	   32

/* A path is segments; none is the root of its namespace. */
struct path {
	const char **segment;
	size_t n;
};

/*
 * Why a path is not one (TU-35): "" for a good one, else static text, e.g. "a segment is
 * empty", "a segment is . or ..", "a segment holds a separator or control character",
 * "too many segments", "a segment is too long", "not UTF-8".
 */
const char *path_fault(const struct path *p);

/*
 * Splits `text` at '/' into `ret`, whose arrays the caller frees with path_finish().
 * "" and "." are the root; one trailing slash is allowed; a leading slash is not.
 * Returns 0; -EINVAL with `*ret_fault` set; -ENOMEM.
 */
int path_parse(const char *text, size_t n, struct path *ret, const char **ret_fault);
void path_finish(struct path *p);
/* a equals b; a is at or below b.  By segment, never by string prefix. */
bool path_equal(const struct path *a, const struct path *b);
bool path_within(const struct path *a, const struct path *b);

struct capability {
	const char *namespace; /* resource namespace */
	const char *owner;     /* NULL: the context's */
	struct path path;
	bool descendants;     /* else exactly this path */
	const char **actions; /* literal; "*" covers all */
	size_t nactions;
};

/* TU-38.  Whoever owns it changes nothing but `spent` and `users` while it is in
 * a set. */
struct grant {
	const char *id;
	const char *subject; /* kind:id */
	const char *issuer;
	const char *namespace;
	const char *parent; /* id of the grant that it was derived from; NULL: a root */
	const struct capability *capabilities;
	size_t ncapabilities;
	uint64_t issued_at_ms;	/* wall clock, since 1970 */
	uint64_t not_before_ms; /* 0: none */
	uint64_t expires_at_ms; /* 0: never */
	uint64_t revoked_at_ms; /* 0: not; moved by grant_set_revoke() */
	const char **purposes;	/* NULL: any */
	size_t npurposes;
	uint32_t delegation_depth; /* links that may hang below it; 0: it cannot be delegated */
	bool bounded;
	/*
	 * For one exact call, once: of this tool, with arguments of this digest; NULL: any.
	 * One that is so bound has maxUses 1 and cannot be delegated.
	 */
	const char *tool;
	uint8_t digest[AUTHORITY_DIGEST_BYTES];
	uint32_t max_uses; /* with bounded */
	uint32_t spent;	   /* uses reserved or settled; the caller moves it */
	uint32_t users;	   /* calls and releases that name it; for its owner, as `spent` */
	uint64_t issued_revision, revoked_revision; /* of the set; kept by it */
};

struct context {
	const char *actor;     /* kind:id */
	const char *authority; /* issuer whose grants count */
	const char *owner;
	const char *namespace;
	const char *purpose;
	/* A turn has the authority that it was admitted with (TU-40, TU-41): the instant that
	 * judges notBefore and issuedAt, and grant_set_revision() of then. */
	uint64_t admitted_at_ms;
	uint64_t revision;
};

struct requirement {
	const char *namespace; /* resource namespace */
	const char *owner;     /* NULL: the context's (TU-37) */
	struct path path;
	const char *action;
	/* The call that it is of, for grants that are bound to one; NULL: it is of none. */
	const char *tool;
	const uint8_t *digest; /* of its arguments: AUTHORITY_DIGEST_BYTES */
};

enum verdict {
	VERDICT_allowed,
	VERDICT_no_matching_grant,
	VERDICT_grant_exhausted,
	VERDICT_host_policy_denied,
	VERDICT_delegation_chain_invalid,
	VERDICT_invalid_request,
	VERDICT_invalid_context,
	/* We could not know, so nobody may: the fail-closed set. */
	VERDICT_host_policy_unavailable,
	VERDICT_delegation_chain_unverified,
	VERDICT_authority_unavailable,
};

/*
 * Why one grant did not do (audit only), in the order of nearness: the later, the less is
 * missing.  The last three are the reasons that are told before a plain denial (TU-45).
 */
enum rejection {
	REJECTION_none,
	REJECTION_issuer,
	REJECTION_subject,
	REJECTION_namespace,
	REJECTION_capability,
	REJECTION_window,
	REJECTION_revoked,
	REJECTION_purpose,
	REJECTION_exhausted,
	REJECTION_host_policy,
	REJECTION_delegation,
};

/* With REJECTION_capability: the first thing that its nearest capability lacks. */
enum missing {
	MISSING_none,
	MISSING_resource, /* the resource namespace */
	MISSING_path,
	MISSING_action,
	MISSING_owner,
	MISSING_call, /* it is bound to another one */
};

/* With REJECTION_delegation: what is wrong with its chain (TU-46). */
enum chain_fault {
	CHAIN_ok,
	/* invalid */
	CHAIN_issuer_not_parent_subject,
	CHAIN_namespace_mismatch,
	CHAIN_parent_inactive,
	CHAIN_capability_widened,
	CHAIN_constraints_widened,
	CHAIN_delegation_not_permitted,
	CHAIN_delegation_depth_exceeded,
	CHAIN_bounded_parent_not_delegable,
	CHAIN_cycle,
	CHAIN_too_long,
	/* unverified */
	CHAIN_parent_not_found,
};

/* With VERDICT_authority_unavailable: what became of the grants (audit only, TU-40). */
enum unavailable {
	UNAVAILABLE_none,
	UNAVAILABLE_grant_source_failed,
	UNAVAILABLE_invalid_grant_material,
	UNAVAILABLE_grant_scope_mismatch,
	UNAVAILABLE_grant_limit_exceeded,
};

/* A decision is its own explanation. */
struct decision {
	enum verdict verdict;
	/* allowed: the grant that covers it; grant_exhausted, host_policy_*, delegation_*: the
	 * one that would; else NULL. */
	struct grant *grant;
	enum rejection nearest;	     /* the reason of the grant that came closest */
	const struct grant *closest; /* that grant; NULL if none is for this actor at all */
	enum missing missing;
	enum chain_fault chain;
	const struct grant *link; /* with a chain fault: the grant at whose parent it broke */
	enum unavailable unavailable;
};

struct grant_set;

/*
 * Decides.  Denies by default (TU-33); one requirement must be covered by one capability
 * of one grant (TU-34), whose chain holds up to its root (TU-42, TU-46).  Among several
 * that do, the first unbounded one, else the first with uses left, in the order in which
 * they came into the set.  The ceiling is asked before a use counts (TU-44).  Consumes
 * nothing: on allowed with a bounded grant the caller records and moves `spent`.  A parent
 * is never bounded, so one use of one grant is all that a chain costs.
 *
 * Its time depends on the depth of the path and on the grants of this actor that have the
 * same path, and on no other grant; what is bound to one call is looked up by that call.
 * NULL for a set that could not be had.
 *
 * `closest` is found by looking at a bounded number of grants: where no path covers the
 * requirement it is a near one, not always the nearest.
 */
struct decision authority_decide(const struct grant_set *set, const struct context *ctx,
    const struct requirement *req, uint64_t now_ms);

/*
 * The second look, when the decision is on the disk and before its effect: does the grant
 * that allowed it, with its whole chain, still stand (D-7)?  Its uses and the ceiling are
 * not asked again, as the use is held already.
 */
struct decision authority_recheck(const struct grant_set *set, const struct grant *g,
    const struct context *ctx, uint64_t now_ms);

/*
 * Could any argument of `tool`, whose requirement is `action` on `namespace`, be allowed?
 * VERDICT_allowed, or what would be told instead.  For the effective catalogue (TU-13,
 * TU-43: consumes nothing; a spent grant does not count, and what the ceiling refuses
 * altogether is not offered).  A grant for one exact call offers its tool and no other;
 * `tool` NULL leaves such grants out.
 */
enum verdict authority_discover(const struct grant_set *set, const struct context *ctx,
    const char *tool, const char *namespace, const char *action, uint64_t now_ms);

/* Where authority_reach() stands; begins as zeroes. */
struct reach {
	const void *member;
	size_t capability;
	bool begun;
};

/*
 * The next capability that the actor could use now, or NULL: of grants that stand, have
 * uses left, and which the ceiling does not refuse altogether (TU-47).  What is bound to one
 * call is left out: its capability alone would say more than it allows.  The set may not
 * change meanwhile.
 */
const struct capability *authority_reach(
    const struct grant_set *set, const struct context *ctx, uint64_t now_ms, struct reach *at);

/*
 * Why a text is no address (kind:id, kind one of human, agent, group, service): "" for a
 * good one, else static text.
 */
const char *address_fault(const char *text);

/* "no_matching_grant", "capability": as in the contract's vocabulary. */
const char *verdict_name(enum verdict v);
const char *rejection_name(enum rejection r);
const char *missing_name(enum missing m);
const char *chain_fault_name(enum chain_fault f);
const char *unavailable_name(enum unavailable u);
/* Was it refused because something could not be known? */
bool verdict_fails_closed(enum verdict v);

/*
 * What was missing, in one word for the record: the chain's fault, what the capability
 * lacks, why there is no authority, else the rejection.
 */
const char *decision_cause(const struct decision *d);
/* What the closest grant lacks, or the id of the grant at whose parent its chain breaks; NULL
 * if there is no more to say. */
const char *decision_detail(const struct decision *d);

/* Why a capability is none; "" for a good one.  `ret_field` names the member. */
const char *capability_fault(const struct capability *c, const char **ret_field);

/* Why a grant cannot be used at all (bounds, empty capabilities, bad path, bad address);
 * "" for a good one.  `ret_field` names the member. */
const char *grant_fault(const struct grant *g, const char **ret_field);

#endif /* BROKER_AUTHORITY_H */
