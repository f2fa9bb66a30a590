/*
 * Look at pid 1 of one's own namespace, which once ran as somebody else.
 * CVE-2019-5736's kind: the first process holds what it was built with.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_init)
{
	return tried_open("/proc/1/environ", O_RDONLY);
}
