/*
 * Make a hard link to a read-only file by its descriptor.
 * linkat and /proc/self/fd: CVE-2014's O_TMPFILE tricks.
 */
#include "tests/escape/escape.h"

ESCAPE(hard_link_fd)
{
	int fd = open(path_in("ro", "file"), O_RDONLY);
	char from[64];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	return tried(
	    linkat(AT_FDCWD, from, AT_FDCWD, path_in("rw", "linked_fd"), AT_SYMLINK_FOLLOW));
}
