/*
 * broker: the object that all others of the broker hang from, its beginning and end, its link
 * to the supervisor, and its configuration.  The rest has headers of its own:
 *
 *   broker.c       what one consists of, from its beginning to its end
 *   control.c      the control link to the supervisor
 *   state.c        the ledger's answer at the start; what the broker before us left open
 *                  (state.h)
 *   client.c       clients: submit, attach, stop, signal, input; who may send what
 *                  (client.h)
 *   principal.c    who a client is (principal.h)
 *   grants.c       what the record says of grants, beside the configuration (grants.h);
 *   grants_issue.c     the operator gives one, grants_revoke.c: takes one away,
 *   grants_ask.c       lists them, and asks what would be decided
 *   reload.c       the configuration, and one that follows it
 *   stats.c        how often what has happened (stats.h)
 *   process.c      what the supervisor says of the processes, for the operator
 *   operation.c    admission, numbered events, exactly one ending (D-2)
 *                  (operation.h);
 *   operation_result.c what its last event says
 *   sandbox.c      what a client acquires and calls a session: a queue, a workspace
 *                  (sandbox.h, payload.h, workspace.h)
 *   session.c      one operation's worker and providers, from asked for to reaped
 *                  (session.h);
 *   session_events.c   what the supervisor and their links say of them
 *   rest.c         a turn's worker between two turns (rest.h)
 *   provider.c     a provider's process: a session's own, or one for all
 *                  (provider.h; what all children have in common: child.h)
 *   place.c        the calls that it runs at once: who waits, whose turn it is, what is lost
 *                  (place.h)
 *   turn.c         the envelope of a turn: authority, catalogue, drain (TU-10 to TU-18)
 *                  (turn.h);
 *   turn_submit.c      what a submission asks of it;
 *   turn_request.c     what the runtime is told;
 *   turn_result.c      its events, annotations and outcome
 *   judge.c        what is decided of a call, whoever asks (judge.h);
 *   escalate.c     the ask of a person, which ends a turn (TU-58 to TU-63)
 *   call_replay.c  a call that is made again under its key (TU-70)
 *   call_decide.c  a tool call up to its record: checks, decision (TU-19 to TU-29)
 *                  (call.h);
 *   call.c             from the record on: a second look, dispatch, settle
 *   attach.c       who comes back to an operation, or asks what became of it
 *   feed.c         what clients can read of an operation (feed.h);
 *   subscriber.c       who follows it, past.c: how it ended as far as the record has it;
 *   event_log.c    what is kept of an operation's events (event_log.h)
 *   admissions.c   what was admitted under which key (admissions.h)
 *   command.c      standard streams of a worker, in both directions (child.h)
 *   record.c       records of the journal; digest.c: the keyed digests in them
 *                  (record.h)
 *
 * Everything runs on one event_base in one thread; objects are freed by their owner, and
 * never from below a callback of their own (link.h's rule; a session goes by its alarm).
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "broker/admissions.h"
#include "broker/escalations.h"
#include "broker/stats.h"
#include "common/protocol.h"

/* Functions of a tree, in one file, of which it may use a few. */
#define TREE_GENERATE(name, type, field, compare) \
	RB_GENERATE_INTERNAL(name, type, field, compare, static __attribute__((unused)))

struct alarms;
struct child;
struct client;
struct config;
struct control;
struct control_link;
struct digest;
struct event_base;
struct feeds;
struct grant_set;
struct grants;
struct issue;
struct journal;
struct journal_io;
struct link;
struct listing;
struct operation;
struct principal;
struct release;
struct replay;
struct revoking;
struct sandboxes;
struct session;
struct shared;
struct standing;
struct workspace;

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
	TAILQ_HEAD(, child) providers; /* in them, and those that go */
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
/* While the broker ends: once no session is left, neither are shared providers; then
 * on_settled. */
void broker_check_settled(struct broker *b);

/* ---- control.c ------------------------------------------------------------------------ */

/* Takes `fd`.  Returns 0 or a negative errno. */
int control_open(struct broker *b, int fd);
void control_close(struct broker *b);
/* Sends now or queues; a supervisor that is gone is met by control.c's own end-of-file.  An
 * order that cannot even be queued ends the broker, as that does, and is no clean end. */
void control_tell(struct broker *b, const struct control *c);
bool control_is_lost(const struct broker *b);

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

#endif /* BROKER_BROKER_H */
