/*
 * Load another kernel.
 * Around every signature that the first one was checked for.
 */
#include "tests/escape/escape.h"

ESCAPE(kexec)
{
	return tried(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}
