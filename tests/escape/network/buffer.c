/*
 * Enlarge the buffers of a socket.
 * Memory of the kernel's, which no rlimit counts.
 */
#include "tests/escape/escape.h"

ESCAPE(buffer)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return errno;
	return tried(
	    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 22 }, sizeof(int)));
}
