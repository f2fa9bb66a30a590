/*
 * Take a mounted file system to reconfigure it.
 * The newer remount.
 */
#include "tests/escape/escape.h"

ESCAPE(fspick)
{
	return tried(syscall(SYS_fspick, AT_FDCWD, "/proc", 1));
}
