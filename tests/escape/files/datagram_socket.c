/*
 * Send to a datagram socket of the host that stands in a mount, without socket().
 * One half of a socketpair will do; /dev/log and systemd's notify socket are of this kind.
 */
#include "tests/escape/escape.h"

ESCAPE(datagram_socket)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int pair[2];

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_in("ro", "datagram"));
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return errno;
	return tried(sendto(pair[0], "escaped", 7, 0, (struct sockaddr *)&to, sizeof(to)));
}
