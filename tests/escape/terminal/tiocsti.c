/*
 * Type into the terminal that started it, by TIOCSTI.
 * CVE-2017-5226 in bubblewrap, su and sudo for decades: the shell reads the rest.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(tiocsti)
{
	return tried(ioctl(0, TIOCSTI, "x"));
}
