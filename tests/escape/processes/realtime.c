/*
 * Run before everybody else.
 * One loop at a real-time priority is the end of a processor.
 */
#include "tests/escape/escape.h"

ESCAPE(realtime)
{
	struct sched_param p = { .sched_priority = 1 };

	return tried(sched_setscheduler(0, SCHED_RR, &p));
}
