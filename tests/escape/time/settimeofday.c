/*
 * Set the time zone of the kernel: here, to what it is.
 * The same call sets the time.
 */
#include "tests/escape/escape.h"

#include <sys/time.h>

ESCAPE(settimeofday)
{
	struct timezone zone;

	if (syscall(SYS_gettimeofday, NULL, &zone) < 0)
		return errno;
	return tried(syscall(SYS_settimeofday, NULL, &zone));
}
