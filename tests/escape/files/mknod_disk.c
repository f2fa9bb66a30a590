/*
 * Make a block device of one's own.
 * CVE-2018-1002105's friends: with the numbers of the disk it is the disk.
 */
#include "tests/escape/escape.h"

#include <sys/sysmacros.h>

ESCAPE(mknod_disk)
{
	return tried(mknod(path_in("rw", "disk"), S_IFBLK | 0600, makedev(254, 0)));
}
