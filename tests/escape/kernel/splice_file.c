/*
 * Splice a page of a read-only file into a pipe.
 * The first half of Dirty Pipe, CVE-2022-0847, which wrote into such pages.
 */
#include "tests/escape/escape.h"

ESCAPE(splice_file)
{
	int fd = open(path_in("ro", "file"), O_RDONLY), p[2];

	if (fd < 0 || pipe(p) < 0)
		return BROKEN;
	return tried(syscall(SYS_splice, fd, NULL, p[1], NULL, 1, 0));
}
