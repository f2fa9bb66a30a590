/*
 * Make a socket's node by mknod.
 * A name that a program of the host connects to.
 */
#include "tests/escape/escape.h"

ESCAPE(mknod_socket)
{
	return tried(mknod(path_in("rw", "socket"), S_IFSOCK | 0600, 0));
}
