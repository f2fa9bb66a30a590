#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/cgroup_private.h"

static const struct {
	unsigned ability;
	const char *name;
} controllers[] = {
	{ CGROUP_MEMORY, "memory" },
	{ CGROUP_PIDS, "pids" },
	{ CGROUP_CPU, "cpu" },
	{ CGROUP_IO, "io" },
};

#define LIMITS (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU)

static const char bare[] = "cgroup v2 has no memory, pids or cpu controller here: start with "
			   "systemd.unified_cgroup_hierarchy=1";
static const char not_ours[] = "no cgroup is ours to divide: run as root, or in a unit with "
			       "Delegate=yes (systemd-run --user --scope -p Delegate=yes)";
static const char partly[] = "not all of memory, pids, cpu and io are delegated: set "
			     "Delegate=yes in the unit (user@.service for a user)";

/* Controllers in one of the lists of words of `dir`. */
static unsigned
listed(const char *dir, const char *file)
{
	unsigned found = 0;

	for (size_t i = 0; i < countof(controllers); i++)
		if (cgroup_has_word(dir, file, controllers[i].name))
			found |= controllers[i].ability;
	return found;
}

static unsigned
count_bits(unsigned bits)
{
	return (unsigned)__builtin_popcount(bits);
}

/* Lets `dir` hand its controllers on.  EBUSY where processes are in it. */
static void
enable(const char *dir, unsigned wanted)
{
	cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char word[16];

	for (size_t i = 0; fd >= 0 && i < countof(controllers); i++) {
		if ((wanted & controllers[i].ability) == 0)
			continue;
		snprintf(word, sizeof(word), "+%s", controllers[i].name);
		cgroup_dir_write(fd, "cgroup.subtree_control", word);
	}
}

/*
 * Our own group can hand controllers on only when no process is in it: then we go into a leaf
 * of our own.  Where others stay, it was in vain.
 */
static void
divide_own(struct cgroup_host *h, const char *own)
{
	unsigned wanted = listed(own, "cgroup.controllers");

	if (wanted == 0 || cgroup_dir_make(own, &h->leaf) < 0)
		return;
	if (cgroup_dir_write(h->leaf.fd, "cgroup.procs", "0") < 0) {
		cgroup_dir_remove(&h->leaf);
		return;
	}
	h->own = strdup(own);
	enable(own, wanted);
	if (listed(own, "cgroup.subtree_control") == 0 || h->own == NULL)
		cgroup_v2_leave(h);
}

