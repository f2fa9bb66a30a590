/*
 * Start more processes than it was given.
 * A fork bomb, stopped at 200.
 */
#include "tests/escape/escape.h"

ESCAPE(processes)
{
	int started = 0, up[2];
	pid_t pid = 0;

	if (pipe(up) < 0)
		return BROKEN;
	for (; started < 200; started++) {
		pid = fork();
		if (pid < 0)
			return started < 64 ? errno : BOUNDED;
		if (pid == 0) {
			close(up[1]);
			_exit(read(up[0], &pid, 1) < 0);
		}
	}
	return 0;
}
