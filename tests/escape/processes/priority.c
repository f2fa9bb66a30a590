/*
 * Change the priority of a process of the host.
 * A slow watchman sees less.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(priority)
{
	return tried(setpriority(PRIO_PROCESS, (id_t)arg_number("victim"), 1));
}
