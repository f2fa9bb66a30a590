/*
 * Make or open a POSIX message queue.
 * mq_notify: CVE-2017-11176.
 */
#include "tests/escape/escape.h"

#include <mqueue.h>

ESCAPE(posix_queue)
{
	struct mq_attr a = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	int fd = (int)syscall(SYS_mq_open, "escape-suite", O_RDWR | O_CREAT, 0600, &a);

	if (fd < 0)
		return errno;
	syscall(SYS_mq_unlink, "escape-suite");
	return 0;
}
