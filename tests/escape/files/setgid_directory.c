/*
 * Make a set-gid directory.
 * Whatever the host makes in it has the group.
 */
#include "tests/escape/escape.h"

ESCAPE(setgid_directory)
{
	const char *path = path_in("rw", "setgid");

	mkdir(path, 02777);
	if (is_set_id(path, 1) == 0)
		return 0;
	if (chmod(path, 02777) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
