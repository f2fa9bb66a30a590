/*
 * launch_limits: what a chamber may use, of what was asked for and what its profile says.
 */
#ifndef SUPERVISOR_LAUNCH_LIMITS_H
#define SUPERVISOR_LAUNCH_LIMITS_H

#include "supervisor/cgroup.h"
#include "supervisor/launch.h"

/* The group of a chamber, not made yet. */
struct launch_group {
	struct cgroup_host *host; /* NULL: none is needed */
	struct cgroup_limits limits;
	unsigned kind; /* cgroup_kind() */
	unsigned bounds; /* cgroup_bounds() */
};

/*
 * Which group a chamber needs: none for broker and ledger, which have no init and are bounded
 * by rlimits only.  Returns 0, -ENOMEM, or an error of cgroup_kind().
 */
int launch_limits_find(const struct chamber *c, struct launch_group *ret);

/* Processor time of each of its processes; 0: not limited. */
uint64_t launch_limits_cpu_us(const struct chamber *c);

#endif /* SUPERVISOR_LAUNCH_LIMITS_H */
