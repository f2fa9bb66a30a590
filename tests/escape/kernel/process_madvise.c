/*
 * Give advice about memory of another process.
 * process_madvise pages others out, and times them.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(process_madvise)
{
	struct iovec v = { mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0),
		4096 };
	/* of itself: what is asked of the kernel is the same, and it needs no victim's map */
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return tried(syscall(SYS_process_madvise, pidfd, &v, 1, MADV_COLD, 0));
}
