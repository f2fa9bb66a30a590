/*
 * Connect by multipath TCP.
 * Landlock's rules for TCP are none for it (landlock-lsm/linux#54).
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(mptcp)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)arg_number("port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 262);

	return fd < 0 ? errno : tried(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}
