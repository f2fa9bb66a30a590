/*
 * Count the machine's interrupts.
 * They tell when somebody else types.
 */
#include "tests/escape/escape.h"

ESCAPE(interrupts)
{
	return tried_open("/proc/interrupts", O_RDONLY);
}
