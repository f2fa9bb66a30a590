/*
 * Send to that socket by sendmsg, whose address lies in memory.
 * Arguments cannot be judged where they are pointers.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(datagram_message)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct iovec v = { (char[]){ "escaped" }, 7 };
	struct msghdr m = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &v, .msg_iovlen = 1
	};
	int pair[2];

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_in("ro", "datagram"));
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	return tried(sendmsg(pair[0], &m, 0));
}
