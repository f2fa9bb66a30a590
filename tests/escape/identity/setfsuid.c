/*
 * Become another user for files only.
 * A call that cannot even fail is easily forgotten.
 */
#include "tests/escape/escape.h"

ESCAPE(setfsuid)
{
	syscall(SYS_setfsuid, 65534);
	return syscall(SYS_setfsuid, -1) == 65534 ? 0 : EPERM;
}
