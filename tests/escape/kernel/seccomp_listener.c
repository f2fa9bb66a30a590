/*
 * Install a filter with a listener, and answer one's own notifications with "continue".
 * A listener is the one whose word overrides other filters' notifications.
 */
#include "tests/escape/escape.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

ESCAPE(seccomp_listener)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return tried(syscall(
	    SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog));
}
