/*
 * Make memory that even the kernel's own map does not show.
 * A place for what nobody is to find, and a lock on physical memory.
 */
#include "tests/escape/escape.h"

ESCAPE(memfd_secret)
{
	return tried(syscall(SYS_memfd_secret, 0));
}
