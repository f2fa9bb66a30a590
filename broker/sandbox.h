/*
 * sandbox: what a client acquires and calls its session: one workspace, one queue of
 * operations that run one at a time, and a lease if it asked for one (D-1, OP-5, OP-28).
 *
 *   sandbox.c          all that are known: show, list, heartbeat
 *   sandbox_acquire.c  how one comes to be, and comes back with the next broker
 *   sandbox_release.c  drain, immediate, a lease that is over: up to the record of its end
 *   sandbox_queue.c    what is admitted into it, and when that begins
 *   payload.c          what an operation in it does, if it is no turn
 *   workspace.c        the files of its workspace: the child that serves them
 *
 * The word `session` is taken, inside the broker, by the processes of one operation.
 * A sandbox lives from its acquisition to the end of the ring of closed ones, and no
 * operation outlives it.
 */
#ifndef BROKER_SANDBOX_H
#define BROKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/tree.h>

#include "broker/admissions.h"
#include "broker/client.h"
#include "broker/feed.h"
#include "common/alarm.h"
#include "common/control.h"
#include "common/protocol.h"

struct broker;
struct child;
struct config;
struct operation;
struct principal;
struct record;

#define SANDBOX_ID	    24 /* bytes of "s-", 16 hex digits and the NUL */
#define SANDBOX_CLOSED_KEPT 256 /* that are over and still shown, in all */
#define SANDBOX_WAITING_MAX 64 /* requests of one client that wait for a session */
/* bytes of operations that wait, in all sessions */
#define SANDBOX_QUEUED_BYTES_MAX (256u << 20)

struct workspace;

/* What somebody waits for. */
enum waits {
	WAITS_ACQUIRED,
	WAITS_EXISTING, /* the same, and it was acquired before, under the same key */
	WAITS_RELEASED,
};

/* Renewed by heartbeats alone; `until_ms` is of the monotonic clock and never moves back. */
struct lease {
	uint32_t ms; /* 0: there is none */
	uint64_t until_ms;
};

static inline void
lease_renew(struct lease *l, uint64_t now_ms)
{
	if (l->ms != 0 && now_ms + l->ms > l->until_ms)
		l->until_ms = now_ms + l->ms;
}

static inline bool
lease_is_over(const struct lease *l, uint64_t now_ms)
{
	return l->ms != 0 && now_ms >= l->until_ms;
}

/* May one more be admitted?  The one that runs does not wait (OP-9). */
static inline bool
queue_has_room(unsigned waiting, bool runs, uint32_t max)
{
	return waiting < (uint64_t)max + !runs;
}

struct sandbox {
	struct broker *broker;
	uint64_t number; /* its workspace's, too */
	uint64_t serial; /* in the order of acquisition, from 1, of this broker */
	char id[SANDBOX_ID];
	char *runtime; /* its id: the configuration may change under it */
	struct principal *owner; /* held, and it counts this one while it is open */
	char *trace; /* of its operations that bring none; NULL: each its own */
	enum operation_kind kind; /* of the runtime */
	bool has_workspace;
	bool has_files; /* and it is there: the supervisor made it, or found it */
	enum sandbox_state state;
	enum release_mode mode; /* while it is closing */
	const char *detail; /* of its release: how that came, static */
	uint64_t acquired_at_ms, ended_at_ms; /* wall clock */
	uint32_t timeout_ms, queue_max; /* of its operations */
	struct lease lease;
	struct alarm alarm; /* its lease's */
	TAILQ_HEAD(, operation) queue; /* operation.queue: admitted, not begun */
	unsigned queued;
	struct operation *running; /* until its processes are gone */
	uint64_t admitted; /* operations, so far */
	bool recording; /* its acquisition, or release, is on its way to the disk */
	bool has_open_prior; /* an operation of it was open when the broker before us ended */
	bool has_key;
	struct admission_key key; /* that it was acquired under: known as long as it is */
	struct feed_list feeds; /* of its operations: what clients read of them */
	struct admissions keys; /* under which those were submitted */
	struct child *resting; /* the worker of its turns, while none runs; NULL: none */
	bool awaited; /* and the turn that runs waits for the end of it */
	struct workspace *workspace; /* NULL: nobody needs its files now */
	TAILQ_HEAD(waitings, waiting) waiting; /* who is answered when it is ready, or over */
	RB_ENTRY(sandbox) by_number, by_serial; /* of all that are known */
	TAILQ_ENTRY(sandbox) closed; /* the ring of those that are over */
};

extern const struct refusal refusal_no_session;

static inline bool
sandbox_is_over(const struct sandbox *sb)
{
	return sb->state == sandbox_state_closed || sb->state == sandbox_state_failed;
}

