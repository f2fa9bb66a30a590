#include "broker/call_private.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/digest.h"
#include "broker/operation.h"
#include "broker/record.h"
#include "broker/turn.h"
#include "common/walk.h"

/*
 * A call that is made again under its key (TU-70).  It is looked up once it is allowed, so
 * that who may not make it learns nothing; then by its key and what it means, which is
 * everything but when it was made.  What came of it the first time is the answer, and costs
 * nothing a second time.
 */

static int
digest_of(struct operation *op, struct buf *packed, uint8_t ret[REPLAY_DIGEST_BYTES])
{
	int r = packed->failed ? -ENOMEM
			       : digest_value(op->broker->digest, buf_slice(packed), ret);

	buf_finish(packed);
	return r;
}

/* Namespace, kind, actor, key: structurally, so that no two of them read alike. */
static int
key_of(struct operation *op, struct slice key, uint8_t ret[REPLAY_DIGEST_BYTES])
{
	const struct context *c = &op->turn->context;
	struct buf b = { 0 };

	pack_array(&b, 4);
	pack_str(&b, c->namespace);
	pack_str(&b, "tool.invoke");
	pack_str(&b, c->actor);
	pack_str_n(&b, key.p, key.n);
	return digest_of(op, &b, ret);
}

static int
fingerprint_of(
    struct operation *op, const struct judgement *j, uint8_t ret[REPLAY_DIGEST_BYTES])
{
	const struct requirement *need = &j->need.requirement;
	struct buf b = { 0 };

	pack_array(&b, 5);
	pack_str(&b, need->tool);
	pack_bin(&b, j->digest, sizeof j->digest);
	pack_str(&b, need->namespace);
	pack_str(&b, need->action);
	pack_raw(&b, buf_slice(&j->need.path));
	return digest_of(op, &b, ret);
}

void
call_replay_look(struct operation *op, const struct msg_tool_invoke *m,
    const struct judgement *j, struct call_key *ret)
{
	memset(ret, 0, sizeof *ret);
	if (!m->has_idempotencyKey)
		return;
	ret->given = true;
	ret->state = REPLAY_unavailable;
	if (key_of(op, m->idempotencyKey, ret->key) == 0 &&
	    fingerprint_of(op, j, ret->fingerprint) == 0)
		ret->state = replay_look(op->broker->replay, ret->key, ret->fingerprint,
		    op->broker->now_ms, &ret->reply);
}

static const char *const messages[] = {
	[REPLAY_conflict] = "this key was another call's: use a new one",
	[REPLAY_pending] = "this call is being made: its answer is not here yet",
	[REPLAY_expired] = "this call was made, and its answer is not kept any more",
	[REPLAY_interrupted] = "this call was made, and nobody can say whether it happened",
	[REPLAY_unavailable] = "there is no room for another key, so nothing is done",
};

const char *
call_replay_message(enum replay_state state)
{
	return messages[state];
}

void
call_replay_answer(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct call_key *k)
{
	struct msg_tool_invoke_reply reply = k->reply;
	struct record r;

	record_init(&r, op->broker, op, "tool.replayed");
	RECORD_SLICE(&r.m, callId, m->id);
	RECORD_SLICE(&r.m, tool, m->tool);
	RECORD_SLICE(&r.m, key, ((struct slice){ k->key, sizeof k->key }));
	r.m.has_outcome = r.m.has_source = true;
	r.m.outcome = reply.status == call_status_succeeded ? record_outcome_succeeded
							    : record_outcome_failed;
	r.m.source = record_source_kernel;
	record_append(&r, JOURNAL_EFFECT, NULL, NULL);
	reply.callId = m->id;
	call_answer(op, msgid, &reply);
}

void
call_replay_settle(struct call *c, enum replay_state state,
    const struct msg_tool_invoke_reply *reply)
{
	struct broker *b;

	if (c->key == NULL)
		return;
	b = c->operation->broker;
	if (state == REPLAY_completed)
		replay_complete(b->replay, c->key, reply, b->now_ms);
	else if (state == REPLAY_new)
		replay_free(b->replay, c->key);
	else
		replay_interrupt(b->replay, c->key);
	c->key = NULL;
}
