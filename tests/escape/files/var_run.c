/*
 * Look for the sockets and states of daemons in /run.
 * docker.sock, the session bus, systemd's private socket.
 */
#include "tests/escape/escape.h"

ESCAPE(var_run)
{
	return tried_open("/run", O_RDONLY | O_DIRECTORY);
}
