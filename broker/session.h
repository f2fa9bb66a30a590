/*
 * session: one operation's worker and providers, from asked for to reaped.  session.c: its
 * life; session_events.c: what the supervisor and their links say of them.
 *
 * What a client acquires, and calls a session, is sandbox.h's.
 */
#ifndef BROKER_SESSION_H
#define BROKER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "common/alarm.h"
#include "common/control.h"

struct broker;
struct child;
struct lane;
struct operation;
struct shared;

/* calls of one session in flight; then its link is not read (its share) */
#define SESSION_CALLS_MAX 256
#define SESSION_BYTES_MAX (8u << 20) /* of their arguments, likewise */
#define SESSIONS_MAX	  4096 /* of one broker: workers at once, and acquired sessions */

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

struct session *session_create(struct broker *b, struct operation *op);
void session_start(struct session *s);
void session_on_link(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned nfds);
void session_on_started(struct broker *b, const struct control *c);
void session_on_refused(struct broker *b, const struct control *c);
void session_on_exit(struct broker *b, const struct control *c);

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

#endif /* BROKER_SESSION_H */
