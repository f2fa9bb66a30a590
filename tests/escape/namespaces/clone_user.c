/*
 * Make a user namespace by clone.
 * Filters forbade unshare and forgot clone (CVE-2021-41133's family).
 */
#include "tests/escape/escape.h"

ESCAPE(clone_user)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return tried(pid);
}
