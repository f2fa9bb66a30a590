/*
 * children_private: what the files children*.c share.
 *
 *   children.c         who there is: orders, births, deaths
 *   children_launch.c  what a child is: its chamber, its ends of links and pipes
 *   children_warm.c    those that wait for their first session
 *   children_config.c  the configurations that children are made by, one after the other
 */
#ifndef SUPERVISOR_CHILDREN_PRIVATE_H
#define SUPERVISOR_CHILDREN_PRIVATE_H

#include <sys/queue.h>

#include "supervisor/children.h"
#include "supervisor/launch.h"
#include "supervisor/pool.h"
#include "supervisor/uid.h"
#include "supervisor/workspace.h"

#define CHILD_FDS_MAX 4 /* 0, 1, 2, link */

struct child {
	struct children *owner;
	struct generation *by; /* counted in its `children` */
	uint64_t session; /* none while it waits in the pool, or if it never left it */
	enum child_kind kind;
	uint32_t index; /* into the lists of `by` */
	uint32_t ordered; /* the index that the order for it had, which the broker is told */
	uint64_t workspace; /* that it shows, and holds; 0: none */
	struct launch *launch;
	struct uid_claim uid;
	int fds[CHILD_FDS_MAX]; /* its own ends, until it is born */
	size_t nfds;
	int ends[CONTROL_FDS_MAX]; /* the broker's, in CONTROL_LINK's order, until it has them */
	unsigned nends;
	bool unmapped;	     /* second try, without id-mapped mounts */
	bool cold;	     /* second try, as what stood by was lost */
	bool started, input; /* the exec happened; its input is a pipe */
	bool warm;	     /* no session's yet */
	uid_t uid_outside;
	const struct profile *profile;
	uint64_t since_ms;	/* wall clock */
	uint64_t started_at_ms; /* monotonic: the exec */
	struct pool_entry entry;
	TAILQ_ENTRY(child) link; /* children.list, or children.warm */
};

TAILQ_HEAD(child_list, child);

/* One configuration, with those that wait for their first session under it. */
struct generation {
	uint64_t number;
	const struct conf_namespace *config;
	struct conf_namespace *owned; /* the same, or NULL: it is borrowed */
	struct pool *pool;
	uint64_t *since; /* of each line of the pool: the generation that made it as it is */
	unsigned children; /* made by it, and not reaped */
	bool named;	   /* the broker may */
	TAILQ_ENTRY(generation) link;
};

struct children {
	struct event_base *base;
	/* Oldest first; then the current one, and one that is offered. */
	TAILQ_HEAD(, generation) generations;
	struct generation *current, *offered; /* `offered` may be NULL */
	enum operation_kind operation_kind;
	struct learn *learn; /* NULL: nothing is */
	struct workspaces *workspaces; /* NULL: there are none */
	const struct children_handler *handler;
	void *arg;
	struct child_list list; /* of sessions */
	struct child_list warm; /* in a pool, or ended there and not yet reaped */
	unsigned count; /* of sessions */
};

/* children.c.  A new one, in no list yet; NULL if memory is out. */
struct child *child_create(
    struct children *ch, struct generation *by, enum child_kind kind, uint32_t index);
/* Of one that is in no list. */
void child_free(struct child *c);
extern const struct launch_handler child_handler;
bool child_is_provider(const struct child *c);
const char *child_id(const struct child *c);
/* In the pool: runtimes come first. */
size_t children_line(const struct generation *g, enum child_kind kind, uint32_t index);

/* children_warm.c.  NULL if memory is out. */
struct pool *children_create_pool(struct children *ch, const struct conf_namespace *c);
struct child *child_of_entry(const struct pool_entry *e);
/* Its line is off. */
void child_log_off(const struct child *c);
/* Nobody else hears of one that had no session yet. */
void child_log_warm_exit(const struct child *c, const struct exit_facts *exit);

/* Has a number of its own, whatever its index: one for all sessions. */
bool child_is_shared(const struct child *c);

/* children_config.c.  The one of that number which the broker may name, or NULL. */
struct generation *generation_find(const struct children *ch, uint64_t number);
/* NULL if memory is out; `c` is borrowed. */
struct generation *generation_create(
    struct children *ch, uint64_t number, const struct conf_namespace *c);
/* One child of it is no more, or nobody names it: frees it, if it is not the current one. */
void generation_release(struct children *ch, struct generation *g);
void generation_destroy(struct children *ch, struct generation *g);

/* children_launch.c.  Makes both sides of its links and pipes.  0, or a negative errno with
 * none made. */
int child_make_ends(struct child *c);
void child_close_fds(struct child *c);
void child_close_ends(struct child *c);

/* Describes its chamber and starts the launch.  As launch_start(); its fds stay its own. */
int child_launch(
    struct child *c, const struct launch_handler *handler, enum layer *ret_layer);

#endif /* SUPERVISOR_CHILDREN_PRIVATE_H */
