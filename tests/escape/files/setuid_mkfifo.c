/*
 * Make a set-uid fifo.
 * No program runs it; it is the same rule.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_mkfifo)
{
	const char *path = path_in("rw", "setuid_mkfifo");

	if (syscall(SYS_mknodat, AT_FDCWD, path, S_IFIFO | 06755, 0) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
