/*
 * Set a timer that wakes the machine from its sleep.
 * CLOCK_BOOTTIME_ALARM, for an empty battery.
 */
#include "tests/escape/escape.h"

#include <sys/timerfd.h>

ESCAPE(wake_alarm)
{
	return tried(timerfd_create(9 /* CLOCK_BOOTTIME_ALARM */, 0));
}
