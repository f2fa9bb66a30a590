/*
 * Open a userfaultfd, which stops the kernel in the middle of a copy.
 * What turned many a race of the kernel's into a sure thing (CVE-2016-6187 and after).
 */
#include "tests/escape/escape.h"

ESCAPE(userfaultfd)
{
	return tried(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}
