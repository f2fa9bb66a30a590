/*
 * Send and receive urgent data on a pair.
 * CVE-2025-38236: MSG_OOB on a unix socket was a way out of Chrome's renderer.
 */
#include "tests/escape/escape.h"

ESCAPE(urgent)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return errno;
	return tried(send(pair[0], "x", 1, MSG_OOB));
}
