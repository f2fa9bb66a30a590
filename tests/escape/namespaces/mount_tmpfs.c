/*
 * Mount a tmpfs.
 * Whoever mounts covers what is checked.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(mount_tmpfs)
{
	return tried(mount("none", "/tmp", "tmpfs", 0, NULL));
}
