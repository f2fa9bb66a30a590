/*
 * Make such a link, and follow it.
 * The same, without help.
 */
#include "tests/escape/escape.h"

ESCAPE(symlink_made)
{
	const char *link = path_in("rw", "made");

	unlink(link);
	if (symlink(path_in("secret", "file"), link) < 0)
		return errno;
	return tried_open(link, O_RDONLY);
}
