/*
 * Ask which file systems the kernel knows.
 * Old calls are the least looked at.
 */
#include "tests/escape/escape.h"

ESCAPE(sysfs_call)
{
	return tried(syscall(SYS_sysfs, 3));
}
