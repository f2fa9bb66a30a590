/*
 * Take a descriptor out of a process of the host.
 * One call gives what is open there: a docker socket, a key file.
 */
#include "tests/escape/escape.h"

ESCAPE(pidfd_getfd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, arg_number("victim"), 0);

	return tried(pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}
