/*
 * pool: how many workers wait for their first session, and when the next one may be started.
 *
 * A line is one runtime or provider.  The pool owns no process: whoever does embeds an entry
 * in it, starts and ends what the pool asks for, and tells what became of it.  An
 * entry that was taken never comes back, so that no worker serves two sessions.
 *
 *   - what is missing is started one by one; after a death or a start that failed only
 *     after a pause that doubles from one to the next, and is short again after one that
 *     has waited for long;
 *   - a line with more than START_DEATHS_MAX deaths at the start in START_WINDOW_MS is off for
 *     as long: nothing is started, and pool_refuses() says so, whatever went well in between;
 *   - after pool_drain() nothing is started until pool_fill().
 *
 * Knows no process, link or configuration.  Single-threaded, on one event_base.
 */
#ifndef SUPERVISOR_POOL_H
#define SUPERVISOR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;
struct pool;

/* One worker that waits, or is on its way to that. */
struct pool_entry {
	size_t line;
	uint64_t since_ms; /* monotonic: when it was entered */
	bool waits;	   /* in its line; false: taken, ended, gone */
	TAILQ_ENTRY(pool_entry) link; /* its line's */
};

struct pool_handler {
	/* Begins one and enters it, pool_enter().  0, or a negative errno if nothing is
	 * there. */
	int (*start)(size_t line, void *arg);
	/* May it still be handed out?  Asked as it is taken. */
	bool (*is_fit)(const struct pool_entry *e, void *arg);
	/* End it: it is no longer in the pool. */
	void (*end)(struct pool_entry *e, void *arg);
	/* Monotonic ms. */
	uint64_t (*now_ms)(void);
};

/*
 * `want` has how many are to wait, for each of `n` lines; it is copied.  Starts nothing
 * before pool_fill().  NULL with errno set.
 */
struct pool *pool_create(struct event_base *base, const unsigned *want, size_t n,
    const struct pool_handler *handler, void *arg);
/* Only when nothing waits.  NULL is allowed. */
void pool_destroy(struct pool *p);

/*
 * Lets a line of `p`, in which nothing waits, go on with what waits in a line of `from`, and
 * with its deaths and pauses: it is the same line of another pool, and wants as many.
 */
void pool_go_on(struct pool *p, size_t line, struct pool *from, size_t from_line);

/* From the loop on, until pool_drain().  Again is once. */
void pool_fill(struct pool *p);
/* Ends all that wait, and starts no more.  Again is once. */
void pool_drain(struct pool *p);

/* From start(): one is on its way. */
void pool_enter(struct pool *p, struct pool_entry *e, size_t line);
/* The first fit one of the line, which is no longer the pool's; NULL if none waits. */
struct pool_entry *pool_take(struct pool *p, size_t line);
/*
 * One that was entered is gone.  `ran`: its program had begun, so that it counts as a death
 * at the start.  One that was taken or ended changes nothing.  True if this put its line off.
 */
bool pool_lost(struct pool *p, struct pool_entry *e, bool ran);

/* One that never waited, or no longer, died at its start.  True if this put its line off. */
bool pool_died(struct pool *p, size_t line);
/* How many died, if nothing of the line may be started now; else 0. */
unsigned pool_refuses(const struct pool *p, size_t line);

/* What its timer does: starts at most one that is due.  For tests, which have a clock of
 * their own. */
void pool_tick(struct pool *p);

#endif /* SUPERVISOR_POOL_H */
