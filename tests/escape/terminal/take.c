/*
 * Take a terminal over as one's controlling terminal.
 * Whoever controls it stops and signals what else runs there.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(take)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), slave;

	if (master < 0)
		return errno;
	ioctl(master, TIOCSPTLCK, &(int){ 0 });
	if (fork() == 0) {
		setsid();
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
		_exit(slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0 ? errno : 0);
	}
	wait(&slave);
	return WEXITSTATUS(slave);
}
