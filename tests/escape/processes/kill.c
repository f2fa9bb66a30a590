/*
 * Kill a process of the host.
 * Any chamber of one's own uid could, before it had pids of its own.
 */
#include "tests/escape/escape.h"

ESCAPE(kill)
{
	return tried(kill((pid_t)arg_number("victim"), SIGUSR1));
}
