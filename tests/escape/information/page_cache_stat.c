/*
 * Count the pages of a file that are in memory, by a call newer than most lists.
 * The same question, for a whole file at once.
 */
#include "tests/escape/escape.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

ESCAPE(page_cache_stat)
{
	uint64_t range[2] = { 0, 0 }, counts[5];
	int fd = open(path_in("ro", "file"), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return BROKEN;
	return tried(syscall(SYS_cachestat, fd, range, counts, 0));
}
