/*
 * Make a set-uid file without a name, and give it one later.
 * O_TMPFILE has a mode, too.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_tmpfile)
{
	const char *path = path_in("rw", "setuid_tmpfile");
	int fd = (int)syscall(SYS_openat, AT_FDCWD, arg("rw"), O_WRONLY | O_TMPFILE, 04755);
	char from[64];

	if (fd < 0)
		return errno;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
