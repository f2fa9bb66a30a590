/*
 * Have the kernel signal a process of the host when a descriptor is ready.
 * F_SETOWN: the signal has the sender's uid and nobody's pid namespace.
 */
#include "tests/escape/escape.h"

ESCAPE(owner)
{
	int p[2];

	if (pipe(p) < 0)
		return BROKEN;
	return tried(fcntl(p[0], F_SETOWN, (int)arg_number("victim")));
}
