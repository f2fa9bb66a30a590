/*
 * Reserve a gibibyte in /tmp without writing it.
 * fallocate needs no time to fill what write does slowly.
 */
#include "tests/escape/escape.h"

ESCAPE(tmp_allocate)
{
	const char *path = own_path("/tmp");
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	int ret = tried(fallocate(fd, 0, 0, 1 << 30));

	unlink(path);
	return ret;
}
