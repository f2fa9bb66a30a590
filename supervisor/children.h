/*
 * children: workers and providers of one namespace's sessions, made as its broker asks, or
 * before it does (`warm`, pool.h): its side of their links waits here until a session
 * gets them.
 *
 * What a broker asks for are numbers: each is checked here against the configuration, which the
 * broker cannot change.  Makes the links and pipes, gives one end to the child at birth and
 * the other to the broker, and reports birth and death.  Owns every child until it is reaped.
 */
#ifndef SUPERVISOR_CHILDREN_H
#define SUPERVISOR_CHILDREN_H

#include "common/control.h"
#include "common/endings.h"
#include "supervisor/config.h"

/* Uids and gids that chambers get as root: a range that no distribution gives away. */
#define CHILD_UID_RANGE { .first = 0x70000000, .count = 0x10000 }

struct event_base;
struct children;
struct learn;
struct process;
struct workspaces;

struct children_handler {
	/* CONTROL_LINK, _STARTED, _REFUSED, _EXIT for the broker; takes the descriptors. */
	void (*tell)(const struct control *c, int *fds, unsigned nfds, void *arg);
	/* The last one of a session is reaped, or one that never had any. */
	void (*on_empty)(void *arg);
};

#define CHILDREN_GENERATIONS_MAX 8 /* configurations that something lives by, at once */

/* `c`, generation 0, must live on; `kind` is what its runtimes are; `learn`, which must live
 * on, is what their calls are learned with, NULL: they are not.  NULL with errno set. */
struct children *children_create(struct event_base *base, const struct conf_namespace *c,
    enum operation_kind kind, struct learn *learn, const struct children_handler *handler,
    void *arg);
/* A daemon's: the workspaces that its children show; `w` must live on. */
void children_show(struct children *ch, struct workspaces *w);
/* Only when children_empty(). */
void children_destroy(struct children *ch);

/*
 * One order of the broker's: CONTROL_SPAWN, CONTROL_KILL, CONTROL_SIGNAL.  A child that is gone
 * already is no error.  Return 0, or -EPROTO for numbers that no sound broker sends.  A runtime
 * too many of whose processes died at their start is refused, LAYER_DEATHS; one that shows a
 * workspace, for a session that has none, LAYER_SOURCES.
 */
int children_spawn(struct children *ch, const struct control *c);
int children_kill(struct children *ch, const struct control *c);
int children_signal(struct children *ch, const struct control *c);

/*
 * The configuration that follows, as generation `number`: none is made by it before
 * children_config_take().  Takes `c`, which was malloc'ed.  0; -EBUSY with as many as there may
 * be, or one that is offered; -ENOMEM.  `c` stays the caller's on failure.
 */
int children_config_offer(struct children *ch, uint64_t number, struct conf_namespace *c);
/* Of the one that is offered, else of the current one, as struct pack_facts has it. */
const uint64_t *children_config_since(const struct children *ch);
/*
 * What was offered is the current one.  Children that it would make the same way go over to it,
 * those that wait for a session among them; the rest of these is ended; with `fill` others
 * start.
 */
void children_config_take(struct children *ch, bool fill);
/* What was offered is not wanted: it is the caller's again.  NULL: nothing was. */
struct conf_namespace *children_config_drop(struct children *ch);
/*
 * The broker names that one no more; `all`: none but the current one, as there is no broker.
 * It lives on as long as what was made by it.  0, or -EPROTO if it could not name it.
 */
int children_config_over(struct children *ch, uint64_t number);
void children_config_over_all(struct children *ch);
/* Those that wait are ended, and others started: what they are made of may have changed. */
void children_refresh(struct children *ch);

/* From now on as many as the configuration wants wait for their first session. */
void children_fill(struct children *ch);
/* Kills those that wait, and starts no more, until children_fill(). */
void children_drain(struct children *ch);

/* Kills all of sessions; on_empty() follows, if there are any. */
void children_kill_all(struct children *ch, enum ending cause);

/* Tells of each child there is, as process.h wants it; `p` lives until `fn` returns. */
typedef void children_fn(const struct process *p, void *arg);
void children_each(const struct children *ch, children_fn *fn, void *arg);
/* None of a session is left; others may wait. */
bool children_idle(const struct children *ch);
bool children_empty(const struct children *ch);

#endif /* SUPERVISOR_CHILDREN_H */
