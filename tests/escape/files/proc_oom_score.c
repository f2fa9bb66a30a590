/*
 * Change how soon the kernel kills it when memory is short.
 * Who is never chosen has others killed.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_oom_score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	return fd < 0 ? errno : tried(write(fd, "500", 3));
}
