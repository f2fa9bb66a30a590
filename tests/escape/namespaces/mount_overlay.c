/*
 * Mount an overlay, to write what is read-only.
 * CVE-2021-3493 and CVE-2023-0386 were in overlayfs below a user namespace.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(mount_overlay)
{
	return tried(mount("none", "/tmp", "overlay", 0, "lowerdir=/usr:/etc"));
}
