#include "supervisor/launch_limits.h"

#include <errno.h>
#include <stddef.h>

#include "supervisor/profiles.h"

/* What was asked for, else what the profile says; 0: none. */
static uint64_t
limit_of(uint64_t asked, uint64_t profile)
{
	return asked != 0 ? asked : profile == UINT64_MAX ? 0 : profile;
}

int
launch_limits_find(const struct chamber *c, struct launch_group *ret)
{
	struct cgroup_limits *limits = &ret->limits;

	*ret = (struct launch_group){ .host = NULL };
	if (!c->init || c->profile == NULL)
		return 0;
	ret->host = cgroup_host();
	if (ret->host == NULL)
		return -ENOMEM;
	limits->memory_bytes = limit_of(c->memory_bytes, c->profile->memory_bytes);
	limits->cpu_percent = limit_of(c->cpu_percent, c->profile->cpu_percent);
	limits->pids = (c->pids != 0 ? c->pids : c->profile->pids) + 1; /* and pid 1 */
	limits->asked = (limits->memory_bytes != 0 ? CGROUP_MEMORY : 0) |
	    (limits->cpu_percent != 0 ? CGROUP_CPU : 0) | (c->pids != 0 ? CGROUP_PIDS : 0);
	ret->bounds = cgroup_bounds(ret->host, limits);
	return cgroup_kind(ret->host, limits, &ret->kind);
}

uint64_t
launch_limits_cpu_us(const struct chamber *c)
{
	return c->profile == NULL ? 0
				  : limit_of(c->cpu_seconds, c->profile->cpu_seconds) * 1000000;
}
