/*
 * Change the limits of a process of the host.
 * Without files or memory it does as it would in a fault.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(limits)
{
	struct rlimit now;

	return tried(prlimit((pid_t)arg_number("victim"), RLIMIT_CORE, NULL, &now));
}
