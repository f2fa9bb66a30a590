/*
 * Paste into a console by TIOCLINUX.
 * CVE-2023-28100: flatpak forbade the one and not the other.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(tioclinux)
{
	return tried(ioctl(0, TIOCLINUX, (char[]){ 6 /* the shift state */ }));
}
