/*
 * call: a tool call of a turn.  call_decide.c: up to its record: checks, decision (TU-19 to
 * TU-29); call.c: from the record on: a second look, dispatch, settle; call_replay.c: one that
 * is made again under its key (TU-70).
 */
#ifndef BROKER_CALL_H
#define BROKER_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

#include "common/protocol.h"

struct broker;
struct child;
struct config_tool;
struct grant;
struct operation;
struct replay_entry;

enum call_state {
	CALL_RECORDING, /* the decision is on its way to the disk */
	CALL_WAITING, /* decided; the provider has no place yet */
	CALL_DISPATCHED,
};

struct call {
	struct operation *operation;
	enum call_state state;
	char id[40]; /* ours; the provider sees no other */
	struct slice name; /* the runtime's id of it */
	struct slice path; /* decided, packed; as the name, behind this */
	const struct config_tool *tool;
	uint32_t msgid; /* of tool.invoke on the worker's link */
	uint32_t provider_msgid; /* of tool.call */
	struct child *provider;
	struct buf arguments; /* packed, until dispatched */
	struct grant *grant; /* decided by; counted in its `users` */
	bool reserved; /* a bounded use is held */
	struct replay_entry *key; /* held until the call is settled; NULL: none was given */
	/* the operation ended while the record was on its way: nobody waits */
	bool interrupted;
	TAILQ_ENTRY(call) link; /* operation.calls */
	/* lane.waiting in CALL_WAITING, child.dispatched in CALL_DISPATCHED */
	TAILQ_ENTRY(call) queue;
};

void call_handle_invoke(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m);
void call_on_result(struct child *provider, const struct message *m);
/* The provider can take calls (again). */
void call_pump(struct child *provider);
/* The provider is gone: its calls are interrupted, what waited waits for the next one. */
void call_on_provider_gone(struct child *provider, bool for_good);
/* The operation ends: every open call is recorded as what it was (D-10). */
void call_interrupt_all(struct operation *op);
/* The releases whose record never became durable; behind journal_destroy(). */
void call_releases_finish(struct broker *b);

#endif /* BROKER_CALL_H */
