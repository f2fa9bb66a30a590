/*
 * util: clean-up by scope, and nothing else.
 */
#ifndef COMMON_UTIL_H
#define COMMON_UTIL_H

#include <stdlib.h>
#include <unistd.h>

static inline void
util_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void
util_free(void *p)
{
	free(*(void **)p);
}

/* Closes the descriptor, frees the memory, when the variable goes out of scope. */
#define cleanup_fd   __attribute__((cleanup(util_close)))
#define cleanup_free __attribute__((cleanup(util_free)))

/* Gives the descriptor away: returns it and leaves -1. */
static inline int
steal_fd(int *fd)
{
	int f = *fd;

	*fd = -1;
	return f;
}

#define countof(a) (sizeof(a) / sizeof((a)[0]))

#endif /* COMMON_UTIL_H */
