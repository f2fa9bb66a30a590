/*
 * replay: which calls were made under which key, so that none is made twice (TU-70, D-10).
 *
 * Owns a table of keys.  A key is a digest of namespace, kind, actor and what the caller
 * named it: the key of another actor is another key.  Beside it stands a fingerprint, of all
 * that the call means: tool, arguments, and the requirement that they resolve to, and no time.
 *
 *   pending      its decision is recorded, or on its way there, or it runs
 *   completed    it came back, whatever with, and its answer is still here
 *   expired      it came back; its answer is not here any more
 *   interrupted  it may have happened, and nobody can say
 *
 * Keys are never forgotten while the record lasts: one that were forgotten would run again.
 * When as many are known as may be, calls with a new one are refused, and calls without one
 * are not.  A key becomes free again only if its call provably did not start.  Answers are
 * kept in memory, bounded in bytes, number and time, and losing them loses no fact (D-16).
 */
#ifndef BROKER_REPLAY_H
#define BROKER_REPLAY_H

#include "common/protocol.h"

#define REPLAY_DIGEST_BYTES 32
#define REPLAY_KEYS_MAX	    (1u << 18) /* of a namespace */
/* of a record: a key of a call that did not start is free, and its record may be missing */
#define REPLAY_RECORD_MAX   (2 * REPLAY_KEYS_MAX)
#define REPLAY_ACTOR_MAX    (1u << 16) /* of them, of one actor: no flood shuts out another */
#define REPLAY_BODIES_MAX   4096
#define REPLAY_BYTES_MAX    (16u << 20) /* of all answers */
#define REPLAY_BODY_MS	    3600000 /* how long one is kept */

enum replay_state {
	REPLAY_new,
	REPLAY_conflict, /* the key is another call's */
	REPLAY_pending,
	REPLAY_completed,
	REPLAY_expired,
	REPLAY_interrupted,
	REPLAY_unavailable, /* it is new, and there is no room for it */
};

struct replay;
struct replay_entry;

/* NULL if memory is out. */
struct replay *replay_create(void);
/* NULL is allowed. */
void replay_destroy(struct replay *r);

/*
 * What is known of this key.  REPLAY_completed fills `ret`, a tool.invoke reply whose slices
 * live until the next call of this module; its callId is the first caller's.
 */
enum replay_state replay_look(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], uint64_t now_ms,
    struct msg_tool_invoke_reply *ret);
/* Takes a key that is new: it is pending.  NULL if there is no room for it, or no memory. */
struct replay_entry *replay_begin(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], struct slice actor);

/* Each of these ends `e` as something that its call still holds. */
void replay_free(struct replay *r, struct replay_entry *e); /* it did not start */
void replay_interrupt(struct replay *r, struct replay_entry *e);
/* If its answer cannot be kept it is expired at once. */
void replay_complete(struct replay *r, struct replay_entry *e,
    const struct msg_tool_invoke_reply *reply, uint64_t now_ms);

/* What the record says: it is `state`, expired or interrupted.  Returns 0; -ENOSPC, beyond
 * REPLAY_RECORD_MAX; -ENOMEM. */
int replay_restore(struct replay *r, const uint8_t key[REPLAY_DIGEST_BYTES],
    const uint8_t fingerprint[REPLAY_DIGEST_BYTES], struct slice actor,
    enum replay_state state);

/* "replay_conflict", ...: what the caller is told; NULL for REPLAY_new and _completed. */
const char *replay_code(enum replay_state s);

#endif /* BROKER_REPLAY_H */
