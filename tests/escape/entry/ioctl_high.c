/*
 * Push a character into the terminal by TIOCSTI with a bit above the 32 that count.
 * CVE-2019-10063 and CVE-2019-7303: flatpak and snap compared all 64.
 */
#include "tests/escape/escape.h"

#include <termios.h>
#include <sys/ioctl.h>

ESCAPE(ioctl_high)
{
	return tried(syscall(SYS_ioctl, 0, 0x100000000UL | TIOCSTI, "x"));
}
