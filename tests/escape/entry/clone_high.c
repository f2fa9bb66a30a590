/*
 * Make a user namespace by clone with a bit above the 32 that count.
 * The same mistake in the oldest call of all.
 */
#include "tests/escape/escape.h"

ESCAPE(clone_high)
{
	long pid = syscall(SYS_clone, 0x100000000UL | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return tried(pid);
}
