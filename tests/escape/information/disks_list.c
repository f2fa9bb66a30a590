/*
 * Ask for the size and the free space of the host's disk.
 * ustat tells by a device's number, without a path.
 */
#include "tests/escape/escape.h"

ESCAPE(disks_list)
{
	struct stat st;
	char ustat[64];

	if (stat(arg("ro"), &st) < 0)
		return errno;
	return tried(syscall(SYS_ustat, st.st_dev, ustat));
}
