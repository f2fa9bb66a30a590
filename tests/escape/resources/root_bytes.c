/*
 * Write into the root itself, which is a tmpfs of no size.
 * bubblewrap's root is one that a program may fill.
 */
#include "tests/escape/escape.h"

ESCAPE(root_bytes)
{
	int fd = open("/escape-fill", O_WRONLY | O_CREAT, 0600);
	int ret = fd < 0 ? errno : tried(fallocate(fd, 0, 0, 4 << 20));

	unlink("/escape-fill");
	return ret;
}
