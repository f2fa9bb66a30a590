/*
 * Connect one half of a pair to somebody else.
 * A datagram socket may be connected as often as one likes.
 */
#include "tests/escape/escape.h"

ESCAPE(pair_connect)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int pair[2];

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_in("ro", "datagram"));
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return errno;
	return tried(connect(pair[0], (struct sockaddr *)&to, sizeof(to)));
}
