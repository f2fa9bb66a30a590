/*
 * Leave the cgroup by writing to another's cgroup.procs.
 * CVE-2022-0492's release_agent lies beside it.
 */
#include "tests/escape/escape.h"

ESCAPE(cgroup_write)
{
	static const char *const at[] = { "/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs" };
	int ret = ENOENT;

	for (int i = 0; i < 3 && ret != 0; i++)
		ret = tried_open(at[i], O_WRONLY);
	return ret;
}
