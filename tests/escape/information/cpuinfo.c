/*
 * Read what the machine is made of.
 * And /proc/meminfo, /proc/stat, /proc/interrupts beside it.
 */
#include "tests/escape/escape.h"

ESCAPE(cpuinfo)
{
	return tried_open("/proc/cpuinfo", O_RDONLY);
}
