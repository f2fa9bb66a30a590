/*
 * Say over the link that one is another process.
 * SCM_CREDENTIALS: daemons believed a pid and a uid that the sender had chosen.
 */
#include "tests/escape/escape.h"

ESCAPE(link_credentials)
{
	char control[CMSG_SPACE(sizeof(struct ucred))] = "";
	struct iovec v = { (char[]){ "x" }, 1 };
	struct msghdr m = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct ucred other = { .pid = 1 };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_CREDENTIALS;
	c->cmsg_len = CMSG_LEN(sizeof(other));
	memcpy(CMSG_DATA(c), &other, sizeof(other));
	return tried(sendmsg(3, &m, MSG_NOSIGNAL));
}
