/*
 * Reserve 64 MiB in /dev/shm.
 * It is memory, and often half of the machine's.
 */
#include "tests/escape/escape.h"

ESCAPE(shm_bytes)
{
	const char *path = own_path("/dev/shm");
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	int ret = fd < 0 ? errno : tried(fallocate(fd, 0, 0, 64 << 20));

	unlink(path);
	return ret;
}
