/*
 * Read where the machine's devices lie in memory.
 * /proc/iomem, with addresses for root.
 */
#include "tests/escape/escape.h"

ESCAPE(io_ports)
{
	return tried_open("/proc/iomem", O_RDONLY);
}
