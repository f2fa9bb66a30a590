/*
 * Learn since when the host is up.
 * Random numbers have been seeded with it, and it tells one machine from another.
 */
#include "tests/escape/escape.h"

#include <sys/sysinfo.h>
#include <time.h>

ESCAPE(uptime)
{
	struct timespec now;
	struct sysinfo info;
	long since = arg_number("uptime");

	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0 || sysinfo(&info) < 0)
		return errno;
	return now.tv_sec >= since || info.uptime >= since ? 0 : CONTAINED;
}
