/*
 * Make a user namespace by clone3, whose flags lie in memory, out of a filter's sight.
 * moby#42680: so it was forbidden, with the wrong errno, and programs broke.
 */
#include "tests/escape/escape.h"

#include <linux/sched.h>

ESCAPE(clone3_userns)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0)
		_exit(0);
	return tried(pid);
}
