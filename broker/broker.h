/*
 * broker: what the broker's files share: its objects, who owns them, and how one reaches
 * the next.
 *
 *   broker.c       what one consists of, from its beginning to its end
 *   control.c      the control link to the supervisor
 *   state.c        the ledger's answer at the start; what the broker before us left open
 *   client.c       clients: submit, attach, stop, signal, input; who may send what
 *   principal.c    who a client is (principal.h)
 *   grants.c       what the record says of grants, beside the configuration (grants.h);
 *   grants_issue.c     the operator gives one, grants_revoke.c: takes one away,
 *   grants_ask.c       lists them, and asks what would be decided
 *   reload.c       the configuration, and one that follows it
 *   stats.c        how often what has happened (stats.h)
 *   process.c      what the supervisor says of the processes, for the operator
 *   operation.c    admission, numbered events, exactly one ending (D-2);
 *   operation_result.c what its last event says
 *   sandbox.c      what a client acquires and calls a session: a queue, a workspace
 *                  (sandbox.h, payload.h, workspace.h)
 *   session.c      one operation's worker and providers, from asked for to reaped;
 *   session_events.c   what the supervisor and their links say of them
 *   rest.c         a turn's worker between two turns (rest.h)
 *   provider.c     a provider's process: a session's own, or one for all
 *   place.c        the calls that it runs at once: who waits, whose turn it is, what is lost
 *   turn.c         the envelope of a turn: authority, catalogue, drain (TU-10 to TU-18);
 *   turn_submit.c      what a submission asks of it;
 *   turn_request.c     what the runtime is told;
 *   turn_result.c      its events, annotations and outcome
 *   judge.c        what is decided of a call, whoever asks (judge.h);
 *   escalate.c     the ask of a person, which ends a turn (TU-58 to TU-63)
 *   call_replay.c  a call that is made again under its key (TU-70)
 *   call_decide.c  a tool call up to its record: checks, decision (TU-19 to TU-29);
 *   call.c             from the record on: a second look, dispatch, settle
 *   attach.c       who comes back to an operation, or asks what became of it
 *   feed.c         what clients can read of an operation (feed.h);
 *   subscriber.c       who follows it, past.c: how it ended as far as the record has it;
 *   event_log.c    what is kept of an operation's events (event_log.h)
 *   admissions.c   what was admitted under which key (admissions.h)
 *   command.c      standard streams of a worker, in both directions
 *   record.c       records of the journal; digest.c: the keyed digests in them
 *
 * Everything runs on one event_base in one thread; objects are freed by their owner, and
 * never from below a callback of their own (link.h's rule; a session goes by its alarm).
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "broker/admissions.h"
#include "broker/authority/authority.h"
#include "broker/authority/set.h"
#include "broker/config.h"
#include "broker/digest.h"
#include "broker/escalations.h"
#include "broker/grants.h"
#include "broker/journal.h"
#include "broker/pace.h"
#include "broker/principal.h"
#include "broker/replay.h"
#include "broker/standing.h"
#include "broker/stats.h"
#include "common/alarm.h"
#include "common/control.h"
#include "common/endings.h"
#include "common/link.h"
#include "common/protocol.h"

/* calls of one session in flight; then its link is not read (its share) */
#define SESSION_CALLS_MAX    256
#define SESSION_BYTES_MAX    (8u << 20) /* of their arguments, likewise */
/* bytes a provider has not read, before it gets more calls */
#define PROVIDER_QUEUE_MAX   (1u << 20)
/* refused calls of one turn, then it ends: nobody fills the record */
#define TURN_REFUSALS_MAX    1024
#define TURN_EVENTS_MAX	     100000 /* events a turn may emit, then they are refused */
#define TURN_EVENT_BYTES_MAX (64u << 20)
#define TURN_ANNOTATIONS_MAX (64u << 10) /* bytes of all annotations of a turn */
#define TURN_ANNOTATION_KEYS_MAX 256 /* of them; each new one is compared with all */
/* values in all of them: they share a frame with the output */
#define TURN_ANNOTATION_NODES_MAX 8192
/* bytes queued for a client before streams are not read */
#define OUTPUT_QUEUE_MAX     (1u << 20)
#define SESSIONS_MAX	     4096 /* of one broker: workers at once, and acquired sessions */
#define EVENT_BLOCK	     (1u << 20) /* event numbers per durable block (D-11) */
/* of them, for the calls in flight and the ending */
#define BLOCK_RESERVE	     (SESSION_CALLS_MAX + 16)
#define PROVIDER_STARTS_MAX  4 /* of one session's provider, then its calls fail */
#define EXIT_HALF_MS	     1000 /* how long end-of-file and exit report wait for each other */

