#include "common/stop.h"

#ifdef CAISSON_TEST_STOPS
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void
stop_here(const char *name)
{
	const char *wanted = getenv(STOP_ENV);
	char line[64];

	if (!wanted || strcmp(wanted, name))
		return;
	/* So that a test knows.  In one piece and by hand: the filters allow no more. */
	snprintf(line, sizeof(line), "stopped at %s\n", name);
	(void)!write(STDERR_FILENO, line, strlen(line));
	/* Pid 1 of a namespace cannot kill itself, but whatever exits without a word
	 * looks the same from outside. */
	if (getpid() == 1)
		syscall(SYS_exit_group, 137);
	/* Both filters of our services allow this one, for abort(). */
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGKILL);
}
#else
/* ISO C wants a declaration in every file. */
extern int stop_unused;
#endif
