/*
 * Connect to a service of the host that listens on its loopback.
 * Databases and metadata services trust whoever is on the machine.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(tcp)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)arg_number("port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? errno : tried(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}
