/*
 * Become another user by setresuid.
 * Three numbers instead of one.
 */
#include "tests/escape/escape.h"

ESCAPE(setresuid)
{
	return tried(syscall(SYS_setresuid, 65534, 65534, 65534));
}
