/*
 * workspace_empty: one child in a chamber that removes everything beneath one directory.
 *
 * Names and depth of what lies there were chosen by a program that nobody trusts: it is the
 * child, caisson-files --empty, that meets them, with nothing but that directory in reach.
 */
#ifndef SUPERVISOR_WORKSPACE_EMPTY_H
#define SUPERVISOR_WORKSPACE_EMPTY_H

#define EMPTY_WHY_MAX 512

struct empty;
struct event_base;

/* 0: nothing is left beneath it; else an errno, and `why` says so, ECANCELED:
 * empty_cancel(). */
typedef void empty_fn(int error, const char *why, void *arg);

/*
 * Empties the directory at `path`, without links on the way.  Returns 0, and `fn` follows from
 * the loop, with which `*ret` is no more; or a negative errno with the reason in `why`.
 */
int empty_start(struct event_base *base, const char *path, empty_fn *fn, void *arg,
    struct empty **ret, char why[EMPTY_WHY_MAX]);

/* Kills it: `fn` still follows. */
void empty_cancel(struct empty *e);

#endif /* SUPERVISOR_WORKSPACE_EMPTY_H */
