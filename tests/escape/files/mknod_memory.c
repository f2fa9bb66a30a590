/*
 * Make a character device of one's own, by mknodat.
 * The same with /dev/mem.
 */
#include "tests/escape/escape.h"

#include <sys/sysmacros.h>

ESCAPE(mknod_memory)
{
	return tried(mknodat(AT_FDCWD, path_in("rw", "memory"), S_IFCHR | 0600, makedev(1, 1)));
}
