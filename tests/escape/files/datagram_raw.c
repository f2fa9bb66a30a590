/*
 * Send to that socket from a pair of type SOCK_RAW, which the kernel takes for datagrams.
 * A list of types that are forbidden would not have it.
 */
#include "tests/escape/escape.h"

ESCAPE(datagram_raw)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int pair[2];

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_in("ro", "datagram"));
	if (socketpair(AF_UNIX, SOCK_RAW, 0, pair) < 0)
		return errno;
	return tried(sendto(pair[0], "escaped", 7, 0, (struct sockaddr *)&to, sizeof(to)));
}
