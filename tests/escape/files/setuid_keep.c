/*
 * Write into a set-uid file that stands in a writable mount, so that it stays set-uid.
 * The kernel takes the bit off at a write; whoever may set modes puts it back.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_keep)
{
	const char *path = path_in("rw", "setuid");
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, "changed", 7) != 7)
		return errno;
	if (is_set_id(path, CONTAINED) == 0)
		return 0;
	return chmod(path, 04755) < 0 ? errno : is_set_id(path, CONTAINED);
}
