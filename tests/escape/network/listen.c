/*
 * Listen on a port, and wait for somebody of the host.
 * A command channel into the chamber.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(listen)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return errno;
	return tried(listen(fd, 1));
}
