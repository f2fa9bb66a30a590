#include "supervisor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/uid.h"

#define V1_MAGIC  0x27e0eb
#define PERIOD_US 100000ull

enum { MEMORY, CPU, CONTROLLERS };
static const char *const roots[CONTROLLERS] = { "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu" };

struct cgroup {
	bool has[CONTROLLERS];
	int lock_fd[CONTROLLERS]; /* the directory: locked says that its supervisor lives */
	char dir[CONTROLLERS][96];
	char procs_path[CONTROLLERS][128];
	const char *procs[CONTROLLERS + 1];
};

static bool
usable(int controller)
{
	struct statfs fs;

	return uid_is_root() && statfs(roots[controller], &fs) == 0 && fs.f_type == V1_MAGIC &&
	    access(roots[controller], W_OK) == 0;
}

static int
write_value(const char *dir, const char *name, uint64_t value)
{
	cleanup_fd int fd = -1;
	char path[160], text[32];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

static int
lock_group(int root_fd, const char *name)
{
	cleanup_fd int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* Removes what killed supervisors left: a group of ours that nobody has locked. */
static void
sweep(int controller)
{
	DIR *dir = opendir(roots[controller]);
	struct dirent *e;
	int fd;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (strncmp(e->d_name, "caisson-", 8) != 0)
			continue;
		fd = lock_group(dirfd(dir), e->d_name);
		if (fd < 0)
			continue;
		unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR); /* fails while one runs in it */
		close(fd);
	}
	if (dir != NULL)
		closedir(dir);
}

/* A name that no other supervisor uses: ours by pid, which is alive as long as the group. */
static int
make_group(struct cgroup *g, int controller)
{
	static unsigned counter;
	static bool swept[CONTROLLERS];

	if (!swept[controller])
		sweep(controller);
	swept[controller] = true;
	snprintf(g->dir[controller], sizeof(g->dir[controller]), "%s/caisson-%d-%u",
	    roots[controller], (int)getpid(), ++counter);
	if (mkdir(g->dir[controller], 0755) < 0)
		return -errno;
	g->has[controller] = true;
	g->lock_fd[controller] = lock_group(AT_FDCWD, g->dir[controller]);
	if (g->lock_fd[controller] < 0)
		return g->lock_fd[controller]; /* a sweep came between: rare, and refused */
	snprintf(g->procs_path[controller], sizeof(g->procs_path[controller]),
	    "%s/caisson-%d-%u/cgroup.procs", roots[controller], (int)getpid(), counter);
	for (size_t i = 0; i < CONTROLLERS; i++)
		if (g->procs[i] == NULL) {
			g->procs[i] = g->procs_path[controller];
			break;
		}
	return 0;
}

int
cgroup_create(uint64_t memory_bytes, uint64_t cpu_percent, struct cgroup **ret)
{
	bool memory = memory_bytes != 0 && usable(MEMORY), cpu = cpu_percent != 0;
	struct cgroup *g;
	int r = 0;

	*ret = NULL;
	if (cpu && !usable(CPU))
		return -ENOTSUP;
	if (!memory && !cpu)
		return 0;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	if (memory) {
		r = make_group(g, MEMORY);
		if (r == 0)
			r = write_value(g->dir[MEMORY], "memory.limit_in_bytes", memory_bytes);
	}
	if (r == 0 && cpu) {
		r = make_group(g, CPU);
		if (r == 0)
			r = write_value(g->dir[CPU], "cpu.cfs_period_us", PERIOD_US);
		if (r == 0)
			r = write_value(g->dir[CPU], "cpu.cfs_quota_us",
			    PERIOD_US * cpu_percent / 100);
	}
	if (r < 0) {
		cgroup_destroy(g);
		return r;
	}
	*ret = g;
	return 0;
}

void
cgroup_destroy(struct cgroup *g)
{
	if (g == NULL)
		return;
	for (size_t i = 0; i < CONTROLLERS; i++)
		if (g->has[i]) {
			rmdir(g->dir[i]);
			if (g->lock_fd[i] >= 0)
				close(g->lock_fd[i]);
		}
	free(g);
}

const char *const *
cgroup_procs(const struct cgroup *g)
{
	return g != NULL ? g->procs : NULL;
}

bool
cgroup_bounds_memory(const struct cgroup *g)
{
	return g != NULL && g->has[MEMORY];
}

bool
cgroup_was_oom(const struct cgroup *g)
{
	cleanup_fd int fd = -1;
	char path[160], text[512];
	const char *line;
	ssize_t n;

	if (!cgroup_bounds_memory(g))
		return false;
	snprintf(path, sizeof(path), "%s/memory.oom_control", g->dir[MEMORY]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	line = strstr(text, "oom_kill ");
	return line != NULL && strtoul(line + 9, NULL, 10) > 0;
}
