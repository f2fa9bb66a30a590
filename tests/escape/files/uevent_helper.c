/*
 * Write to a file of /sys.
 * uevent_helper names a program that the kernel starts as root.
 */
#include "tests/escape/escape.h"

ESCAPE(uevent_helper)
{
	return tried_open("/sys/kernel/rcu_expedited", O_WRONLY);
}
