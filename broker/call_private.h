/*
 * call: what the two halves of a call share: call_decide.c (up to the record) and call.c
 * (from the record on).
 */
#ifndef BROKER_CALL_PRIVATE_H
#define BROKER_CALL_PRIVATE_H

#include "broker/broker.h"

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

#endif /* BROKER_CALL_PRIVATE_H */
