/*
 * Send a datagram to a service of the host.
 * cplt#241: the proxy was forced for TCP, and DNS carries anything.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(udp)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)arg_number("udp_port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return fd < 0 ? errno
		      : tried(sendto(fd, "escaped", 7, 0, (struct sockaddr *)&to, sizeof(to)));
}
