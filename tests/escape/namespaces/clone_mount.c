/*
 * Make a mount namespace by clone.
 * The same.
 */
#include "tests/escape/escape.h"

ESCAPE(clone_mount)
{
	long pid = syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return tried(pid);
}
