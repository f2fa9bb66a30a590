#include "broker/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "broker/authority/table.h"

/* Who has keys, and how many. */
struct owner {
	size_t n;
	size_t bytes;
	uint8_t actor[];
};

struct replay_entry {
	uint8_t key[REPLAY_DIGEST_BYTES], fingerprint[REPLAY_DIGEST_BYTES];
	enum replay_state state;
	struct owner *owner;
	/* completed */
	struct buf body; /* a packed tool.invoke reply */
	uint64_t until_ms;
	TAILQ_ENTRY(replay_entry) link; /* replay.bodies, in the order of completion */
};

struct replay {
	struct table keys, owners;
	TAILQ_HEAD(, replay_entry) bodies;
	size_t nbodies, bytes;
};

struct replay *
replay_create(void)
{
	struct replay *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	TAILQ_INIT(&r->bodies);
	if (table_init(&r->keys) < 0 || table_init(&r->owners) < 0) {
		replay_destroy(r);
		return NULL;
	}
	return r;
}

void
replay_destroy(struct replay *r)
{
	struct replay_entry *e;

	if (r == NULL)
		return;
	for (size_t i = 0; r->keys.slots != NULL && i <= r->keys.mask; i++) {
		e = r->keys.slots[i].item;
		if (e != NULL)
			buf_finish(&e->body);
		free(e);
	}
	for (size_t i = 0; r->owners.slots != NULL && i <= r->owners.mask; i++)
		free(r->owners.slots[i].item);
	table_finish(&r->keys);
	table_finish(&r->owners);
	free(r);
}

/* ---- keys ------------------------------------------------------------------------------ */

/* A keyed digest is as good a hash as there is. */
static uint64_t
hash_of(const uint8_t key[REPLAY_DIGEST_BYTES])
{
	uint64_t hash;

	memcpy(&hash, key, sizeof hash);
	return hash;
}

static struct replay_entry *
find(const struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES])
{
	uint64_t hash = hash_of(key), at = hash;
	struct replay_entry *e;

	while ((e = table_next(&r->keys, hash, &at)) != NULL)
		if (memcmp(e->key, key, REPLAY_DIGEST_BYTES) == 0)
			break;
	return e;
}

/* There are as many as there are agents, or as a ledger says. */
static struct owner *
owner_get(struct replay *r, struct slice actor)
{
	uint64_t hash = hash_bytes(6, (const char *)actor.p, actor.n), at = hash;
	struct owner *o;

	while ((o = table_next(&r->owners, hash, &at)) != NULL)
		if (slice_equal((struct slice){ o->actor, o->bytes }, actor))
			return o;
	o = table_reserve(&r->owners, 1) == 0 ? calloc(1, sizeof *o + actor.n) : NULL;
	if (o == NULL)
		return NULL;
	o->bytes = actor.n;
	memcpy(o->actor, actor.p, actor.n);
	table_put(&r->owners, hash, o);
	return o;
}

static struct replay_entry *
add(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], struct owner *owner)
{
	struct replay_entry *e;

	if (owner == NULL || table_reserve(&r->keys, 1) < 0)
		return NULL;
	e = calloc(1, sizeof *e);
	if (e == NULL)
		return NULL;
	memcpy(e->key, key, sizeof e->key);
	memcpy(e->fingerprint, fingerprint, sizeof e->fingerprint);
	e->state = REPLAY_pending;
	e->owner = owner;
	owner->n++;
	table_put(&r->keys, hash_of(key), e);
	return e;
}

/* ---- bodies ---------------------------------------------------------------------------- */

static void
expire(struct replay *r, struct replay_entry *e)
{
	TAILQ_REMOVE(&r->bodies, e, link);
	r->nbodies--;
	r->bytes -= e->body.n;
	buf_finish(&e->body);
	e->state = REPLAY_expired;
}

static void
make_room(struct replay *r, size_t bytes, uint64_t now_ms)
{
	struct replay_entry *e;

	while ((e = TAILQ_FIRST(&r->bodies)) != NULL &&
	    (r->nbodies >= REPLAY_BODIES_MAX || r->bytes + bytes > REPLAY_BYTES_MAX ||
		now_ms >= e->until_ms))
		expire(r, e);
}

void
replay_complete(struct replay *r, struct replay_entry *e,
    const struct msg_tool_invoke_reply *reply, uint64_t now_ms)
{
	e->state = REPLAY_expired;
	if (protocol_pack(&e->body, MSG_tool_invoke_reply, reply) < 0 || e->body.failed) {
		buf_finish(&e->body);
		return;
	}
	make_room(r, e->body.n, now_ms);
	e->state = REPLAY_completed;
	e->until_ms = now_ms + REPLAY_BODY_MS;
	TAILQ_INSERT_TAIL(&r->bodies, e, link);
	r->nbodies++;
	r->bytes += e->body.n;
}

/* ---- what a call does ------------------------------------------------------------------ */

enum replay_state
replay_look(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], uint64_t now_ms,
    struct msg_tool_invoke_reply *ret)
{
	struct replay_entry *e = find(r, key);
	struct fault fault;

	if (e == NULL)
		return REPLAY_new;
	if (memcmp(e->fingerprint, fingerprint, REPLAY_DIGEST_BYTES) != 0)
		return REPLAY_conflict;
	if (e->state == REPLAY_completed && now_ms >= e->until_ms)
		expire(r, e);
	if (e->state == REPLAY_completed &&
	    protocol_unpack(e->body.p, e->body.n, MSG_tool_invoke_reply, ret, &fault) < 0)
		expire(r, e);
	return e->state;
}

struct replay_entry *
replay_begin(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], struct slice actor)
{
	struct owner *o = owner_get(r, actor);

	if (r->keys.n >= REPLAY_KEYS_MAX || o == NULL || o->n >= REPLAY_ACTOR_MAX)
		return NULL;
	return add(r, key, fingerprint, o);
}

void
replay_free(struct replay *r, struct replay_entry *e)
{
	table_remove(&r->keys, hash_of(e->key), e);
	e->owner->n--;
	free(e);
}

void
replay_interrupt(struct replay *r, struct replay_entry *e)
{
	(void)r;
	e->state = REPLAY_interrupted;
}

int
replay_restore(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], struct slice actor,
    enum replay_state state)
{
	struct replay_entry *e = find(r, key);

	if (e == NULL && r->keys.n >= REPLAY_RECORD_MAX)
		return -ENOSPC;
	if (e == NULL)
		e = add(r, key, fingerprint, owner_get(r, actor));
	if (e == NULL)
		return -ENOMEM;
	e->state = state;
	return 0;
}

const char *
replay_code(enum replay_state s)
{
	static const char *const codes[] = {
		[REPLAY_conflict] = "replay_conflict",
		[REPLAY_pending] = "replay_pending",
		[REPLAY_expired] = "replay_expired",
		[REPLAY_interrupted] = "replay_interrupted",
		[REPLAY_unavailable] = "replay_unavailable",
		[REPLAY_completed] = NULL,
	};

	return codes[s];
}
