/*
 * Kill a process of the host by tkill.
 * No thread group to look at.
 */
#include "tests/escape/escape.h"

ESCAPE(tkill)
{
	return tried(syscall(SYS_tkill, arg_number("victim"), SIGUSR1));
}
