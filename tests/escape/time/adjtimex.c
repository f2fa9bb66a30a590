/*
 * Adjust the clock's speed: here, to what it is.
 * A slow clock keeps a deadline far away.
 */
#include "tests/escape/escape.h"

#include <sys/timex.h>

ESCAPE(adjtimex)
{
	struct timex t = { .modes = 0 };

	if (syscall(SYS_adjtimex, &t) < 0)
		return errno;
	t.modes = ADJ_FREQUENCY;
	return tried(syscall(SYS_adjtimex, &t));
}
