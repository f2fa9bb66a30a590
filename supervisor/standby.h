/*
 * standby: chambers whose first half was built before anybody wanted them.
 *
 * Launcher, namespaces, groups and pid 1 are there and wait, knowing nothing of a program; the
 * next launch of their kind gives them its order (launch.h).  One waits for each of the kinds
 * that were used last, if a daemon wants any: it is made when a launch of its kind has begun
 * to run, and goes unused after a minute.  Owns those that wait.  Single-threaded; one per
 * process, on one event_base.
 */
#ifndef SUPERVISOR_STANDBY_H
#define SUPERVISOR_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct launch;

#define STANDBY_KINDS_MAX 4

/* What the first half of a launch decides. */
struct launch_kind {
	uint32_t flags; /* of PLAN_KIND */
	uint32_t root_id; /* ground.h; 0: none that others could have */
	unsigned group; /* cgroup_kind() */
};

/* From now on there may be some, of `kinds` kinds at most; 0: none.  0 or -ENOMEM. */
int standby_open(struct event_base *base, unsigned kinds);
/* Ends and reaps them all; there are none from then on.  Again is once. */
void standby_close(void);
/* Ends them all, as what they are for has changed; others, of as many kinds as it says now,
 * come with the next launches.  Where it was not opened, nothing. */
void standby_renew(unsigned kinds);

/* One that waits, NULL if none of that kind does.  The caller gives it an order, and says so,
 * or kills it; its end is then still ours. */
struct launch *standby_take(const struct launch_kind *kind);
void standby_gave(struct launch *l);
/* Does any wait that has such a group? */
bool standby_may_have(unsigned group);
/* A launch of that kind has begun to run. */
void standby_note(const struct launch_kind *kind);

/* Starts what is missing now, instead of in a few ms. */
void standby_fill(void);
/* How many there are; `ready`: of those that have done their half, and wait. */
unsigned standby_count(bool ready);

bool standby_shares_network(const struct launch *l);

typedef void standby_fn(const struct launch *l, uint64_t since_ms, void *arg);
/* Each, with the wall clock of its birth. */
void standby_each(standby_fn *fn, void *arg);

#endif /* SUPERVISOR_STANDBY_H */
