/*
 * Make a set-uid file by creat.
 * An old name for an old call.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_creat)
{
	const char *path = path_in("rw", "setuid_creat");

	if (syscall(SYS_creat, path, 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