/* Functions of a tree, in one file, of which it may use a few. */
#define TREE_GENERATE(name, type, field, compare) \
	RB_GENERATE_INTERNAL(name, type, field, compare, static __attribute__((unused)))

struct event;
struct broker;
struct client;
struct feed;
struct feeds;
struct operation;
struct session;
struct sandbox;
struct sandboxes;
struct payload;
struct workspace;
struct waiting;
struct request;
struct call;
struct late;
struct shared;

/* One end of a standard stream of a worker. */
struct pipe {
	int fd; /* -1: none, or closed */
	struct event *event;
	enum stream stream;
	struct child *child;
};

enum child_state {
	CHILD_ABSENT,
	CHILD_ASKED, /* CONTROL_SPAWN sent */
	CHILD_RUNNING, /* CONTROL_STARTED came */
	CHILD_GONE, /* CONTROL_EXIT or CONTROL_REFUSED came */
};

/* What waits at one provider for one session, and what that runs there. */
struct lane {
	TAILQ_HEAD(, call) waiting; /* call.queue: decided, and no place at the provider yet */
	unsigned running; /* dispatched, and waited for */
	TAILQ_ENTRY(lane) entry; /* child.lanes, while something waits */
};

/* A worker or provider of a session, or a provider of all of them. */
struct child {
	struct broker *broker;
	struct session *session; /* NULL: a shared provider, or a worker that rests */
	struct shared *shared; /* then: which it is one of */
	const struct config *config; /* its operation's; of a shared provider its own */
	uint64_t number; /* its session's; of one that is in none, one of its own */
	uint64_t workspace; /* that its chamber may show; 0: none */
	enum child_kind kind;
	uint32_t index; /* into the runtimes or providers of `config` */
	enum child_state state;
	bool linked; /* CONTROL_LINK came */
	bool killed; /* CONTROL_KILL sent */
	struct exit_facts exit; /* in CHILD_GONE */
	struct link *link; /* NULL before CONTROL_LINK and after its end */
	struct pipe in, out, err;
	struct buf input; /* bytes for `in` */
	size_t input_done; /* of them, written */
	uint64_t signals; /* a command's: mask of what waits for CONTROL_STARTED */
	/* providers only */
	size_t logged_bytes; /* of its standard error, from the instant on: */
	uint64_t logged_from_ms;
	unsigned starts; /* of a shared one, since the last hello */
	unsigned running; /* places in use: calls dispatched and not answered */
	unsigned lost; /* of them, by calls that outlived their turn and the kill grace (D-9) */
	unsigned nwaiting; /* calls in all lanes */
	TAILQ_HEAD(, lane) lanes; /* with calls that wait: whose turn is next stands first */
	TAILQ_HEAD(, call) dispatched; /* call.queue */
	TAILQ_HEAD(, late) late; /* what names a result that nobody waits for */
	struct alarm alarm;
	/* its link is at its end, and its exit is not reported: killed then; 0: neither */
	uint64_t half_at_ms;
	/* shared ones only */
	bool wanted; /* to be made when its pause is over */
	uint32_t pause_ms;
	uint64_t again_at_ms; /* not made before; 0: at once */
	uint64_t born_at_ms;
	uint64_t hello_by_ms; /* 0: it has said it, or is not there */
	uint64_t stop_at_ms; /* the broker ends: killed then; 0: it does not, or is gone */
	/* workers only (rest.h) */
	RB_ENTRY(child) by_number; /* broker.workers, unless it is absent */
	bool turns; /* its hello said so: it serves one after the other */
	unsigned served; /* turns before this one */
	struct sandbox *rests_in; /* where `session` is NULL */
	unsigned frames; /* that came while it rests */
	bool leaves; /* it rests no longer: killed when its alarm comes */
};

/* One worker with its providers; lives until all of them are reaped (D-1). */
struct session {
	struct broker *broker;
	uint64_t id; /* never used twice by a broker */
	struct operation *operation; /* owned */
	struct child *worker; /* owned */
	/* one of each per configured provider; CHILD_ABSENT if unused or shared */
	struct child *providers;
	struct lane *lanes;
	struct shared *shared; /* providers that sessions of one configuration have in common */
	bool closing; /* the operation has ended; children are going */
	uint64_t kill_at_ms; /* when closing: the tree is killed then; 0: was */
	/* one half of the worker's end has come; the other is given up then; 0: none */
	uint64_t half_at_ms;
	struct alarm alarm; /* the next instant that matters */
	TAILQ_ENTRY(session) link; /* broker.sessions */
	RB_ENTRY(session) by_id; /* broker.session_tree */
};

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

