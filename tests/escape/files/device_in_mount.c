/*
 * Open a device that stands in a writable mount.
 * A directory that was once a root file system has some.
 */
#include "tests/escape/escape.h"

ESCAPE(device_in_mount)
{
	return tried_open(path_in("rw", "device"), O_RDONLY);
}
