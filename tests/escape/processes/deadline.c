/*
 * Run before everybody else by sched_setattr.
 * SCHED_DEADLINE, CVE-2016-3955's time.
 */
#include "tests/escape/escape.h"

ESCAPE(deadline)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} a = { .size = 48, .policy = SCHED_RR, .priority = 1 };

	return tried(syscall(SYS_sched_setattr, 0, &a, 0));
}
