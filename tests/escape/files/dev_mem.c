/*
 * Open the machine's memory.
 * /dev/mem, the oldest device to be left out.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_mem)
{
	return tried_open("/dev/mem", O_RDONLY | O_PATH);
}
