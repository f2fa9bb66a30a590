#include "supervisor/launch_report.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "worker/plan.h"

int
launch_report_recv(int socket_fd, struct launch_report *ret, int *ret_fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	ssize_t n;

	*ret_fd = -1;
	n = recvmsg(socket_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0) {
		if (errno == ECONNRESET)
			return 0; /* it ended without reading what we sent */
		return errno == EINTR ? -EAGAIN : -errno;
	}
	c = CMSG_FIRSTHDR(&msg);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(*ret) || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EPROTO;
	return 1;
}
