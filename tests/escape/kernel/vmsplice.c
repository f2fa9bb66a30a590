/*
 * Give pages of memory to a pipe.
 * CVE-2008-0600, and the copy-on-write bug of CVE-2020-29374.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(vmsplice)
{
	struct iovec v = { (char[]){ "x" }, 1 };
	int p[2];

	if (pipe(p) < 0)
		return BROKEN;
	return tried(syscall(SYS_vmsplice, p[1], &v, 1, 0));
}
