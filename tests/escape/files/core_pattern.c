/*
 * Name a program of the host's that every crash starts.
 * CVE-2015-1318, CVE-2025-31133: /proc/sys/kernel/core_pattern, root outside a chamber.
 */
#include "tests/escape/escape.h"

ESCAPE(core_pattern)
{
	return tried_open("/proc/sys/kernel/core_pattern", O_WRONLY);
}
