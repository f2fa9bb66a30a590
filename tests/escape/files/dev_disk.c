/*
 * Open a disk of the host.
 * Beneath every file system and its permissions.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_disk)
{
	static const char *const disks[] = { "/dev/vda", "/dev/sda", "/dev/nvme0n1",
		"/dev/xvda", "/dev/dm-0", "/dev/loop0" };
	int ret = ENOENT;

	for (int i = 0; i < 6 && ret != 0; i++)
		ret = tried_open(disks[i], O_RDONLY);
	return ret;
}
