/*
 * Fill /tmp.
 * With the host's own it fills the host's disk, or its memory.
 */
#include "tests/escape/escape.h"

ESCAPE(tmp_bytes)
{
	const char *path = own_path("/tmp");
	static char block[1 << 16];
	int fd = open(path, O_WRONLY | O_CREAT, 0600), ret = 0;

	for (int i = 0; i < 64 && ret == 0; i++)
		ret = write(fd, block, sizeof(block)) != sizeof(block) ? errno : 0;
	unlink(path);
	return ret;
}