struct client {
	struct broker *broker;
	struct link *link;
	/* as the kernel gave them to the supervisor (D-14); UID_NONE: of the gateway's */
	uint32_t uid, gid, pid;
	struct principal *principal; /* held; NULL: a stranger, or not proven yet */
	struct proof proof; /* what made it that */
	bool gateway; /* it is carried: only principal.prove says who it is */
	bool full; /* its principal has as many links as it may: it is nobody */
	bool cut; /* it is not that principal any more, and its link is ending */
	unsigned proofs_failed;
	/* came through the daemon's socket: the supervisor wants to know its end */
	bool counted;
	struct event *silence; /* until hello: then it is dropped; NULL: it may take its time */
	bool listing; /* process.list is not answered yet */
	LIST_HEAD(, waiting) waiting; /* for sessions: sandbox.c */
	unsigned nwaiting;
	LIST_HEAD(, request) requests; /* for files: workspace_requests.c */
	TAILQ_HEAD(, subscriber) subscriptions; /* operations in sessions that it follows */
	unsigned nsubscriptions;
	struct pace pace; /* at which it reads, as what it follows sees it */
	unsigned noperations; /* of which it alone gets the events: operation.client */
	TAILQ_ENTRY(client) entry; /* broker.clients */
};

struct broker {
	struct event_base *base;
	struct alarms *alarms;
	struct config *config; /* of what begins now; held */
	struct config *replaced; /* until its successor is on record; held; else NULL */
	TAILQ_HEAD(, config) configs; /* all that anybody holds, oldest first */
	struct grant_set *grant_set;
	struct standing *standing; /* those of its grants that the configuration gave */
	struct journal *journal; /* NULL until the state has arrived */
	const struct journal_io *journal_io;
	struct link *ledger;
	struct control_link *control;
	struct digest *digest;
	struct escalations escalations;
	struct grants *grants;
	TAILQ_HEAD(, issue) issues; /* grants whose record is on its way */
	size_t nissues;
	TAILQ_HEAD(, revoking) revocations; /* whose record is not durable yet */
	TAILQ_HEAD(, release) releases; /* of uses, likewise */
	struct replay *replay;
	struct stats stats;
	struct buf scratch; /* for one event's body; empty between uses */
	struct buf record; /* likewise for one record */
	uint64_t now_ms; /* read once per loop turn: broker_tick() */
	uint64_t next_session; /* and next shared provider */
	bool ready;
	bool shutting_down;
	bool settled;
	bool late; /* what is not on record by now never will be */
	TAILQ_HEAD(, shared) shared; /* of each configuration that something began under */
	TAILQ_HEAD(, session) sessions;
	RB_HEAD(session_tree, session) session_tree; /* the same, by number */
	RB_HEAD(worker_tree, child) workers; /* theirs, and those that rest, by their number */
	RB_HEAD(operation_tree, operation) operation_tree; /* theirs, by id */
	size_t nsessions; /* of them, without a sandbox */
	size_t queued_bytes; /* of what waits in sandboxes */
	RB_HEAD(workspace_tree, workspace) workspaces; /* with a child, by its number */
	struct sandboxes *sandboxes;
	struct admissions acquired; /* keys of session.acquire */
	TAILQ_HEAD(, client) clients;
	unsigned gateway_links; /* of them */
	TAILQ_HEAD(, principal) principals;
	/* process.c: who waits for CONTROL_PROCESSES, in order */
	STAILQ_HEAD(, listing) listings;
	struct feeds *feeds;
	void (*on_journal)(struct broker *b); /* the journal and its thread exist */
	/* nothing is open after CONTROL_SHUTDOWN, or nothing can be */
	void (*on_settled)(struct broker *b);
};

/* ---- broker.c ------------------------------------------------------------------------- */

/*
 * Makes what a broker consists of and takes its control link; `b` is zeroes but for config,
 * journal_io and the callbacks.  Returns 0; -ENOSPC if there are more grants than may be;
 * -ENOMEM; what control_open() says.  A broker that could not be made is not finished: its
 * process ends.
 */
int broker_init(struct broker *b, int control_fd);
/* After the loop. */
void broker_finish(struct broker *b);
/* Reads the clock for this loop turn. */
void broker_tick(struct broker *b);
/* The prefix, "-" and 32 hex digits, into 40 bytes: randomness of this process and a count. */
void broker_mint(char id[40], const char *prefix);

