/*
 * Write to /proc/sysrq-trigger.
 * "b" is a reboot at once.
 */
#include "tests/escape/escape.h"

ESCAPE(sysrq)
{
	return tried_open("/proc/sysrq-trigger", O_WRONLY);
}
