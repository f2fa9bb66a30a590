/*
 * Signal a thread of the host by rt_tgsigqueueinfo.
 * The same call, less known.
 */
#include "tests/escape/escape.h"

ESCAPE(tgsigqueue)
{
	siginfo_t si = { .si_code = SI_QUEUE };
	long pid = arg_number("victim");

	return tried(syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGUSR1, &si));
}