/* ---- control.c ------------------------------------------------------------------------ */

/* Takes `fd`.  Returns 0 or a negative errno. */
int control_open(struct broker *b, int fd);
void control_close(struct broker *b);
/* Sends now or queues; a supervisor that is gone is met by control.c's own end-of-file.  An
 * order that cannot even be queued ends the broker, as that does, and is no clean end. */
void control_tell(struct broker *b, const struct control *c);
bool control_is_lost(const struct broker *b);

/* ---- state.c -------------------------------------------------------------------------- */

/* Takes the link to the ledger: asks for the state if there is no journal yet. */
void state_ledger(struct broker *b, int fd);
/* Takes a segment that came before or after the state. */
void state_segment(struct broker *b, int fd, uint64_t number, uint64_t reserved_bytes);
void state_no_segment(struct broker *b, int error);
/* state_grants.c: what a page says of grants; 0 or a negative errno.  It may be told twice. */
int state_grants_read(struct broker *b, const struct msg_state_load_reply *page);
/* state_asks.c: likewise of asks and of keys. */
int state_asks_read(struct broker *b, const struct msg_state_load_reply *page);
/* Calls `fn` for each map of the list.  Returns 0, what `fn` returned, or -EINVAL. */
int state_each_map(
    struct broker *b, struct slice list, int (*fn)(struct broker *, struct slice));
/* All of it is here: into the set.  On false it was logged, and the broker settles. */
bool state_grants_attach(struct broker *b);

/* ---- client.c ------------------------------------------------------------------------- */

/* Why something is not done, as a link's error slot has it. */
struct refusal {
	const char *code, *message;
	bool retryable;
};

extern const struct refusal refusal_not_ready, refusal_no_journal, refusal_no_memory;

static inline void
refusal_send(struct client *c, uint32_t msgid, const struct refusal *no)
{
	link_refuse(c->link, msgid, no->code, no->message, no->retryable);
}

/* Takes `fd`; the rest is CONTROL_CLIENT's. */
void client_create(struct broker *b, int fd, const struct control *c);

/* ---- attach.c ------------------------------------------------------------------------- */

/* operation.attach, operation.list, operation.show. */
void attach_handle(struct client *c, const struct message *m);
/*
 * Before anything else of a submission into a session that `c` may use, as a retry is answered
 * whatever has become of the session: answers, and returns true, if something came under its
 * key before, or it may have none (OP-38, D-10).  Else nothing is known of its key, if it has
 * one: `ret_key`.
 */
bool attach_by_key(struct client *c, uint32_t msgid, const struct msg_operation_submit *m,
    struct admission_key *ret_key);
/* Of a new key for which there is no room: which bound that is, and what helps. */
const struct refusal *attach_no_room(enum admission_state state);
/* Makes the feed of an operation in a session, with `c` following it, and takes its key (NULL: it
 * has none).  0, -ENOSPC or -ENOMEM: attach_forget() undoes it. */
int attach_submitter(
    struct operation *op, struct client *c, const struct admission_key *key);
/* It is not admitted, and never will be: its key is free, and who waits for it is refused. */
void attach_forget(struct operation *op, const struct refusal *no);

/* ---- reload.c ------------------------------------------------------------------------- */

/* b->config is there: its grants stand from now on.  0, -ENOSPC or -ENOMEM. */
int reload_start(struct broker *b);
void reload_finish(struct broker *b);
/* CONTROL_CONFIG: takes `fd`, checks all of it, and decides by it from now on, or says why
 * not. */
void reload_on_config(struct broker *b, const struct control *c, int fd);
/* The journal's patience, as it is configured now. */
void reload_set_stall(struct broker *b);
/* An operation that began under it is over. */
void reload_release(struct broker *b, struct config *c);

/* ---- process.c ------------------------------------------------------------------------ */

/* Asks the supervisor what lives here; the rows and the reply follow. */
void process_list(struct client *c, uint32_t msgid);
/* CONTROL_PROCESSES: takes `fd`, -1 for none. */
void process_on_list(struct broker *b, int fd, int error);
/* Whatever it asked for, nobody waits for it. */
void process_forget(struct client *c);
/* At the end of the broker. */
void process_finish(struct broker *b);

/* ---- grants_issue.c, grants_revoke.c, grants_ask.c -------------------------------------- */

/* grant.issue, grant.revoke, grant.list, grant.why: of an operator's client (D-18). */
void grants_handle(struct client *c, const struct message *m);
/* The journal can be written again, or cannot. */
void grants_on_journal(struct broker *b);
/* Whatever it asked for, nobody waits for it. */
void grants_forget(struct client *c);
/* At the end of the broker. */
void grants_finish(struct broker *b);

