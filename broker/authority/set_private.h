/*
 * set_private: the inside of set.c, decide.c and chain.c.
 *
 *   principal   who gives what to whom where: issuer, subject, namespace.  One node for each
 *               of the three beginnings, so that a denial can say how far it came.
 *   place       (principal, resource namespace, path): what is granted at exactly this
 *               place and, of wider scope, below it.  A decision looks at the places from
 *               the root of the namespace down to the path that is asked for.
 *   offer       (principal, resource namespace, action): what is granted anywhere; discovery.
 *   call        what is bound to one exact call hangs at (principal, resource namespace, tool,
 *               digest) in place of its path, and is offered at (.., tool, action): however
 *               many of them an actor has had, a decision looks at those of its call.
 *   entry       one capability in the list of a place, or one action of it in that of an
 *               offer.  Unbounded grants and bounded ones have a list each, in order.
 */
#ifndef BROKER_AUTHORITY_SET_PRIVATE_H
#define BROKER_AUTHORITY_SET_PRIVATE_H

#include "broker/authority/chain.h"
#include "broker/authority/set.h"
#include "broker/authority/table.h"
#include "common/limits.h"

#define LEVELS_MAX     (PATH_SEGMENTS_MAX + 1) /* the resource namespace, and the segments */
#define ACTION_STAR    0		       /* "*" is the first name that a set knows */
#define ACTION_NONE    UINT32_MAX	       /* of a place */
#define ACTION_UNKNOWN (UINT32_MAX - 1)	       /* a name that no grant has ever held */
#define ACTION_CALL    (UINT32_MAX - 2)	       /* of the place of one exact call */
#define CALL_LEVELS    3		       /* the resource namespace, tool and digest */
#define CALL_OFFER     2		       /* of them, those that an offer of a tool has */

/* Texts one after the other, each with its NUL and with the hash of all up to it. */
struct key {
	size_t n;
	const char *text[LEVELS_MAX];
	uint32_t end[LEVELS_MAX]; /* bytes up to the end of the text and its NUL */
	uint64_t hash[LEVELS_MAX];
};

struct name { /* of an action; never forgotten */
	uint32_t id;
	char text[];
};

struct principal {
	uint64_t hash;
	size_t n;		     /* grants that begin like this */
	struct member *first, *last; /* with all three */
	uint32_t bytes;
	char text[];
};

struct entry_list {
	struct entry *first, *last;
};

struct node { /* a place or an offer */
	uint64_t hash;
	const struct principal *principal;
	struct entry_list list[2]; /* unbounded, bounded */
	uint32_t action;	   /* ACTION_NONE and ACTION_CALL: a place */
	uint32_t bytes;
	char text[]; /* resource namespace and segments */
};

struct entry {
	struct entry *next; /* in its node */
	struct grant *grant;
	struct member *member;
	const char *owner; /* these two are the capability's: one memory less to go to */
	bool descendants;
	uint64_t order; /* of the grant in the set */
	const struct capability *capability;
	struct node *node;
	struct entry *of_member;
	uint32_t nactions;
	uint32_t actions[]; /* ids; none in an offer */
};

struct member {
	struct grant *grant;
	uint64_t order;
	struct principal *principal[3];
	struct member *next; /* of the principal */
	struct entry *entries;
	struct member *parent;		   /* NULL: a root, or an orphan */
	struct member *children, *sibling; /* siblings have a parent, or wait for one */
	enum chain_fault link;		   /* to the parent, whatever the time */
};

struct grant_set {
	enum revocation revocation;
	enum unavailable failed;
	const struct ceiling *ceiling;
	uint64_t revision, order;
	struct table members, names, principals, places, offers;
	struct table orphans; /* of each parent that is not here the first who waits for it */
	uint32_t nnames;
	size_t nchildren; /* members that name a parent */
	size_t ncalls;	  /* members that are bound to one call */
};

/* ---- set.c ---- */

void key_begin(struct key *k);
/* Adds a text of `n` bytes; the key is not full. */
void key_add(struct key *k, uint64_t before, const char *text, size_t n);
/* The principal of the first `level` texts of the key: 1 issuer, 2 subject, 3 namespace. */
struct principal *principal_find(
    const struct grant_set *set, const struct key *k, size_t level);
/* The node in `t` of the first `level` texts of the key. */
struct node *node_find(const struct table *t, const struct key *k, size_t level,
    const struct principal *principal, uint32_t action, uint64_t hash);
/* ACTION_UNKNOWN if no grant has ever held it. */
uint32_t name_find(const struct grant_set *set, const char *text, size_t n);
struct member *member_find(const struct grant_set *set, const char *id, size_t n);
void principal_key(struct key *k, const char *issuer, const char *subject, const char *ns);
/* Of one exact call; `hex` is the key's digest as text, and lives as long. */
void call_key(struct key *k, uint64_t before, const char *namespace, const char *tool,
    const uint8_t digest[AUTHORITY_DIGEST_BYTES], char hex[2 * AUTHORITY_DIGEST_BYTES + 1]);

static inline uint64_t
offer_hash(uint64_t hash, uint32_t action)
{
	return hash_mix(hash, action);
}

/* ---- family.c ---- */

/* Room for one member more; 0, or -ENOMEM.  Then family_join() and family_leave() cannot
 * fail. */
int family_reserve(struct grant_set *set, const struct grant *g);
/* Finds a new member's parent, and its children among those who waited for it. */
void family_join(struct grant_set *set, struct member *m);
void family_leave(struct grant_set *set, struct member *m);

/* ---- standing.c ---- */

bool grant_is_exhausted(const struct grant *g);
/*
 * Does a grant stand, with its chain (TU-39, TU-41, TU-42, TU-46)?  REJECTION_window,
 * _revoked, _purpose or _delegation, with the fault and where it is; REJECTION_none.
 */
enum rejection member_standing(const struct grant_set *set, const struct member *m,
    const struct context *ctx, uint64_t now_ms, enum chain_fault *ret_chain,
    const struct grant **ret_link);

/* ---- cover.c ---- */

/* Everything but the path. */
bool capability_acts(const struct capability *c, const char *action);
bool capability_reaches(const struct capability *c, const struct path *p);
/* What of a requirement one capability lacks; MISSING_none: it covers it. */
enum missing capability_missing(
    const struct capability *c, const struct context *ctx, const struct requirement *req);

enum ceiling_answer { CEILING_passes, CEILING_refuses, CEILING_unavailable };
enum ceiling_answer ceiling_on_requirement(
    const struct ceiling *c, const struct context *ctx, const struct requirement *req);
/* Refuses: everything that a capability could allow of an action (NULL: of all of its own). */
enum ceiling_answer ceiling_on_capability(const struct ceiling *c, const struct context *ctx,
    const struct capability *cap, const char *action);

#endif /* BROKER_AUTHORITY_SET_PRIVATE_H */
