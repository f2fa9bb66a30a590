#include "supervisor/launch_report.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "worker/plan.h"

/*
 * The one descriptor of a message, or -1.  `*ret_more` if there were others: the kernel
 * installs as many as its padding lets in, and nobody else would close them.
 */
static int
take_fd(struct msghdr *msg, bool *ret_more)
{
	struct cmsghdr *c;
	int fd, first = -1;
	size_t count;

	*ret_more = false;
	for (c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (first < 0) {
				first = fd;
			} else {
				close(fd);
				*ret_more = true;
			}
		}
	}
	return first;
}

int
launch_report_recv(int socket_fd, struct launch_report *ret, int *ret_fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct launch_report report;
	struct iovec iov = { .iov_base = &report, .iov_len = sizeof(report) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	cleanup_fd int fd = -1;
	bool more;
	ssize_t n;

	*ret_fd = -1;
	/* It ended without reading what we sent, says the kernel once, before what it had
	 * sent. */
	do
		n = recvmsg(socket_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == ECONNRESET);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	fd = take_fd(&msg, &more);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(report) || more || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EPROTO;
	*ret = report;
	*ret_fd = steal_fd(&fd);
	return 1;
}
