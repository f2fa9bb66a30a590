/*
 * Make 4000 timers.
 * Each wakes the processor as often as it likes.
 */
#include "tests/escape/escape.h"

#include <time.h>

ESCAPE(timers)
{
	struct sigevent e = { .sigev_notify = SIGEV_NONE };
	int ret = 0, id;

	for (int i = 0; i < 4000 && ret == 0; i++)
		ret = tried(syscall(SYS_timer_create, CLOCK_MONOTONIC, &e, &id));
	return ret;
}
