#include "broker/admissions.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/walk.h"

struct admission {
	struct admission_key key;
	char id[ADMISSION_ID_MAX];
};

static size_t total; /* in all tables of this process */

/* ---- a key ---------------------------------------------------------------------------- */

/* Each part has its length before it: no two lists of parts are one. */
static int
key_digest(struct digest *d, const char *method, const char *principal, struct slice session,
    struct slice name, uint8_t ret[ADMISSION_DIGEST_BYTES])
{
	struct buf parts = { 0 };
	int r;

	pack_array(&parts, 4);
	pack_str(&parts, method);
	pack_str(&parts, principal);
	pack_str_n(&parts, session.p, session.n);
	pack_str_n(&parts, name.p, name.n);
	r = parts.failed ? -ENOMEM : digest_value(d, buf_slice(&parts), ret);
	buf_finish(&parts);
	return r;
}

static int
request_digest(struct digest *d, enum msg_type type, const void *m,
    uint8_t ret[ADMISSION_DIGEST_BYTES])
{
	struct buf packed = { 0 };
	int r = protocol_pack(&packed, type, m);

	if (r == 0)
		r = digest_value(d, buf_slice(&packed), ret);
	buf_finish(&packed);
	return r < 0 ? -ENOMEM : 0;
}

int
admission_key_make(struct digest *d, const char *principal, enum msg_type type, const void *m,
    struct admission_key *ret)
{
	const char *method = protocol_desc(type)->method;
	struct msg_operation_submit submit;
	struct msg_session_acquire acquire;
	struct slice session = { 0 }, name;
	const void *meant;

	if (type == MSG_operation_submit) {
		submit = *(const struct msg_operation_submit *)m;
		session = submit.session;
		name = submit.idempotencyKey;
		submit.has_session = submit.has_idempotencyKey = false;
		submit.has_trace = submit.has_messageTrace = false;
		meant = &submit;
	} else {
		assert(type == MSG_session_acquire);
		acquire = *(const struct msg_session_acquire *)m;
		name = acquire.idempotencyKey;
		acquire.has_idempotencyKey = acquire.has_trace = false;
		meant = &acquire;
	}
	if (key_digest(d, method, principal, session, name, ret->key) < 0)
		return -ENOMEM;
	return request_digest(d, type, meant, ret->fingerprint);
}

/* ---- the table ------------------------------------------------------------------------ */

static uint64_t
hash_of(const struct admission_key *k)
{
	uint64_t hash;

	memcpy(&hash, k->key, sizeof hash); /* a keyed digest is as good a hash as there is */
	return hash;
}

static struct admission *
find(const struct admissions *a, const struct admission_key *k)
{
	uint64_t hash = hash_of(k), at = hash;
	struct admission *found;

	if (a->keys.slots == NULL)
		return NULL;
	while ((found = table_next(&a->keys, hash, &at)) != NULL)
		if (memcmp(found->key.key, k->key, sizeof k->key) == 0)
			break;
	return found;
}

void
admissions_finish(struct admissions *a, struct admission_share *whose)
{
	for (size_t i = 0; a->keys.slots != NULL && i <= a->keys.mask; i++)
		free(a->keys.slots[i].item);
	total -= a->keys.n;
	assert(whose != NULL ? whose->keys >= a->keys.n : a->keys.n == 0);
	if (whose != NULL)
		whose->keys -= a->keys.n;
	table_finish(&a->keys);
}

static enum admission_state
room(const struct admissions *a, const struct admission_share *whose)
{
	return a->keys.n >= ADMISSIONS_MAX	      ? ADMISSION_full_table
	       : whose->keys >= ADMISSIONS_SHARE_MAX ? ADMISSION_full_share
	       : total >= ADMISSIONS_TOTAL_MAX	      ? ADMISSION_full_total
						      : ADMISSION_new;
}

enum admission_state
admissions_look(const struct admissions *a, const struct admission_share *whose,
    const struct admission_key *k, const char **ret_id)
{
	const struct admission *found = find(a, k);

	if (found == NULL)
		return room(a, whose);
	if (memcmp(found->key.fingerprint, k->fingerprint, sizeof k->fingerprint) != 0)
		return ADMISSION_other;
	*ret_id = found->id;
	return ADMISSION_same;
}

static int
add(struct admissions *a, struct admission_share *whose, const struct admission_key *k,
    const char *id)
{
	struct admission *new;

	assert(strlen(id) < sizeof new->id);
	if (a->keys.slots == NULL && table_init(&a->keys) < 0)
		return -ENOMEM;
	if (table_reserve(&a->keys, 1) < 0)
		return -ENOMEM;
	new = calloc(1, sizeof *new);
	if (new == NULL)
		return -ENOMEM;
	new->key = *k;
	memcpy(new->id, id, strlen(id));
	table_put(&a->keys, hash_of(k), new);
	whose->keys++;
	total++;
	return 0;
}

int
admissions_add(struct admissions *a, struct admission_share *whose,
    const struct admission_key *k, const char *id)
{
	assert(find(a, k) == NULL);
	return room(a, whose) == ADMISSION_new ? add(a, whose, k, id) : -ENOSPC;
}

void
admissions_remove(
    struct admissions *a, struct admission_share *whose, const struct admission_key *k)
{
	struct admission *found = find(a, k);

	table_remove(&a->keys, hash_of(k), found);
	whose->keys--;
	total--;
	free(found);
}

int
admissions_restore(struct admissions *a, struct admission_share *whose,
    const struct admission_key *k, const char *id)
{
	int r;

	if (find(a, k) != NULL)
		return 0;
	r = add(a, whose, k, id);
	return r < 0 ? r : 1;
}
