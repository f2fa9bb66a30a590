/*
 * authority: may this actor do this, now?  TU-33 to TU-46.
 *
 * A pure library: no I/O, no clock, no globals, no allocation inside a decision.  It takes
 * grants, a context, a requirement and two instants, and returns a decision.  Everything
 * in it is unit-tested and property-tested; everything around it is plumbing.
 *
 * What there is of the model: owner, segment paths, exact | descendants, literal actions,
 * subject, issuer, namespace, windows, purposes, bounded uses.  Delegation (TU-46) and the
 * host ceiling (TU-44) have their places in the codes, and nothing else yet.
 */
#ifndef BROKER_AUTHORITY_H
#define BROKER_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTHORITY_CAPABILITIES_MAX 64
#define AUTHORITY_ACTIONS_MAX	   64
#define AUTHORITY_PURPOSES_MAX	   64

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
	const char *owner; /* NULL: the context's */
	struct path path;
	bool descendants; /* else exactly this path */
	const char **actions; /* literal; "*" covers all */
	size_t nactions;
};

struct grant {
	const char *id;
	const char *subject; /* kind:id */
	const char *issuer;
	const char *namespace;
	const struct capability *capabilities;
	size_t ncapabilities;
	uint64_t issued_at_ms; /* wall clock, since 1970 */
	uint64_t not_before_ms; /* 0: none */
	uint64_t expires_at_ms; /* 0: never */
	uint64_t revoked_at_ms; /* 0: not */
	const char **purposes; /* NULL: any */
	size_t npurposes;
	bool bounded;
	uint32_t max_uses; /* with bounded */
	uint32_t spent; /* uses reserved or settled; the caller moves it */
};

struct context {
	const char *actor; /* kind:id */
	const char *authority; /* issuer whose grants count */
	const char *owner;
	const char *namespace;
	const char *purpose;
	uint64_t admitted_at_ms; /* notBefore, issuedAt, purpose are judged at this instant (TU-41) */
};

struct requirement {
	const char *namespace; /* resource namespace */
	const char *owner; /* NULL: the context's (TU-37) */
	struct path path;
	const char *action;
};

enum verdict {
	VERDICT_allowed,
	VERDICT_no_matching_grant,
	VERDICT_grant_exhausted,
	VERDICT_invalid_request,
	VERDICT_invalid_context,
	VERDICT_authority_unavailable,
};

/* Why one grant did not do (audit only). */
enum rejection {
	REJECTION_none,
	REJECTION_issuer,
	REJECTION_subject,
	REJECTION_namespace,
	REJECTION_window,
	REJECTION_revoked,
	REJECTION_purpose,
	REJECTION_capability,
	REJECTION_exhausted,
};

struct decision {
	enum verdict verdict;
	const struct grant *grant; /* with allowed: the one that covers it; with grant_exhausted: the one that would */
	enum rejection nearest; /* the rejection that came furthest, for the record */
};

/*
 * Decides.  Denies by default (TU-33); one requirement must be covered by one capability
 * of one grant (TU-34); among several that do, the first unbounded one, else the first
 * with uses left, in the order given.  Consumes nothing: on allowed with a bounded grant
 * the caller records and moves `spent`.
 */
struct decision authority_decide(const struct grant *grants, size_t n, const struct context *ctx,
    const struct requirement *req, uint64_t now_ms);

/*
 * Could any argument of a tool whose requirement is `action` on `namespace` ever be
 * allowed?  For the effective catalogue (TU-13, TU-43: consumes nothing; a spent bounded
 * grant does not count).
 */
bool authority_discoverable(const struct grant *grants, size_t n, const struct context *ctx,
    const char *namespace, const char *action, uint64_t now_ms);

/*
 * Why a text is no address (kind:id, kind one of human, agent, group, service): "" for a
 * good one, else static text.
 */
const char *address_fault(const char *text);

/* "no_matching_grant", "capability": as in the contract's vocabulary. */
const char *verdict_name(enum verdict v);
const char *rejection_name(enum rejection r);

/* Why a grant cannot be used at all (bounds, empty capabilities, bad path, bad address);
 * "" for a good one.  `ret_field` names the member. */
const char *grant_fault(const struct grant *g, const char **ret_field);

#endif /* BROKER_AUTHORITY_H */
