/*
 * Read the kernel's command line.
 * Some carry passwords.
 */
#include "tests/escape/escape.h"

ESCAPE(command_line)
{
	return tried_open("/proc/cmdline", O_RDONLY);
}
