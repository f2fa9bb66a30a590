/*
 * turn: the envelope of a turn (TU-10 to TU-18): what it may do, what its runtime is told, its
 * events and annotations, its drain, and what became of it.
 *
 *   turn.c          authority, admission, catalogue, drain
 *   turn_submit.c   what a submission asks of it
 *   turn_request.c  what the runtime is told
 *   turn_result.c   events, annotations, outcome
 *   escalate.c      the ask of a person, which ends it (TU-58 to TU-63)
 */
#ifndef BROKER_TURN_H
#define BROKER_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/authority/authority.h"
#include "common/endings.h"
#include "common/protocol.h"

struct ask;
struct config_tool;
struct grant;
struct operation;

/* refused calls of one turn, then it ends: nobody fills the record */
#define TURN_REFUSALS_MAX    1024
#define TURN_EVENTS_MAX	     100000 /* events a turn may emit, then they are refused */
#define TURN_EVENT_BYTES_MAX (64u << 20)
#define TURN_ANNOTATIONS_MAX (64u << 10) /* bytes of all annotations of a turn */
#define TURN_ANNOTATION_KEYS_MAX 256 /* of them; each new one is compared with all */
/* values in all of them: they share a frame with the output */
#define TURN_ANNOTATION_NODES_MAX 8192

/* What a turn adds to an operation. */
struct turn {
	struct context context; /* strings borrowed from config and the operation */
	char *agent; /* "agent:<runtime id>" */
	char *purpose; /* its own; NULL: the configuration's */
	const char *context_fault; /* code that it is denied with (TU-11), or NULL */
	struct grant *admitted; /* the grant that admits it, held until that is on record */
	bool *asked; /* for each tool of the configuration; NULL: all */
	const struct config_tool **catalogue; /* effective tools */
	size_t ncatalogue;
	struct buf message, state, input_metadata; /* what it is asked; released once sent */
	uint32_t max_steps, max_calls;
	uint32_t calls_counted;
	uint32_t steps_seen; /* distinct declared steps */
	uint8_t steps[1000 / 8]; /* which */
	uint32_t refusals;
	uint32_t run_msgid;
	bool run_sent;
	bool rests; /* its runtime ended it by an outcome, and nothing of it is left to do */
	bool draining;
	bool outage; /* the journal failed before an effect: draining for that reason (TU-55) */
	bool unsafe; /* a non-idempotent write came back other than denied, or runs (TU-56) */
	uint64_t sequence; /* of the next turn event (TU-18) */
	uint64_t last; /* sequence of the last one, which tells the result */
	uint64_t event_bytes;
	uint64_t drain_at_ms;
	struct buf annotations; /* packed key, value pairs */
	uint32_t nannotations;
	struct ask *ask; /* the person's who is asked; then it is how the turn ends */
	uint32_t calls_after_ask;
	/* the result */
	enum ended_by ended_by;
	const char *status; /* "succeeded", ... */
	const char *code; /* "" or the error's code */
	char *code_own; /* a runtime's own code, owned */
	struct buf error_message, output, metadata;
	bool retryable;
};

/* Is it a text of 1 to 256 bytes without control characters? */
bool turn_trace_is_plain(struct slice trace);
/* Its deadline is set, now: when it drains. */
void turn_set_drain(struct operation *op);
/* What is wrong with the form of a submission of a turn (TU-10); NULL: nothing. */
const char *turn_submit_fault(const struct msg_operation_submit *m);
/* Fills op->turn; returns 0 or -ENOMEM. */
int turn_create(struct operation *op, const struct msg_operation_submit *m);
void turn_destroy(struct turn *t);
/* Authority, admission, catalogue; then the worker is asked for, or the turn is denied. */
void turn_admit(struct operation *op);
/* The worker's link is ready. */
void turn_run(struct operation *op);
void turn_on_outcome(struct operation *op, const struct message *m);
void turn_handle_emit(struct operation *op, uint32_t msgid, const struct msg_event_emit *m);
void turn_handle_annotate(
    struct operation *op, uint32_t msgid, const struct msg_turn_annotate *m);
/* New calls are refused from now on (D-9, TU-51, TU-55). */
void turn_drain(struct operation *op, bool outage);
/* While draining: ends the turn once its calls have answered. */
void turn_settle(struct operation *op);
/*
 * Counts one event of the turn and appends its place among them to `body` (NULL: nobody reads
 * it), as a member `event`: id, sequence (from 0, without gaps), type, instant (TU-18).
 */
void turn_event(struct turn *t, struct buf *body, const char *type);
/* Writes what the turn became, from the ending of its operation. */
void turn_conclude(struct operation *op);
/* Appends the {status, output? or error? or escalation?, metadata} map. */
void turn_pack_result(const struct operation *op, struct buf *b);

/* ---- escalate.c ----------------------------------------------------------------------- */

/*
 * The ask by its tool, which `granted` allows: answers it "stop" and lets the runtime end.
 * False if memory is out: nothing has happened.
 */
bool escalate_by_tool(struct operation *op, uint32_t msgid, const struct msg_tool_invoke *m,
    struct grant *granted);
/* The ask as an outcome; false if no grant offers the tool (TU-60). */
bool escalate_by_outcome(struct operation *op, struct slice reason);
/* Records the ask, if there was one, with its turn's ending, and keeps it for the operator. */
void escalate_record(struct operation *op);
/* Appends the map of the ask that there was, for the turn's result. */
void escalate_pack(struct buf *b, const struct operation *op);
void escalate_forget(struct ask *a);

#endif /* BROKER_TURN_H */
