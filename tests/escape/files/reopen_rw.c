/*
 * Open a descriptor for reading again for writing, through /proc/self/fd.
 * The descriptor's mode is no boundary where the file's is not.
 */
#include "tests/escape/escape.h"

ESCAPE(reopen_rw)
{
	int fd = open(path_in("ro", "file"), O_RDONLY);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return tried_open(path, O_RDWR);
}
