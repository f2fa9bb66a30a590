/*
 * Have a signal whenever something changes in a directory of the host.
 * dnotify is inotify by another name.
 */
#include "tests/escape/escape.h"

ESCAPE(notify)
{
	int fd = open(arg("ro"), O_RDONLY | O_DIRECTORY);

	signal(SIGIO, SIG_IGN);
	return tried(fcntl(fd, F_NOTIFY, DN_ACCESS | DN_MODIFY));
}
