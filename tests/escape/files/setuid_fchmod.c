/*
 * Make a file set-uid by fchmod.
 * And by a descriptor.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_fchmod)
{
	const char *path = path_in("rw", "setuid_fchmod");
	int fd = open(path, O_WRONLY | O_CREAT, 0700);

	if (fchmod(fd, 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
