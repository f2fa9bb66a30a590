/*
 * Reach the reboot call: here, what ctrl-alt-del does, set to what it is.
 * From the first pid namespace it ends the machine.
 */
#include "tests/escape/escape.h"

ESCAPE(reboot)
{
	int on = file_has("/proc/sys/kernel/ctrl-alt-del", "1") == 1;

	return tried(syscall(SYS_reboot, 0xfee1dead, 672274793, on ? 0x89abcdef : 0, NULL));
}
