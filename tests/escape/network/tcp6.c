/*
 * Connect to a service of the host by IPv6.
 * Rules for the one are often none for the other.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(tcp6)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)arg_number("port6")),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	return fd < 0 ? errno : tried(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}
