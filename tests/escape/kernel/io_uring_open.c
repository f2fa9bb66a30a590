/*
 * Open a file through an io_uring, which no system call filter sees.
 * restrict#10, moby#39415: with open and openat forbidden it read the file all the same.
 */
#include "tests/escape/escape.h"

#include <linux/io_uring.h>

ESCAPE(io_uring_open)
{
	struct io_uring_sqe e = { .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD };
	int fd;

	e.addr = (uint64_t)(uintptr_t)path_in("ro", "file");
	e.open_flags = O_RDONLY;
	return ring_open() < 0 || ring_do(&e, &fd) < 0 ? errno : 0;
}
