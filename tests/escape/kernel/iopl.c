/*
 * Raise the I/O privilege level, to speak to devices by port.
 * The older half of /dev/mem.
 */
#include "tests/escape/escape.h"

ESCAPE(iopl)
{
	return tried(syscall(SYS_iopl, 3));
}
