/*
 * Give one half of a pair a name, for others to find.
 * A socket in a writable mount that a program of the host connects to.
 */
#include "tests/escape/escape.h"

ESCAPE(pair_bind)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int pair[2];

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path_in("rw", "bound"));
	unlink(at.sun_path);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return errno;
	return tried(bind(pair[0], (struct sockaddr *)&at, sizeof(at)));
}
