/*
 * Open a file of the host beneath an inherited directory.
 * Landlock judges by where a file lies, and it lies outside.
 */
#include "tests/escape/escape.h"

#include <dirent.h>

ESCAPE(inherited_directory)
{
	int ret = EBADF;

	for (int fd = 3; fd < 1024 && ret != 0; fd++)
		if (openat(fd, "file", O_RDONLY) >= 0)
			ret = 0;
	return ret;
}
