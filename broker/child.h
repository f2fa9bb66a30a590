/*
 * child: a process of the broker's: the worker or a provider of a session, a provider of all
 * of them, the helper of a workspace.  What each is, is its owner's (session.h, rest.h,
 * provider.h, shared.h, workspace.h); here is what they have in common, and command.c: their
 * standard streams, in both directions.
 */
#ifndef BROKER_CHILD_H
#define BROKER_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "broker/config.h"
#include "common/alarm.h"
#include "common/control.h"
#include "common/protocol.h"

struct broker;
struct call;
struct event;
struct late;
struct link;
struct sandbox;
struct session;

/* bytes a provider has not read, before it gets more calls */
#define PROVIDER_QUEUE_MAX  (1u << 20)
/* bytes queued for a client before streams are not read */
#define OUTPUT_QUEUE_MAX    (1u << 20)
#define PROVIDER_STARTS_MAX 4 /* of one session's provider, then its calls fail */
#define EXIT_HALF_MS	    1000 /* how long end-of-file and exit report wait for each other */

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
	/* its operation's; a worker holds it, and it may be another than its operation's, which
	 * makes the same of its runtime; so does a shared provider (shared.h) */
	struct config *config;
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
	unsigned nsets; /* that it is in; in none: it goes */
	TAILQ_ENTRY(child) of_all; /* broker.providers */
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

/* Does it serve calls, and is of no session or one of a session's helpers? */
static inline bool
child_serves(const struct child *c)
{
	return c->kind == CHILD_PROVIDER || c->kind == CHILD_WORKSPACE;
}

/* Its row in the configuration; `c` is a provider. */
static inline const struct config_provider *
child_provider(const struct child *c)
{
	return &c->config->providers[c->index];
}

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

#endif /* BROKER_CHILD_H */
