/*
 * Hold a process of the host by a descriptor.
 * What a pid was meant to be; passed on, it reaches further.
 */
#include "tests/escape/escape.h"

ESCAPE(pidfd_open)
{
	return tried(syscall(SYS_pidfd_open, arg_number("victim"), 0));
}
