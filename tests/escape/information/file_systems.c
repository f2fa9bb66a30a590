/*
 * Read what is mounted on the host.
 * Beyond what is mounted here.
 */
#include "tests/escape/escape.h"

ESCAPE(file_systems)
{
	int found = file_has("/proc/self/mountinfo", " /sys ");

	return found < 0 ? errno : found ? 0 : CONTAINED;
}
