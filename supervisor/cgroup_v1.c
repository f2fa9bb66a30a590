#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/cgroup_private.h"

/* Each controller is a hierarchy of its own; one that has this file has what we need. */
static const struct {
	enum cgroup_part part;
	unsigned ability;
	const char *controller, *limit;
} controllers[] = {
	{ PART_MEMORY, CGROUP_MEMORY, "memory", "memory.limit_in_bytes" },
	{ PART_PIDS, CGROUP_PIDS, "pids", "cgroup.procs" }, /* its root has no limit */
	{ PART_CPU, CGROUP_CPU, "cpu", "cpu.cfs_quota_us" },
};

/* Our own group in it, or its root where our own is not to be seen. */
static char *
base_of(const char *root, const char *self, const char *controller, const char *limit)
{
	cleanup_free char *own = cgroup_path_of(self, controller);
	cleanup_free char *file = NULL;
	const char *paths[] = { own, "" };
	char *base;

	for (size_t i = own == NULL; i < countof(paths); i++) {
		if (asprintf(&base, "%s/%s%s", root, controller,
			strcmp(paths[i], "/") == 0 ? "" : paths[i]) < 0)
			return NULL;
		free(file);
		if (asprintf(&file, "%s/%s", base, limit) < 0)
			file = NULL;
		if (file != NULL && access(file, F_OK) == 0 && cgroup_is_writable(base))
			return base;
		free(base);
	}
	return NULL;
}

void
cgroup_v1_look(struct cgroup_host *h, const char *root, const char *self)
{
	for (size_t i = 0; i < countof(controllers); i++) {
		char *base =
		    base_of(root, self, controllers[i].controller, controllers[i].limit);

		h->bases[controllers[i].part] = base;
		if (base != NULL)
			h->status.abilities |= controllers[i].ability;
	}
	if ((h->status.abilities & (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU)) == 0) {
		h->status.abilities = 0;
		return;
	}
	h->status.backend = CGROUP_V1;
	h->status.advice = "cgroup v1: start with systemd.unified_cgroup_hierarchy=1 for v2, "
			   "which enters a group at no cost";
}

/*
 * A bare v2 beside it is made along with any of them: it can kill, and says when it is empty.
 */
int
cgroup_v1_make(struct cgroup *g, unsigned kind)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < countof(controllers); i++)
		if (kind & controllers[i].ability)
			r = cgroup_part_make(g, controllers[i].part);
	if (r == 0 && g->host->bases[PART_UNIFIED] != NULL)
		r = cgroup_part_make(g, PART_UNIFIED);
	cgroup_counter_open(g, COUNTER_OOM, PART_MEMORY, "memory.oom_control");
	cgroup_counter_open(g, COUNTER_PEAK, PART_MEMORY, "memory.max_usage_in_bytes");
	cgroup_counter_open(g, COUNTER_PIDS, PART_PIDS, "pids.events");
	cgroup_counter_open(g, COUNTER_PROCESSES, PART_PIDS, "pids.peak");
	cgroup_counter_open(g, COUNTER_CPU, PART_UNIFIED, "cpu.stat");
	return r;
}

/* Swap is bounded with memory, where the kernel counts it. */
int
cgroup_v1_limit(struct cgroup *g, const struct cgroup_limits *l)
{
	struct cgroup_setting s[] = {
		{ PART_MEMORY, "memory.limit_in_bytes", "", false },
		{ PART_MEMORY, "memory.memsw.limit_in_bytes", "", true },
		{ PART_PIDS, "pids.max", "", false },
		{ PART_CPU, "cpu.cfs_period_us", "", false },
		{ PART_CPU, "cpu.cfs_quota_us", "", false },
	};

	snprintf(s[0].value, sizeof(s[0].value), "%llu", (unsigned long long)l->memory_bytes);
	snprintf(s[1].value, sizeof(s[1].value), "%llu", (unsigned long long)l->memory_bytes);
	snprintf(s[2].value, sizeof(s[2].value), "%llu", (unsigned long long)l->pids);
	snprintf(s[3].value, sizeof(s[3].value), "%u", CGROUP_PERIOD_US);
	snprintf(s[4].value, sizeof(s[4].value), "%llu",
	    (unsigned long long)(CGROUP_PERIOD_US * l->cpu_percent / 100));
	return cgroup_settings_apply(g, s, countof(s));
}
