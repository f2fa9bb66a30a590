/*
 * Make a socket and connect it through an io_uring.
 * With socket() forbidden IORING_OP_SOCKET returns one.
 */
#include "tests/escape/escape.h"

#include <linux/io_uring.h>
#include <netinet/in.h>

ESCAPE(io_uring_connect)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)arg_number("port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct io_uring_sqe e = {
		.opcode = 45 /* IORING_OP_SOCKET */, .fd = AF_INET, .off = SOCK_STREAM
	};
	int ret, fd;

	if (ring_open() < 0 || ring_do(&e, &fd) < 0)
		return errno;
	e = (struct io_uring_sqe){ .opcode = IORING_OP_CONNECT,
		.fd = fd,
		.addr = (uint64_t)(uintptr_t)&to,
		.off = sizeof(to) };
	return ring_do(&e, &ret) < 0 ? errno : 0;
}
