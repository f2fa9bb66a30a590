/*
 * grants: what the record says of grants, beside what the configuration does (standing.h).
 *
 * Owns the grants that an operator issued, and for each id that the record names what became
 * of it, issued or revoked, whoever gave it.  Both kinds meet in the set of the namespace.
 */
#ifndef BROKER_GRANTS_H
#define BROKER_GRANTS_H

#include "broker/authority/set.h"
#include "broker/config.h"

/* Ids of which the record may say something: issued, or a configuration's and revoked. */
#define GRANTS_FACTS_MAX (2 * AUTHORITY_GRANTS_MAX)

struct digest;
struct grants;

/* `digest` is borrowed: what was issued is believed if its keyed digest is right.  NULL if
 * memory is out. */
struct grants *grants_create(struct digest *digest);
/* When nobody decides with its set any more.  NULL is allowed. */
void grants_destroy(struct grants *g);

/*
 * What the record says, as the ledger reads it.  Each may be told twice: a ledger that dies
 * between two pages is followed by one that begins again.  Return 0; -EINVAL, with the
 * reason in `err`, for what no broker of this installation wrote; -ENOSPC, beyond
 * AUTHORITY_GRANTS_MAX, or GRANTS_FACTS_MAX of both; -ENOMEM.
 */
int grants_take_issued(struct grants *g, const struct msg_record *r, char *err, size_t cap);
int grants_take_revoked(struct grants *g, struct slice id, uint64_t at_ms);
/* Of a grant that was issued; false for another, of which nothing is kept here. */
bool grants_take_spent(struct grants *g, struct slice id, uint32_t spent);

/*
 * Brings it all into `set`, which is borrowed and borrows from `g` from now on: what was
 * issued behind what is there, and what is revoked of both.  Returns 0; with the id in `err`
 * -EEXIST, if a grant of it is there already, or -ENOSPC; -ENOMEM.  On failure the set is
 * void.
 */
int grants_attach(struct grants *g, struct grant_set *set, char *err, size_t cap);
/* After grants came into the set from elsewhere: what the record says is revoked is so. */
void grants_reapply(struct grants *g);

/*
 * A grant that was recorded, from now on in the set.  Copies.  Returns 0; -EEXIST; -ENOSPC;
 * -ENOMEM.
 */
int grants_add(struct grants *g, const struct grant *new);
/* The keyed digest of all that was issued.  Returns 0 or -ENOMEM. */
int grants_digest(struct grants *g, const struct grant *grant, uint8_t ret[32]);

/* How many there are, and the one of that number, NULL if the set has none of its id: those
 * that the configuration says, then the record's in the order in which they were issued. */
size_t grants_count(const struct grants *g, const struct config *c);
struct grant *grants_at(const struct grants *g, const struct config *c, size_t i);
/* Is it one of the record's? */
bool grants_issued(const struct grants *g, const struct grant *grant);

/* What is known of one id that is, or was, that of a grant of the record, or of one that was
 * revoked or is being issued; it never moves. */
struct grant_fact {
	struct grant grant; /* with `issued` */
	const char *id;
	bool issued;
	bool reserved;		 /* being issued: nobody else may */
	uint64_t revoked_at_ms;	 /* 0: not */
	struct revoking *open;	 /* its record is not durable yet; the revoker's */
};
/* NULL if there is none. */
struct grant_fact *grants_fact(const struct grants *g, struct slice id);
/* Makes it if there is none; NULL if memory is out. */
struct grant_fact *grants_fact_make(struct grants *g, struct slice id);
/* Of an id that was reserved, and of which nothing stands anywhere. */
void grants_fact_drop(struct grants *g, struct grant_fact *f);
/* The grant of that id in the set, or what is known of it besides: is the id taken? */
bool grants_knows(const struct grants *g, struct slice id);

#endif /* BROKER_GRANTS_H */
