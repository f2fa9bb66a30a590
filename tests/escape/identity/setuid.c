/*
 * Become another user.
 * In a chamber that root started, another chamber's.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid)
{
	return tried(syscall(SYS_setuid, 65534));
}
