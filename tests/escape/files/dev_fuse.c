/*
 * Open /dev/fuse.
 * A file system of one's own stops whoever reads it, the kernel included.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_fuse)
{
	return tried_open("/dev/fuse", O_RDWR);
}
