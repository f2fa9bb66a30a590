/*
 * standing: the grants that the configuration gives, as they stand in the namespace's set.
 *
 * They are copies, which outlive the configuration that they were read from: what the next
 * one says again, word for word, stays the same grant, for every turn that knows it.  What
 * it says no more is revoked as the set revokes (D-7: at once, or for the next turn).  What
 * it says otherwise is another grant of that id: turns that were admitted before see neither.
 * The uses that are spent go by the id and outlive all of that (D-10).
 *
 * What others put into the set (the operator, through the record) is not looked at, but for
 * its ids: no two grants of a set have one.
 */
#ifndef BROKER_STANDING_H
#define BROKER_STANDING_H

#include "broker/authority/set.h"
#include "broker/config.h"

/* Grants that do not stand and of which uses are known. */
#define STANDING_MEMORIES_MAX (2 * AUTHORITY_GRANTS_MAX)

struct standing;

/* None stands yet.  The set is borrowed.  NULL if memory is out. */
struct standing *standing_create(struct grant_set *set);
/* When nobody decides with the set any more.  NULL is allowed. */
void standing_destroy(struct standing *s);

/*
 * From now on the grants of `c`, generation `generation`, stand and no others of ours, and its
 * ceiling is the set's, for which `c` outlives the decisions: all of it, or nothing.  `at_ms`
 * is when those that are gone were revoked.  Returns 0; -EEXIST, and in `*ret_id` (of `c`)
 * whose id a grant of somebody else has; -ENOSPC; -ENOMEM, before anything has changed; -EIO
 * if memory went out where there was no way back: the set has failed.
 */
int standing_replace(struct standing *s, const struct config *c, uint64_t generation,
    uint64_t at_ms, const char **ret_id);

/* No turn of a generation before `oldest` is left: what was kept for them is freed. */
void standing_forget(struct standing *s, uint64_t oldest);

/*
 * What the record says that is spent of the grant `id`, whether or not it stands now.
 * 0; -ENOMEM; -ENOSPC, beyond STANDING_MEMORIES_MAX.
 */
int standing_spent(struct standing *s, struct slice id, uint32_t spent);
/*
 * Gives back a use of `g`, which may have left the set since it was spent: uses go by the id,
 * so that whoever has its place, or what is kept of it, has it back.
 */
void standing_give_back(struct standing *s, struct grant *g);
/* Does a grant of this id stand, or is anything kept of one that did? */
bool standing_knows(const struct standing *s, struct slice id);

#endif /* BROKER_STANDING_H */
