/*
 * Send to an abstract datagram socket of the host from one half of a pair.
 * No socket(), no connect().
 */
#include "tests/escape/escape.h"

#include <stddef.h>

ESCAPE(abstract_datagram)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int n = snprintf(to.sun_path + 1, 100, "%s-datagram", arg("abstract")), pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return errno;
	return tried(sendto(pair[0], "escaped", 7, 0, (struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)));
}
