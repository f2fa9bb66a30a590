/*
 * Make a set-uid file by openat2, whose mode lies in memory, out of a filter's sight.
 * There is nothing to look at but the number.
 */
#include "tests/escape/escape.h"

#include <linux/openat2.h>

ESCAPE(setuid_openat2)
{
	const char *path = path_in("rw", "setuid_openat2");
	struct open_how how = { .flags = O_WRONLY | O_CREAT, .mode = 04755 };

	if (syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
