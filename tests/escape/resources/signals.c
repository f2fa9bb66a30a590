/*
 * Queue 4000 signals to itself.
 * Each is memory of the kernel's.
 */
#include "tests/escape/escape.h"

ESCAPE(signals)
{
	sigset_t one;
	int ret = 0;

	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &one, NULL);
	for (int i = 0; i < 4000 && ret == 0; i++)
		ret = tried(sigqueue(getpid(), SIGRTMIN, (union sigval){ 0 }));
	return ret;
}
