/*
 * Call by a number of x32's.
 * CVE-2014-0038; and lists of numbers that forgot the bit.
 */
#include "tests/escape/escape.h"

ESCAPE(x32)
{
	return tried(syscall(0x40000000 | SYS_getpid));
}
