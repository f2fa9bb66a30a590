/*
 * Compare kernel objects of two processes.
 * Tells where in the kernel's memory things lie in relation to each other.
 */
#include "tests/escape/escape.h"

ESCAPE(kcmp)
{
	return tried(
	    syscall(SYS_kcmp, getpid(), arg_number("victim"), 0 /* KCMP_FILE */, 0, 0));
}
