/*
 * Read the kernel's table of symbols.
 * The first thing that an exploit needs.
 */
#include "tests/escape/escape.h"

ESCAPE(kallsyms)
{
	return tried_open("/proc/kallsyms", O_RDONLY);
}
