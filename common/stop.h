/*
 * stop: named points at which the death tests kill a process of ours.
 *
 * Only in builds with -DCAISSON_TEST_STOPS; a shipped program has none, and a test looks
 * for that.  The launcher, which has no environment, has worker/stop.h instead.
 */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#ifdef CAISSON_TEST_STOPS
#define STOP_ENV "CAISSON_STOP"
/* Raises SIGKILL in this process if the environment's CAISSON_STOP is `name`. */
void stop_here(const char *name);
#define STOP_POINT(name) stop_here(name)
#else
#define STOP_POINT(name) ((void)0)
#endif

#endif /* COMMON_STOP_H */
