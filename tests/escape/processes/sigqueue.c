/*
 * Signal a process of the host by rt_sigqueueinfo.
 * With a made-up sender: CVE-2011-1182.
 */
#include "tests/escape/escape.h"

ESCAPE(sigqueue)
{
	siginfo_t si = { .si_code = SI_QUEUE };

	return tried(syscall(SYS_rt_sigqueueinfo, arg_number("victim"), SIGUSR1, &si));
}
