/*
 * Make a file system by the newer call.
 * CVE-2022-0185: its parameters overflowed the heap.
 */
#include "tests/escape/escape.h"

ESCAPE(fsopen)
{
	return tried(syscall(SYS_fsopen, "tmpfs", 1));
}
