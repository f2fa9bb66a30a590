/*
 * Install a filter by the older call, prctl.
 * A filter that fails setuid() or close() in a program that trusts it (CVE-2014's sendmail).
 */
#include "tests/escape/escape.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

ESCAPE(seccomp_prctl)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return tried(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0));
}
