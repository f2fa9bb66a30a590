/*
 * Read the names of the host's sockets.
 * greywall#55: what may be connected to.
 */
#include "tests/escape/escape.h"

ESCAPE(socket_names)
{
	int found = file_has("/proc/self/net/unix", arg("abstract"));

	return found < 0 ? errno : found ? 0 : CONTAINED;
}