void
cgroup_v2_leave(struct cgroup_host *h)
{
	cleanup_fd int fd =
	    h->own != NULL ? open(h->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	char word[16];

	for (size_t i = 0; fd >= 0 && i < countof(controllers); i++) {
		if (!cgroup_has_word(h->own, "cgroup.subtree_control", controllers[i].name))
			continue;
		snprintf(word, sizeof(word), "-%s", controllers[i].name);
		cgroup_dir_write(fd, "cgroup.subtree_control", word);
	}
	if (fd >= 0)
		cgroup_dir_write(fd, "cgroup.procs", "0");
	if (cgroup_dir_remove(&h->leaf) < 0)
		cgroup_dir_forget(&h->leaf);
	free(h->own);
	h->own = NULL;
}

/* Where the hierarchy is: alone, or beside v1. */
static char *
mount_point(const char *root)
{
	static const char *const places[] = { "", "/unified" };
	cleanup_free char *file = NULL;
	char *mount;

	for (size_t i = 0; i < countof(places); i++) {
		free(file);
		if (asprintf(&file, "%s%s/cgroup.controllers", root, places[i]) < 0)
			file = NULL;
		if (file == NULL || access(file, F_OK) < 0)
			continue;
		return asprintf(&mount, "%s%s", root, places[i]) < 0 ? NULL : mount;
	}
	return NULL;
}

/*
 * The best group to divide, from our own one up to the top of what we may write: everything
 * above us that has what is needed is as good, and the nearest is under the most limits.
 * Nothing but our own one is changed.  `dir` is our own; what is returned is the caller's.
 */
static char *
find_base(const char *mount, const char *dir)
{
	cleanup_free char *at = strdup(dir);
	char *best = NULL;
	unsigned best_count = 0, n;

	while (at != NULL && strlen(at) >= strlen(mount) && cgroup_is_writable(at)) {
		n = count_bits(listed(at, "cgroup.subtree_control"));
		if (best == NULL || n > best_count) {
			free(best);
			best = strdup(at);
			best_count = n;
		}
		*strrchr(at, '/') = '\0';
	}
	return best;
}

void
cgroup_v2_look(struct cgroup_host *h, const char *root, const char *self)
{
	cleanup_free char *mount = mount_point(root), *path = cgroup_path_of(self, "");
	cleanup_free char *own = NULL;
	char *base;

	if (mount == NULL || path == NULL) {
		h->status.advice = bare;
		return;
	}
	if (asprintf(&own, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path) < 0) {
		own = NULL;
		return;
	}
	if (cgroup_is_writable(own) && listed(own, "cgroup.subtree_control") == 0)
		enable(own, listed(own, "cgroup.controllers")); /* the very top can */
	base = find_base(mount, own);
	if (base == NULL) {
		h->status.advice =
		    (listed(mount, "cgroup.controllers") & LIMITS) != 0 ? not_ours : bare;
		return;
	}
	if (count_bits(listed(base, "cgroup.subtree_control")) <
	    count_bits(listed(own, "cgroup.controllers"))) {
		divide_own(h, own);
		if (h->own != NULL) {
			free(base);
			base = strdup(own);
		}
	}
	if (base == NULL)
		return;
	h->bases[PART_UNIFIED] = base;
	h->status.abilities = listed(base, "cgroup.subtree_control");
	if ((h->status.abilities & LIMITS) != 0)
		h->status.backend = CGROUP_V2;
	else
		h->status.advice = bare;
	if (h->status.backend == CGROUP_V2 && count_bits(h->status.abilities) < 4)
		h->status.advice = partly;
	h->status.abilities |= CGROUP_KILL; /* since 5.14, as what else we need */
}

int
cgroup_v2_make(struct cgroup *g)
{
	int r = cgroup_part_make(g, PART_UNIFIED);

	cgroup_counter_open(g, COUNTER_OOM, PART_UNIFIED, "memory.events");
	cgroup_counter_open(g, COUNTER_PEAK, PART_UNIFIED, "memory.peak");
	cgroup_counter_open(g, COUNTER_PIDS, PART_UNIFIED, "pids.events");
	cgroup_counter_open(g, COUNTER_PROCESSES, PART_UNIFIED, "pids.peak");
	cgroup_counter_open(g, COUNTER_CPU, PART_UNIFIED, "cpu.stat");
	cgroup_counter_open(g, COUNTER_IO, PART_UNIFIED, "io.stat");
	return r;
}

/* Over its memory the whole chamber goes, and not the one process that asked last. */
int
cgroup_v2_limit(struct cgroup *g, const struct cgroup_limits *l)
{
	const struct {
		uint64_t limit;
		unsigned ability;
		struct cgroup_setting s;
	} table[] = {
		{ l->memory_bytes, CGROUP_MEMORY, { .name = "memory.max" } },
		{ l->memory_bytes, CGROUP_MEMORY,
		    { .name = "memory.swap.max", .value = "0", .optional = true } },
		{ l->memory_bytes, CGROUP_MEMORY,
		    { .name = "memory.oom.group", .value = "1", .optional = true } },
		{ l->pids, CGROUP_PIDS, { .name = "pids.max" } },
		{ l->cpu_percent, CGROUP_CPU, { .name = "cpu.max" } },
	};
	struct cgroup_setting s[countof(table)];
	size_t n = 0;

	for (size_t i = 0; i < countof(table); i++) {
		if ((g->bounds & table[i].ability) == 0)
			continue;
		s[n] = table[i].s;
		s[n].part = PART_UNIFIED;
		if (table[i].ability == CGROUP_CPU)
			snprintf(s[n].value, sizeof(s[n].value), "%llu %u",
			    (unsigned long long)(CGROUP_PERIOD_US * l->cpu_percent / 100),
			    CGROUP_PERIOD_US);
		else if (s[n].value[0] == '\0')
			snprintf(s[n].value, sizeof(s[n].value), "%llu",
			    (unsigned long long)table[i].limit);
		n++;
	}
	return cgroup_settings_apply(g, s, n);
}
