/*
 * Make the one device that anybody may make since Linux 5.8.
 * A whiteout hides a file of a lower layer from the host's overlay.
 */
#include "tests/escape/escape.h"

ESCAPE(mknod_whiteout)
{
	return tried(mknod(path_in("rw", "whiteout"), S_IFCHR | 0600, 0));
}
