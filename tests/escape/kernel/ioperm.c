/*
 * Ask for single I/O ports.
 * The newer half.
 */
#include "tests/escape/escape.h"

ESCAPE(ioperm)
{
	return tried(syscall(SYS_ioperm, 0x80, 1, 1));
}
