/*
 * Find a descriptor that whoever started Caisson left open.
 * CVE-2024-21626: a directory of the host's, forgotten.
 */
#include "tests/escape/escape.h"

ESCAPE(inherited)
{
	struct stat st;

	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, &st) == 0)
			return 0;
	return EBADF;
}
