/*
 * Read the kernel's memory.
 * In it are everybody's keys.
 */
#include "tests/escape/escape.h"

ESCAPE(kcore)
{
	return tried_open("/proc/kcore", O_RDONLY);
}
