/*
 * Send a descriptor through the link that a runtime has as its third.
 * A client that takes it gives it away: SCM_RIGHTS.
 */
#include "tests/escape/escape.h"

ESCAPE(link_rights)
{
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = { (char[]){ "x" }, 1 };
	struct msghdr m = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &(int){ 0 }, sizeof(int));
	return tried(sendmsg(3, &m, MSG_NOSIGNAL));
}
