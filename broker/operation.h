/*
 * operation: a turn, a command, or one thing done in a session, from its admission over its
 * numbered events to exactly one ending (D-2).  operation_result.c: what its last event says.
 */
#ifndef BROKER_OPERATION_H
#define BROKER_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "broker/admissions.h"
#include "broker/session.h"
#include "common/control.h"
#include "common/endings.h"
#include "common/protocol.h"

struct broker;
struct call;
struct client;
struct config;
struct feed;
struct payload;
struct principal;
struct sandbox;
struct turn;

#define EVENT_BLOCK   (1u << 20) /* event numbers per durable block (D-11) */
/* of them, for the calls in flight and the ending */
#define BLOCK_RESERVE (SESSION_CALLS_MAX + 16)

struct operation {
	struct broker *broker;
	struct config *config; /* under which it began, and goes on; held */
	struct session *session; /* its owner */
	struct client *client; /* who gets the events; NULL: detached, or: */
	struct feed *feed; /* whoever follows it does; until its terminal event; NULL: none */
	struct principal *owner; /* whose it is; held */
	char id[40];
	char trace[257];
	enum operation_kind kind;
	uint32_t runtime; /* index */
	bool has_input; /* a command with a pipe for its input */
	bool wants_input; /* and more of it may come */
	bool answered; /* its submission is: nothing is told before */
	bool accepted; /* the record is durable and the event is queued */
	uint64_t sequence; /* of the last event */
	uint64_t block_end; /* durable numbers end here */
	bool block_asked;
	uint64_t deadline_at_ms; /* 0: none */
	bool ended; /* its one ending is decided */
	bool settled; /* its record is durable, or cannot be: */
	bool recorded;
	bool told; /* and its terminal event was handed over */
	enum ending ending;
	const char *limit_name; /* with ENDING_limit */
	struct fault fault; /* with ENDING_runtime_protocol_violation */
	enum layer layer; /* with ENDING_start_failed */
	int error;
	uint64_t deaths; /* with LAYER_DEATHS */
	struct exit_facts exit; /* of the worker, as far as known at the end */
	bool used_before; /* and it counts what that used in other turns */
	uint64_t output_bytes;
	struct turn *turn; /* NULL for a command */
	TAILQ_HEAD(, call) calls; /* call.link: open ones */
	uint32_t ncalls;
	size_t call_bytes; /* arguments of calls that are not dispatched yet */
	bool paused; /* the worker's link, at its share */
	uint32_t submit_msgid;
	struct fields common; /* to all its records */
	/* on their way to the disk, with a callback that names this operation */
	unsigned records;
	RB_ENTRY(operation) by_id; /* broker.operation_tree */
	/* in an acquired session (sandbox_queue.c); NULL: in none, and nothing below is used */
	struct sandbox *sandbox;
	struct payload *payload; /* what it does there, until it has begun; NULL: a turn */
	struct admission_key key; /* that it was submitted under, if it was */
	bool has_key; /* and that is among the keys of its session */
	bool queued; /* in sandbox.queue */
	bool at_work; /* a change to a file: its request is the workspace's */
	size_t queued_bytes;
	uint32_t timeout_ms; /* from its start, not from its admission (OP-8) */
	/* a failure that says more than its ending: code and words; NULL: there is none */
	const char *code;
	char failure[256];
	struct buf result; /* packed: what a file operation came to */
	TAILQ_ENTRY(operation) queue; /* sandbox.queue */
};

/*
 * Admits what `m` asks for: records, answers, emits `accepted`, starts.  Refuses by the
 * link's error slot.  OP-7, D-11.
 */
void operation_submit(struct client *c, uint32_t msgid, const struct msg_operation_submit *m);

/* "turn", "command", ...: as protocol.def has it. */
const char *operation_kind_name(enum operation_kind kind);

/* The open operation `id` (any, if `id` is empty); NULL if there is none. */
struct operation *operation_find(struct broker *b, struct slice id);
/* Who gets its events from now on, in place of who did; NULL: nobody. */
void operation_set_client(struct operation *op, struct client *c);

/* Would anybody read an event's body? */
static inline bool
operation_is_heard(const struct operation *op)
{
	return op->client != NULL || op->feed != NULL;
}
/* Sends one event that is not the last; numbered; dropped if nobody listens: then it may do
 * without its body. */
void operation_event(struct operation *op, enum event_type type, const struct buf *body);
void operation_output(struct operation *op, enum stream stream, const uint8_t *p, size_t n);
/*
 * Asks for the next block where half of this one is used: numbers are used only inside a
 * block that is on record, so that a broker that takes over never uses one again (D-11).
 * Again after an outage, in which nothing could be asked for.
 */
void operation_renew_block(struct operation *op);
/* False while a client's queue is too long for more output, those who follow it have not been
 * handed what it has, or there are no numbers for it: pipe_resume() is called in time. */
bool operation_may_output(const struct operation *op);

/*
 * Ends the operation, once: later calls change nothing (D-2).  Records, tells the client
 * after the record, and begins to close the session.
 */
void operation_end(struct operation *op, enum ending ending);
/* Of how it ended, as the client is told; "" of one that is completed. */
const char *operation_code(const struct operation *op);
/* operation_result.c: appends the body of its terminal event. */
void operation_pack_terminal(
    struct buf *b, const struct operation *op, bool completed, bool recorded);
/* After the last record of a session: frees. */
void operation_destroy(struct operation *op);

#endif /* BROKER_OPERATION_H */
