/*
 * Push a filter onto the other threads.
 * To deafen threads that are not one's own: a filter that fails their calls.
 */
#include "tests/escape/escape.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

ESCAPE(seccomp_tsync)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return tried(
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog));
}
