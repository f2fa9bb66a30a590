/*
 * Have the whole machine write to its disks.
 * Once a second, everybody waits.
 */
#include "tests/escape/escape.h"

ESCAPE(sync)
{
	return tried(syncfs(open("/dev/shm", O_RDONLY)));
}
