/*
 * Trace a child of its own, to change its system calls after they were judged.
 * Before Linux 4.8 a tracer rewrote a call after seccomp had passed it.
 */
#include "tests/escape/escape.h"

#include <sys/ptrace.h>

ESCAPE(ptrace_own_child)
{
	return tried(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
