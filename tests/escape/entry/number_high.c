/*
 * Call a number with high bits set, of which the kernel takes the low.
 * A 64-bit comparison of what the kernel reads as int.
 */
#include "tests/escape/escape.h"

ESCAPE(number_high)
{
	return tried(syscall(0x100000000L | SYS_unshare, CLONE_NEWUSER));
}
