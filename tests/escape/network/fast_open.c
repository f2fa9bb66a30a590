/*
 * Connect and send in one, without connect().
 * MSG_FASTOPEN passes whoever looks at connect only.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(fast_open)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)arg_number("port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? errno
		      : tried(sendto(
			    fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)));
}
