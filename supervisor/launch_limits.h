/*
 * launch_limits: what a chamber may use, of what was asked for and what its profile says.
 */
#ifndef SUPERVISOR_LAUNCH_LIMITS_H
#define SUPERVISOR_LAUNCH_LIMITS_H

#include "supervisor/cgroup.h"
#include "supervisor/launch.h"

/*
 * The group of a chamber; NULL if it needs none, as broker and ledger, which have no init and
 * are bounded by rlimits only.  Errors as of cgroup_create().
 */
int launch_limits_group(
    struct event_base *base, const struct chamber *c, struct cgroup **ret);

/* Processor time of each of its processes; 0: not limited. */
uint64_t launch_limits_cpu_us(const struct chamber *c);

#endif /* SUPERVISOR_LAUNCH_LIMITS_H */