/* ---- operation.c ---------------------------------------------------------------------- */

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

/* ---- session.c ------------------------------------------------------------------------ */

struct session *session_create(struct broker *b, struct operation *op);
void session_start(struct session *s);
void session_on_link(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned nfds);
void session_on_started(struct broker *b, const struct control *c);
void session_on_refused(struct broker *b, const struct control *c);
void session_on_exit(struct broker *b, const struct control *c);
/* Does it serve calls, and is of no session or one of a session's helpers? */
static inline bool
child_serves(const struct child *c)
{
	return c->kind == CHILD_PROVIDER || c->kind == CHILD_WORKSPACE;
}
/* The operation has ended: children are told, then killed after `grace_ms`. */
void session_close(struct session *s, uint64_t grace_ms);
/*
 * Reads the worker's link or leaves it: while its share of calls is full, or its client (a
 * pager, a slow terminal) has more to read than it should, what it wants stays in its socket.
 */
void session_flow(struct session *s);
/* What a worker that is gone has written was just read, or may be read again. */
void session_streams_moved(struct session *s);
/* Sets the alarm to the next instant that matters to this session. */
void session_arm(struct session *s);
/* The supervisor is gone: nobody reports exits any more, and the children die with it. */
void session_orphan(struct session *s);
/* A standard stream of `c` is closed; a command may be complete. */
void session_on_stream_end(struct child *c);
/* While the broker ends: once no session is left, neither are shared providers; then
 * on_settled. */
void broker_check_settled(struct broker *b);

/* Its row in the configuration; `c` is a provider. */
static inline const struct config_provider *
child_provider(const struct child *c)
{
	return &c->config->providers[c->index];
}

/* ---- turn.c --------------------------------------------------------------------------- */

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

/* ---- call_decide.c, call.c ------------------------------------------------------------- */

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

/* ---- command.c ------------------------------------------------------------------------ */

/* Takes the descriptor and reads it into output events. */
int pipe_read(struct pipe *p, struct child *c, int fd, enum stream stream);
/* Takes the descriptor and writes c->input to it. */
int pipe_write(struct pipe *p, struct child *c, int fd);
void pipe_close(struct pipe *p);
/* The client's queue has room again: for streams and for the worker's own frames. */
void pipe_resume(struct child *c);
/* What it wrote before the ending that is about to be told, as far as pipes hold it. */
void pipe_drain(struct child *c);
void command_input(struct child *c, struct slice data);
void command_input_end(struct child *c);
/* Sends it; one that comes before CONTROL_STARTED is sent then. */
void command_signal(struct child *c, unsigned signo);
void command_started(struct child *c);

/* ---- record.c ------------------------------------------------------------------------- */

/* A record, from its init to its append. */
struct record {
	struct msg_record m; /* what it says of its own */
	const struct fields *common; /* what every record of its operation says; NULL: none */
	struct broker *broker;
	char id[40]; /* minted: m.id */
};

/* Packs what every record of `op` says.  Returns 0 or a negative errno. */
int record_common(struct fields *ret, const struct operation *op);
/* And what says which call of it, for a record that comes when both are gone. */
int record_call_common(struct fields *ret, const struct call *c);
/* With id, time, and what is common to the records of `op`, which may be NULL. */
void record_init(
    struct record *r, struct broker *b, const struct operation *op, const char *type);
void record_init_with(
    struct record *r, struct broker *b, const struct fields *common, const char *type);
/* As journal_append(). */
int record_append(
    const struct record *r, enum journal_class class, journal_fn *done, void *arg);
/* Why it was denied, the grant that came closest, and what that one lacks. */
void record_denial(struct record *r, const struct decision *d);
/* A text, or bytes, into an optional member of a struct msg_record. */
#define RECORD_TEXT(m, member, text) RECORD_SLICE(m, member, slice_of(text))
#define RECORD_SLICE(m, field, slice) ((m)->has_##field = true, (m)->field = (slice))

/* {kind: ..., detail} of an ended operation. */
void cause_pack(struct buf *b, const struct operation *op);
/* The detail of a cause in a few characters, for the record; "" for none. */
void cause_detail(const struct operation *op, char *buf, size_t cap);
/* The usage map. */
void usage_pack(struct buf *b, const struct exit_facts *exit);
/* The same for the record; nothing for a worker that was never born. */
void record_usage(struct msg_record *r, const struct exit_facts *exit);

#endif /* BROKER_BROKER_H */
