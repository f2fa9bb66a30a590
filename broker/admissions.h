/*
 * admissions: which request was admitted under which idempotency key, so that none is admitted
 * twice (OP-38, D-10).
 *
 * Owns a table of keys: those of one session, or the namespace's for session.acquire.  A key is
 * a keyed digest of principal, session and what the client named it, so that another
 * principal's key is another key; beside it stands the fingerprint of the request, and what it
 * became. A key lives as long as its table: one that were forgotten would run again.  It is
 * free again only if its request was never admitted, as the record could not be written.
 *
 * A table takes no memory before its first key.  Keys are bounded for each table, for each
 * principal over all tables, so that none leaves others without, and in all; what the record
 * holds is taken over beyond any bound, as it was within them when it was admitted.
 */
#ifndef BROKER_ADMISSIONS_H
#define BROKER_ADMISSIONS_H

#include "broker/authority/table.h"
#include "broker/digest.h"
#include "common/protocol.h"

#define ADMISSION_DIGEST_BYTES 32
#define ADMISSION_ID_MAX       40 /* bytes of an operation's or session's id, with its NUL */
/* Plain numbers: who is refused is told them. */
#define ADMISSIONS_MAX	       65536 /* of one table */
#define ADMISSIONS_SHARE_MAX   131072 /* of one principal */
#define ADMISSIONS_TOTAL_MAX   1048576 /* of a broker: about 170 bytes each */

/* Starts as zeroes. */
struct admissions {
	struct table keys;
};

/* How many keys a principal has, in all tables.  Starts as zeroes. */
struct admission_share {
	size_t keys;
};

enum admission_state {
	ADMISSION_new,
	ADMISSION_same, /* this request was admitted under it */
	ADMISSION_other, /* another one was: already_exists */
	/* it is new, and there is no room for it: resource_exhausted */
	ADMISSION_full_table,
	ADMISSION_full_share,
	ADMISSION_full_total,
};

/* The key of one request, and what the request means. */
struct admission_key {
	uint8_t key[ADMISSION_DIGEST_BYTES];
	uint8_t fingerprint[ADMISSION_DIGEST_BYTES];
};

/*
 * Of a request `m` of `type`, MSG_operation_submit or MSG_session_acquire, of `principal`: the
 * fingerprint holds all that it asks for, whatever the order of a map's members; not the key,
 * the session, or the trace, which tells this attempt from another.  Returns 0 or -ENOMEM.
 */
int admission_key_make(struct digest *d, const char *principal, enum msg_type type,
    const void *m, struct admission_key *ret);

/* `whose` is the share of all keys that are left in it; NULL: there are none. */
void admissions_finish(struct admissions *a, struct admission_share *whose);
/* What is known of it; ADMISSION_same lends `*ret_id` until the table next changes. */
enum admission_state admissions_look(const struct admissions *a,
    const struct admission_share *whose, const struct admission_key *k, const char **ret_id);
/* Takes a key that is new, for the operation or session `id`.  0; -ENOSPC beyond a bound;
 * -ENOMEM. */
int admissions_add(struct admissions *a, struct admission_share *whose,
    const struct admission_key *k, const char *id);
/* It was never admitted: the key is free.  It must be there. */
void admissions_remove(
    struct admissions *a, struct admission_share *whose, const struct admission_key *k);
/* What the record says: no bound refuses it, and once more is no error.  1: it is there for `id`
 * from now on, and `whose` has one more; 0: it was there, for `id` or another; -ENOMEM. */
int admissions_restore(struct admissions *a, struct admission_share *whose,
    const struct admission_key *k, const char *id);

#endif /* BROKER_ADMISSIONS_H */
