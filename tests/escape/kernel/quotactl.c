/*
 * Ask for quotas of the host's file system.
 * A call of root's that reaches block devices by name.
 */
#include "tests/escape/escape.h"

ESCAPE(quotactl)
{
	/* Q_SYNC of everything: needs no device */
	return tried(syscall(SYS_quotactl, 0x800001 << 8, NULL, 0, NULL));
}
