/*
 * Mount a whole /proc, with sys and sysrq-trigger in it.
 * Masked paths come back so; runc has seven CVEs about them.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(mount_proc)
{
	return tried(mount("none", "/proc", "proc", 0, NULL));
}
