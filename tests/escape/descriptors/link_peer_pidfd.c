/*
 * Take hold of the process at the link's other end by the link itself, and signal it.
 * SO_PEERPIDFD hands out a pidfd across pid namespaces.
 */
#include "tests/escape/escape.h"

ESCAPE(link_peer_pidfd)
{
	int pidfd = -1;
	socklen_t n = sizeof(pidfd);

	if (getsockopt(3, SOL_SOCKET, 77, &pidfd, &n) < 0)
		return errno;
	return tried(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0));
}
