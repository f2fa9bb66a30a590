/*
 * Make a file set-uid by chmod.
 * What a shell would do.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_chmod)
{
	const char *path = path_in("rw", "setuid_chmod");

	close(open(path, O_WRONLY | O_CREAT, 0700));
	if (chmod(path, 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
