/*
 * Signal a process group of the host.
 * killpg(0) of a child that was not given a group of its own.
 */
#include "tests/escape/escape.h"

ESCAPE(kill_group)
{
	return tried(kill(-(pid_t)arg_number("group"), SIGUSR1));
}
