/*
 * Map a file of a read-only mount shared and writable.
 * Dirty COW, CVE-2016-5195, wrote through a private one.
 */
#include "tests/escape/escape.h"

ESCAPE(map_shared_ro)
{
	int fd = open(path_in("ro", "file"), O_RDWR);
	void *p;

	if (fd < 0)
		return errno;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? errno : 0;
}
