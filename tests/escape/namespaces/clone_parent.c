/*
 * Make a sister instead of a child.
 * A child that its parent never reaps, and that a tree by parents does not show.
 */
#include "tests/escape/escape.h"

ESCAPE(clone_parent)
{
	long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return tried(pid);
}
