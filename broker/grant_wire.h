/*
 * grant_wire: a grant as it travels and as it stands in the record, and back.
 *
 * What is read is checked in form (kinds, unknown members, NULs, counts); whether it makes a
 * grant is grant_fault()'s to say.  Everything read lies in the zone that is given, and what
 * was read before a failure stays there.
 */
#ifndef BROKER_GRANT_WIRE_H
#define BROKER_GRANT_WIRE_H

#include "broker/authority/authority.h"
#include "broker/zone.h"

/*
 * A packed list of strings, at most `max`.  Returns 0; -EINVAL with what is wrong in
 * `ret_rule` (static text); -ENOMEM.
 */
int grant_read_texts(struct zone *z, struct slice list, size_t max, const char ***ret,
    size_t *ret_n, const char **ret_rule);

/*
 * The capabilities or the purposes of `g`.  Return 0; -EINVAL with member and rule in `err`
 * ("capabilities[2].path: a segment is empty"); -ENOMEM.
 */
int grant_read_capabilities(
    struct zone *z, struct slice list, struct grant *g, char *err, size_t cap);
int grant_read_purposes(
    struct zone *z, struct slice list, struct grant *g, char *err, size_t cap);
/* The grant of a record grant.issued, and as those two; also -EINVAL for a grant_fault(). */
int grant_read_record(struct zone *z, const struct msg_record *r, struct grant *ret, char *err,
    size_t cap);

/* Appends one as a map; without its owner for who need not know. */
void grant_pack_capability(struct buf *b, const struct capability *c, bool owner);
/* Append a packed list. */
void grant_pack_capabilities(struct buf *b, const struct grant *g);
void grant_pack_purposes(struct buf *b, const struct grant *g);

/* What grant.list says beside the grant itself. */
struct grant_facts {
	const char *origin; /* "configuration", "record" */
	const char *state;  /* "active", ...: docs/PROTOCOL.md */
};
/*
 * Appends the grant as a map.  With `facts` NULL only what was issued: the form of which the
 * record has a keyed digest, and which must never change for a grant that exists.
 */
void grant_pack(struct buf *b, const struct grant *g, const struct grant_facts *facts);

/* "active", "pending", "expired", "revoked", "exhausted": of the grant itself, whatever became
 * of its parent. */
const char *grant_state(const struct grant *g, uint64_t now_ms);

#endif /* BROKER_GRANT_WIRE_H */
