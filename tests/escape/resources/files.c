/*
 * Open more descriptors than it was given.
 * The system's table is one for all.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(files)
{
	struct rlimit r;
	int ret = 0;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	for (int i = 0; i < 2000 && ret == 0; i++)
		ret = tried(dup(0));
	return ret;
}
