/*
 * Give a file an attribute of any kind.
 * overlay's own attributes redirect whole directories.
 */
#include "tests/escape/escape.h"

#include <sys/xattr.h>

ESCAPE(setxattr_user)
{
	const char *path = path_in("rw", "setxattr_user");

	close(open(path, O_WRONLY | O_CREAT, 0600));
	return tried(setxattr(path, "user.overlay.opaque", "y", 1, 0));
}
