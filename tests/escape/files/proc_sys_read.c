/*
 * Read the settings of the kernel.
 * What an exploit asks first.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_sys_read)
{
	return tried_open("/proc/sys/kernel/version", O_RDONLY);
}
