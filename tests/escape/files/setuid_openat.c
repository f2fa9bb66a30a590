/*
 * Make a set-uid file by openat.
 * A list that knows open is none.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_openat)
{
	const char *path = path_in("rw", "setuid_openat");

	if (syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 06755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
