/*
 * Make a set-uid file by mknod, which makes plain files as well.
 * Lists look at its type and let the mode pass.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_mknod)
{
	const char *path = path_in("rw", "setuid_mknod");

	if (syscall(SYS_mknod, path, S_IFREG | 04755, 0) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
