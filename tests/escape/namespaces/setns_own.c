/*
 * Enter a namespace by a descriptor of it.
 * CVE-2019-5736 and CVE-2024-21626 began with a descriptor that should not have been there.
 */
#include "tests/escape/escape.h"

ESCAPE(setns_own)
{
	int fd = open("/proc/self/ns/uts", O_RDONLY);

	return fd < 0 ? errno : tried(setns(fd, CLONE_NEWUTS));
}
