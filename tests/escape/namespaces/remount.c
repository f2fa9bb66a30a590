/*
 * Make a mount writable that is not.
 * procd#46: read-only remounts that failed unseen, so that the jail could undo the rest.
 */
#include "tests/escape/escape.h"

#include <sys/mount.h>

ESCAPE(remount)
{
	return tried(mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND, NULL));
}
