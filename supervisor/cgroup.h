/*
 * cgroup: limits that only a cgroup enforces, one group per chamber.
 *
 * As root on cgroup v1 (memory, cpu).  Elsewhere there is no group: memory and
 * processes are then bounded by rlimits, and a share of the processor is refused.
 *
 * A group ends with cgroup_destroy().  A killed supervisor leaves an empty directory, which
 * the next one that makes a group removes.
 */
#ifndef SUPERVISOR_CGROUP_H
#define SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup;

/*
 * Makes a group for a chamber with these limits (0: none).  Returns 0 and the group, or
 * NULL where no limit needs one; -ENOTSUP if nothing on this machine enforces a
 * limit on the processor; another negative errno.
 */
int cgroup_create(uint64_t memory_bytes, uint64_t cpu_percent, struct cgroup **ret);

/* Removes it; every process in it must be reaped.  Accepts NULL. */
void cgroup_destroy(struct cgroup *g);

/* The cgroup.procs files to join, NULL-terminated; NULL for no group.  Borrowed from `g`. */
const char *const *cgroup_procs(const struct cgroup *g);
bool cgroup_bounds_memory(const struct cgroup *g);
/* True if the kernel killed something in it for its memory. */
bool cgroup_was_oom(const struct cgroup *g);

#endif /* SUPERVISOR_CGROUP_H */
