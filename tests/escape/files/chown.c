/*
 * Give a file away.
 * To root, set-uid before or after.
 */
#include "tests/escape/escape.h"

ESCAPE(chown)
{
	const char *path = path_in("rw", "chown");

	close(open(path, O_WRONLY | O_CREAT, 0600));
	return tried(chown(path, 65534, 65534));
}
