/*
 * Use an io_uring's register call on a ring that it might inherit.
 * Its buffers and files were freed twice in CVE-2021-41073 and CVE-2023-2598.
 */
#include "tests/escape/escape.h"

ESCAPE(io_uring_register)
{
	int fd;

	if (ring_open() < 0)
		return errno;
	fd = (int)syscall(SYS_eventfd2, 0, 0);
	return tried(fd < 0 ? -1 : syscall(SYS_io_uring_register, 3, 4, &fd, 1));
}
