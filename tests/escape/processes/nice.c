/*
 * Take a larger share of the processor.
 * A negative nice value needs a privilege.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(nice)
{
	return tried(setpriority(PRIO_PROCESS, 0, -5));
}
