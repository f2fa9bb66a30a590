#include "worker/stop.h"

#ifdef CAISSON_TEST_STOPS
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *stop_name;

void
stop_set(const char *name)
{
	stop_name = name;
}

void
stop_point(const char *name)
{
	if (stop_name == NULL || strcmp(stop_name, name) != 0)
		return;
	/* Pid 1 of a namespace cannot kill itself, but whatever exits without a word
	 * looks the same from outside. */
	if (getpid() == 1)
		syscall(SYS_exit_group, 137);
	kill(getpid(), SIGKILL);
}
#else
/* ISO C wants a declaration in every file. */
extern int stop_unused;
#endif
