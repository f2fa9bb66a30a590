/*
 * set: all grants of a namespace, with an index over them.
 *
 * The set refers to grants and never owns one: each outlives its place in the set, and what
 * the index reads of it (everything but `spent`) does not change but through the set.  It
 * is changed between decisions, by the one thread that decides.
 */
#ifndef BROKER_AUTHORITY_SET_H
#define BROKER_AUTHORITY_SET_H

#include "broker/authority/authority.h"

/* When a revocation counts (D-7). */
enum revocation {
	REVOCATION_immediate, /* for every decision from now on */
	REVOCATION_next_turn, /* for what is admitted from now on */
};

/*
 * What the host refuses, whatever is granted (TU-44): a requirement that one of these
 * capabilities covers.  As it is data that only ever refuses, it can neither allow
 * anything nor say anything but host_policy_denied and host_policy_unavailable.
 */
struct ceiling {
	bool available; /* false: everything that would be allowed is refused */
	const struct capability *refused;
	size_t nrefused;
};

/* An empty set; NULL if memory is out. */
struct grant_set *grant_set_create(enum revocation revocation);
/* NULL is allowed.  The grants are left alone. */
void grant_set_destroy(struct grant_set *set);

/*
 * Adds a grant, as the last in order, and gives it its revision.  Parents and children may
 * come in any order.  Returns 0; -EINVAL if it has a grant_fault(); -EEXIST if there is one
 * of its id; -ENOSPC at AUTHORITY_GRANTS_MAX; -ENOMEM.  On failure nothing has changed.
 */
int grant_set_add(struct grant_set *set, struct grant *g);
/* Takes out what was added, as if it had never been there.  Its children have no parent. */
void grant_set_remove(struct grant_set *set, struct grant *g);
/* Revokes a grant of the set; the first time counts.  `at_ms` is for the record of it. */
void grant_set_revoke(struct grant_set *set, struct grant *g, uint64_t at_ms);

/*
 * Something about the grants could not be had or believed: from here on every decision is
 * authority_unavailable, whatever another grant would allow (TU-40, TU-42).  A set does
 * not recover; a new one is made from good material.
 */
void grant_set_fail(struct grant_set *set, enum unavailable cause);
/* The ceiling stays the caller's; NULL: there is none. */
void grant_set_ceiling(struct grant_set *set, const struct ceiling *c);

/* The grant of that id, whose text need not end with a NUL; NULL if there is none. */
struct grant *grant_set_find(const struct grant_set *set, const char *id, size_t n);
/* Is `g` this grant, or derived from it, at any depth that a chain in the set can have?  One
 * that was taken out of the set is found by its id and its parent's. */
bool grant_set_within(
    const struct grant_set *set, const struct grant *g, const struct grant *ancestor);
size_t grant_set_size(const struct grant_set *set);
/* Grows with every grant that comes and every one that is revoked; for struct context. */
uint64_t grant_set_revision(const struct grant_set *set);

#endif /* BROKER_AUTHORITY_SET_H */
