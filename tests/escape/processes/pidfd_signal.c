/*
 * Signal a process by a directory of /proc, which was a pidfd before there were any.
 * Works across pid namespaces if the directory is in reach.
 */
#include "tests/escape/escape.h"

ESCAPE(pidfd_signal)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld", arg_number("victim"));
	fd = open(path, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? errno : tried(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0));
}
