/*
 * Make a set-uid file in a writable mount, by open's mode.
 * On the host it is a set-uid program of whoever owns the directory.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_open)
{
	const char *path = path_in("rw", "setuid_open");

	if (syscall(SYS_open, path, O_WRONLY | O_CREAT | O_EXCL, 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
