/*
 * Start a program that lies in memory only.
 * Leaves no file to be found; OpenShell#1496.
 */
#include "tests/escape/escape.h"

ESCAPE(exec_memfd)
{
	int fd = memfd_create("program", 0);
	char path[64];

	if (fd < 0)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, "#!/bin/true\n", 12) != 12)
		return BROKEN;
	return tried_exec(path, (char *[]){ path, NULL });
}
