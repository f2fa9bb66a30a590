/*
 * Mount a directory over another.
 * Over /usr/bin it replaces programs.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(mount_bind)
{
	return tried(mount("/tmp", "/usr", NULL, MS_BIND, NULL));
}
