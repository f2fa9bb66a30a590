/*
 * Use pidfd_send_signal at all.
 * On oneself, to see whether the call is there.
 */
#include "tests/escape/escape.h"

ESCAPE(pidfd_signal_own)
{
	int fd = open("/proc/self", O_RDONLY | O_DIRECTORY);

	signal(SIGUSR1, SIG_IGN);
	return tried(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0));
}
