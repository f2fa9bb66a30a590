/*
 * Adjust the clock's speed by clock_adjtime.
 * For any clock.
 */
#include "tests/escape/escape.h"

#include <sys/timex.h>

ESCAPE(clock_adjtime)
{
	struct timex t = { .modes = 0 };

	if (syscall(SYS_clock_adjtime, 0, &t) < 0)
		return errno;
	t.modes = ADJ_FREQUENCY;
	return tried(syscall(SYS_clock_adjtime, 0, &t));
}
