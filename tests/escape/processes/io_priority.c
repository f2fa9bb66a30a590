/*
 * Change the i/o priority of a process of the host.
 * The idle class waits for ever on a busy disk.
 */
#include "tests/escape/escape.h"

ESCAPE(io_priority)
{
	return tried(syscall(SYS_ioprio_set, 1, arg_number("victim"), 2 << 13 | 5));
}
