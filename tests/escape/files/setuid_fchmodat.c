/*
 * Make a file set-uid by fchmodat.
 * And by a directory.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_fchmodat)
{
	const char *path = path_in("rw", "setuid_fchmodat");

	close(open(path, O_WRONLY | O_CREAT, 0700));
	if (syscall(SYS_fchmodat, AT_FDCWD, path, 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
