/*
 * Take a lease on a file of the host.
 * Whoever writes it on the host waits 45 seconds for an answer, each time.
 */
#include "tests/escape/escape.h"

ESCAPE(lease)
{
	int fd = open(path_in("ro", "file"), O_RDONLY);

	return tried(fcntl(fd, F_SETLEASE, F_RDLCK));
}
