/*
 * workspace: the directories of a daemon's sessions, STATE/namespaces/NAME/workspaces/<16 hex>.
 *
 * Made, and removed with all that is in them, as the broker orders it by their numbers.  What
 * lies in one was written by programs that nobody trusts: no name in it is ever read here.  A
 * child in a chamber, caisson-files --empty, empties it; what is removed here is an empty
 * directory.  What one daemon leaves, as it ended or was killed at any step, the next one finds
 * by the name that it gave itself, and tells its broker of.
 */
#ifndef SUPERVISOR_WORKSPACE_H
#define SUPERVISOR_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/control.h"

struct event_base;
struct workspaces;

struct workspaces_handler {
	/* CONTROL_WORKSPACE_MADE, _GONE or _FOUND for the broker. */
	void (*tell)(const struct control *c, void *arg);
	/* workspaces_idle() is true again. */
	void (*on_idle)(void *arg);
};

struct workspaces_bounds {
	uint64_t count; /* that may be made and not dropped at once */
	uint64_t bytes; /* that each may hold, by quota.h; 0: as many as its file system */
};

/*
 * Those beneath the directory `dir_fd`, which is `path`; both must live on.  With `bytes`,
 * quota_probe() says that they can be bounded.  NULL with errno set.
 */
struct workspaces *workspaces_create(struct event_base *base, int dir_fd, const char *path,
    const struct workspaces_bounds *bounds, const struct workspaces_handler *handler, void *arg);
/* Only when workspaces_idle().  The directories stay.  Accepts NULL. */
void workspaces_destroy(struct workspaces *w);

/*
 * A configuration in force lets as many be made; what an earlier one let be made stays.  Each
 * may hold as many bytes from now on, those that are there, too, but for any that was made
 * while there was no bound: a warning says how many those are.
 */
void workspaces_limit(struct workspaces *w, const struct workspaces_bounds *bounds);

/* A broker is ready: tells it of all that are there and nobody dropped. */
void workspaces_on_ready(struct workspaces *w);
/* It is gone: nobody waits for an answer. */
void workspaces_on_gone(struct workspaces *w);

/*
 * CONTROL_WORKSPACE and CONTROL_WORKSPACE_DROP, which are answered, a drop once its directory
 * is no more.  0, or -EPROTO for what no sound broker sends: one that is there made again, more
 * than the limit and some; one dropped that is not there, or that a child shows.
 */
int workspaces_make(struct workspaces *w, uint64_t number);
int workspaces_drop(struct workspaces *w, uint64_t number);

/* A child shows it from now on, until it is released.  False: it is not there. */
bool workspaces_hold(struct workspaces *w, uint64_t number);
void workspaces_release(struct workspaces *w, uint64_t number);

#define WORKSPACE_PATH_MAX 4200 /* bytes of a path, with its NUL */

/* Where one that is held lies.  -ENAMETOOLONG or 0. */
int workspaces_path(const struct workspaces *w, uint64_t number, char ret[WORKSPACE_PATH_MAX]);

/* Removes no more, and kills what empties one; on_idle() follows, unless it is idle. */
void workspaces_end(struct workspaces *w);
/* Nothing empties one. */
bool workspaces_idle(const struct workspaces *w);

#endif /* SUPERVISOR_WORKSPACE_H */
