/*
 * Enter the mount namespace of a process of the host.
 * nsenter: what every privileged container does first.
 */
#include "tests/escape/escape.h"

ESCAPE(setns_victim)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", arg_number("victim"));
	fd = open(path, O_RDONLY);
	return fd < 0 ? errno : tried(setns(fd, CLONE_NEWNS));
}
