/*
 * Get the descriptor of a child from clone, and by it that of a namespace.
 * clone gives pidfds, too, though pidfd_open is refused.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define GET_MOUNT_NAMESPACE _IO(0xff, 3)

ESCAPE(pidfd_namespace)
{
	int pidfd = -1, result;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);

	if (pid == 0) {
		pause();
		_exit(0);
	}
	if (pid < 0)
		return errno;
	result = tried(ioctl(pidfd, GET_MOUNT_NAMESPACE, 0));
	kill(pid, SIGKILL);
	return result;
}
