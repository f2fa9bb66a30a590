/*
 * Raise a hard limit: that of locked memory.
 * What one may raise is no limit.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(raise)
{
	struct rlimit r;

	getrlimit(RLIMIT_MEMLOCK, &r);
	if (r.rlim_max == RLIM_INFINITY)
		return ABSENT;
	r.rlim_max += 4096;
	return tried(setrlimit(RLIMIT_MEMLOCK, &r));
}
