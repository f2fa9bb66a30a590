/*
 * Send urgent data by sendmmsg.
 * The call that does several at once is a call of its own.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(urgent_many)
{
	struct iovec v = { (char[]){ "x" }, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return errno;
	return tried(sendmmsg(pair[0], &m, 1, MSG_OOB));
}
