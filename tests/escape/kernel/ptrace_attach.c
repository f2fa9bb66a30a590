/*
 * Attach to a process of the host with ptrace.
 * Where yama is absent any process of the same uid may; a pid namespace is what stops it.
 */
#include "tests/escape/escape.h"

#include <sys/ptrace.h>

ESCAPE(ptrace_attach)
{
	return tried(ptrace(PTRACE_SEIZE, (pid_t)arg_number("victim"), NULL, NULL));
}
