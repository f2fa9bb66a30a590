/*
 * Read the kernel's log through its device.
 * dmesg_restrict does not cover who may open it.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_kmsg)
{
	return tried(open("/dev/kmsg", O_RDONLY | O_NONBLOCK));
}
