/*
 * Signal whatever process there is, and see whether more than one's own are reached.
 * Workers of one uid killed each other, before there were pids of one's own.
 */
#include "tests/escape/escape.h"

ESCAPE(neighbour_signal)
{
	/* its process group: what it leads has the number that it has outside */
	return tried(kill(-(pid_t)arg_number("neighbour_pid"), 0));
}
