/*
 * stop: named points between two steps of a launch at which the death tests kill the
 * process.  Only in builds with -DCAISSON_TEST_STOPS; a shipped launcher has none.
 */
#ifndef WORKER_STOP_H
#define WORKER_STOP_H

#ifdef CAISSON_TEST_STOPS
/* The point to die at, from the plan; NULL for none. */
void stop_set(const char *name);
/* Raises SIGKILL in this process if `name` is that point. */
void stop_point(const char *name);
#define STOP_SET(name)	 stop_set(name)
#define STOP_POINT(name) stop_point(name)
#else
#define STOP_SET(name)	 ((void)0)
#define STOP_POINT(name) ((void)0)
#endif

#endif /* WORKER_STOP_H */
