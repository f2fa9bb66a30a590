/*
 * Move a process of the host to one processor.
 * Side by side with the one who measures it.
 */
#include "tests/escape/escape.h"

ESCAPE(affinity)
{
	cpu_set_t one;

	if (sched_getaffinity(0, sizeof(one), &one) < 0)
		return BROKEN;
	return tried(sched_setaffinity((pid_t)arg_number("victim"), sizeof(one), &one));
}