/* ---- all of them ------------------------------------------------------------------------ */

/* NULL if memory is out. */
struct sandboxes *sandboxes_create(void);
/* After the loop: frees every one. */
void sandboxes_finish(struct broker *b);
/* How many are not over, and how many operations wait in them. */
size_t sandboxes_open(const struct broker *b);
size_t sandboxes_queued(const struct broker *b);
/* While the broker ends: tells the children that serve files to go; true if none is left. */
bool sandboxes_stop_all(struct broker *b);
/* No worker rests any longer: the broker ends. */
void sandboxes_end_rest(struct broker *b);
/* b->config is another one: of the workers that rest those stay that it makes the same way. */
void sandboxes_on_config(struct broker *b);
/* The supervisor knows it: they go over to it. */
void sandboxes_on_taken(struct broker *b);
/* The supervisor is gone, and they with it. */
void sandboxes_orphan_all(struct broker *b);
/* By its id, of any principal; NULL if none is known. */
struct sandbox *sandbox_find(struct broker *b, struct slice id);
/* Likewise, if `c` may know it. */
struct sandbox *sandbox_find_for(struct client *c, struct slice id);

/* session.*: of any client. */
void sandbox_handle(struct client *c, const struct message *m);
/* Whatever it asked for, nobody waits for it. */
void sandbox_forget_client(struct client *c);

/* ---- sandbox_acquire.c ------------------------------------------------------------------ */

void sandbox_handle_acquire(struct client *c, const struct message *m);
/* CONTROL_WORKSPACE_MADE, _GONE, _FOUND. */
void sandbox_on_workspace(struct broker *b, const struct control *c);
/* One of a broker before us, from its record: comes back with its lease anew.  0, -EINVAL if
 * that is no such record, -ENOMEM.  It may be told twice. */
int sandbox_restore(struct broker *b, const struct msg_record *m);
/* Of a record about it. */
void sandbox_record_init(struct record *r, const struct sandbox *sb, const char *type);

/* ---- sandbox_release.c ------------------------------------------------------------------ */

void sandbox_handle_release(struct client *c, const struct message *m);
/* Something of it may have been the last: then the release is recorded. */
void sandbox_check(struct sandbox *sb);
/* Its lease has to be looked at. */
void sandbox_on_alarm(void *arg);

/* ---- sandbox.c, for its neighbours ------------------------------------------------------ */

/* The number in "s-<16 hex digits>"; 0: it is none. */
uint64_t sandbox_id_number(struct slice id);
/* The one of that number; NULL if none is known. */
struct sandbox *sandbox_numbered(struct broker *b, uint64_t number);
/* Of nothing yet but whose and of which runtime; known from here on.  NULL if memory is out. */
struct sandbox *sandbox_create(
    struct broker *b, uint64_t number, struct slice runtime, struct principal *owner);
/* It is over, on record or not: into the ring. */
void sandbox_close(struct sandbox *sb, bool recorded);
/* Answers, or refuses with `no`, whoever waits for it. */
void sandbox_answer(struct sandbox *sb, const struct refusal *no);
/* Answers who came last, now. */
void sandbox_answer_last(struct sandbox *sb);
/* One more who is answered then; false, and refused, if that is one too many. */
bool sandbox_wait(struct sandbox *sb, struct client *c, uint32_t msgid, enum waits what);

/* ---- sandbox_queue.c -------------------------------------------------------------------- */

/*
 * May `c` submit `m` into the session that it names?  NULL: yes, with the session and the
 * index of its runtime; else why not.
 */
const struct refusal *sandbox_refusal(struct client *c, const struct msg_operation_submit *m,
    struct sandbox **ret, int *ret_runtime);
/* The smallest of the session's, the configuration's and what is asked for (OP-8). */
uint32_t sandbox_timeout_ms(const struct sandbox *sb, const struct config *config,
    const struct msg_operation_submit *m);
/* It is admitted, and its record on its way: it waits. */
void sandbox_enqueue(struct operation *op);
/* `accepted` is told: it may begin when its turn comes (OP-7). */
void sandbox_next(struct sandbox *sb);
/* The worker that rested is gone: what waited for that goes on. */
void sandbox_on_rested(struct sandbox *sb);
/* A command: its worker has said hello, and is told what to become; what it answers is that it
 * cannot. */
void sandbox_run_command(struct operation *op);
void sandbox_on_command(struct operation *op, const struct message *m);
/* It has its ending: what waited never runs (OP-33). */
void sandbox_on_ended(struct operation *op);
/* Its processes are gone, and it is about to be: the next begins. */
void sandbox_on_over(struct operation *op);

#endif /* BROKER_SANDBOX_H */
