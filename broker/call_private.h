/*
 * call: what the two halves of a call share: call_decide.c (up to the record) and call.c
 * (from the record on).
 */
#ifndef BROKER_CALL_PRIVATE_H
#define BROKER_CALL_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/call.h"
#include "broker/judge.h"
#include "broker/replay.h"
#include "common/protocol.h"

/* The tool of that name, if it is in the turn's catalogue; NULL. */
const struct config_tool *call_tool(const struct operation *op, struct slice name);
/* Answers the worker, if it is there, and tells the client. */
void call_answer(
    struct operation *op, uint32_t msgid, const struct msg_tool_invoke_reply *reply);
/* Takes the call out of its operation's open ones. */
void call_close(struct call *c);
/* Frees; NULL is allowed. */
void call_destroy(struct call *c);
/* journal_fn of a call's decision: `arg` is the call. */
void call_on_record(void *arg, bool ok);

/* ---- call_replay.c -------------------------------------------------------------------- */

/* What the key of a call, if it was given one, says of it. */
struct call_key {
	bool given;
	enum replay_state state;
	uint8_t key[REPLAY_DIGEST_BYTES], fingerprint[REPLAY_DIGEST_BYTES];
	struct msg_tool_invoke_reply reply; /* completed */
};

void call_replay_look(struct operation *op, const struct msg_tool_invoke *m,
    const struct judgement *j, struct call_key *ret);
/* For every state that is an answer but REPLAY_completed, whose answer is the first one. */
const char *call_replay_message(enum replay_state state);
void call_replay_answer(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    const struct call_key *k);
/*
 * The call that holds a key, if it does, is over: REPLAY_completed with its answer, REPLAY_new
 * (its effect did not start), or REPLAY_interrupted.
 */
void call_replay_settle(
    struct call *c, enum replay_state state, const struct msg_tool_invoke_reply *reply);

#endif /* BROKER_CALL_PRIVATE_H */
