/*
 * Hang up the terminal.
 * Ends the session of whoever shares it.
 */
#include "tests/escape/escape.h"

ESCAPE(vhangup)
{
	return tried(syscall(SYS_vhangup));
}
