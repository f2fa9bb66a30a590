/*
 * Move a mount.
 * Away from what it covers.
 */
#include "tests/escape/escape.h"

ESCAPE(move_mount)
{
	return tried(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
}
