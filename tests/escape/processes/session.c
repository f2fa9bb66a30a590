/*
 * Ask for the session of a process of the host.
 * Whether there is one by that number is an answer.
 */
#include "tests/escape/escape.h"

ESCAPE(session)
{
	return tried(getsid((pid_t)arg_number("victim")));
}
