/*
 * Make a pid namespace.
 * Processes in it hide from whoever counts them by number.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_pid)
{
	return tried(unshare(CLONE_NEWPID));
}
