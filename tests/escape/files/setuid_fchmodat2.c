/*
 * Make a file set-uid by fchmodat2, which is newer than most lists.
 * Linux 6.6; moby#47341 forgot it the other way round.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_fchmodat2)
{
	const char *path = path_in("rw", "setuid_fchmodat2");

	close(open(path, O_WRONLY | O_CREAT, 0700));
	if (syscall(452, AT_FDCWD, path, 04755, 0) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
