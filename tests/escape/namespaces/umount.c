/*
 * Unmount what covers something.
 * CVE-2014-7970's neighbours: beneath a mask lies what it masks.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(umount)
{
	return tried(umount2("/proc", MNT_DETACH));
}
