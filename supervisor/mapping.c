#include "supervisor/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/children.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"
#include "worker/plan.h"

static int
write_proc(pid_t pid, const char *name, const char *text)
{
	cleanup_fd int fd = -1;
	char path[64];
	size_t n = strlen(text);

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, n) != (ssize_t)n ? -errno : 0;
}

int
mapping_write(pid_t pid)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	bool root = uid_is_root();
	char line[64];
	int r;

	r = write_proc(pid, "setgroups", "deny");
	if (r < 0)
		return r;
	snprintf(
	    line, sizeof(line), "%u %u 1\n", PLAN_INSIDE_UID, root ? range.first : geteuid());
	r = write_proc(pid, "uid_map", line);
	if (r < 0)
		return r;
	snprintf(
	    line, sizeof(line), "%u %u 1\n", PLAN_INSIDE_GID, root ? range.first : getegid());
	return write_proc(pid, "gid_map", line);
}

/* A namespace lives as long as somebody is in it, or has it open. */
static int
namespace_open(void)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	cleanup_fd int in = -1, out = -1;
	char path[64], byte;
	int gate[2], r;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	in = gate[0];
	out = gate[1];
	pid = kernel_clone3(&a);
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) < 0);
	}
	if (pid < 0)
		return -errno;
	r = mapping_write(pid);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		r = open(path, O_RDONLY | O_CLOEXEC);
		r = r < 0 ? -errno : r;
	}
	util_close(&out); /* it ends */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

int
mapping_probe(int dir_fd)
{
	cleanup_fd int ns = namespace_open(), tree = -1;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };

	if (ns < 0)
		return ns == -EINVAL ? -ENOTSUP : ns;
	attr.userns_fd = (uint64_t)(unsigned)ns;
	tree = open_tree(dir_fd, dir_fd == AT_FDCWD ? "." : "",
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0)
		return -errno;
	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}
