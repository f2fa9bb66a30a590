/*
 * Read the number of this boot.
 * Two chambers know by it that they are on one machine.
 */
#include "tests/escape/escape.h"

ESCAPE(boot_id)
{
	return tried_open("/proc/sys/kernel/random/boot_id", O_RDONLY);
}
