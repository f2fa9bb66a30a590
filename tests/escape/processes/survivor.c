/*
 * Live on after the end: a session of one's own, two forks, no signal heeded.
 * Orphans of agents by the hundred (azure-devops-mcp#1598); it holds a lock that tells.
 */
#include "tests/escape/escape.h"

#include <sys/file.h>
#include <sys/prctl.h>

ESCAPE(survivor)
{
	int fd = open(path_in("rw", "lock"), O_RDWR | O_CREAT, 0600), up[2];
	char byte;

	if (pipe(up) < 0)
		return BROKEN;
	if (fork() == 0) {
		setsid();
		prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
		for (int signo = 1; signo < NSIG; signo++)
			signal(signo, SIG_IGN);
		if (fork() != 0)
			_exit(0);
		alarm(0);
		if (flock(fd, LOCK_SH) < 0 || write(up[1], "x", 1) != 1 ||
		    dprintf(fd, "%d\n", (int)getpid()) < 0)
			_exit(1);
		for (int i = 0; i < 3; i++)
			close(i);
		for (;;)
			pause();
	}
	close(up[1]);
	return read(up[0], &byte, 1) == 1 ? CONTAINED : BROKEN;
}
