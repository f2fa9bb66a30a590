/*
 * List /sys.
 * Devices, addresses of the kernel, cgroups: a copy of the machine.
 */
#include "tests/escape/escape.h"

ESCAPE(sys)
{
	return tried_open("/sys", O_RDONLY | O_DIRECTORY);
}
