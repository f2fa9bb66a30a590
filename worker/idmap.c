#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/util.h"
#include "worker/kernel.h"
#include "worker/text.h"
#include "worker/worker.h"

static int
open_proc(pid_t pid, const char *name)
{
	char path[64];
	struct text t = TEXT(path);
	int fd;

	text_add_number(&t, (uint64_t)pid);
	text_add_string(&t, "/");
	text_add_string(&t, name);
	fd = ground_open_proc(path, O_WRONLY);
	/* What the kernel says of one that has ended. */
	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? -ESRCH : -errno;
	return fd;
}

/* One id of a namespace's map. */
static int
write_map(int fd, uint32_t inside, uint32_t outside)
{
	char line[64];
	struct text t = TEXT(line);

	text_add_number(&t, inside);
	text_add_string(&t, " ");
	text_add_number(&t, outside);
	text_add_string(&t, " 1\n");
	return write(fd, t.buf, t.n) == (ssize_t)t.n ? 0 : -errno;
}

int
idmap_open(pid_t pid, struct idmap *ret)
{
	cleanup_fd int groups = open_proc(pid, "setgroups");

	ret->uid_fd = ret->gid_fd = -1;
	if (groups < 0)
		return groups;
	if (write(groups, "deny", 4) != 4)
		return -errno;
	ret->uid_fd = open_proc(pid, "uid_map");
	if (ret->uid_fd < 0)
		return ret->uid_fd;
	ret->gid_fd = open_proc(pid, "gid_map");
	return ret->gid_fd < 0 ? ret->gid_fd : 0;
}

int
idmap_set(
    const struct idmap *m, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid)
{
	int ret = write_map(m->uid_fd, inside_uid, uid);

	return ret < 0 ? ret : write_map(m->gid_fd, inside_gid, gid);
}

void
idmap_close(struct idmap *m)
{
	util_close(&m->uid_fd);
	util_close(&m->gid_fd);
}

int
idmap_write(pid_t pid, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid)
{
	struct idmap m;
	int ret = idmap_open(pid, &m);

	if (ret == 0)
		ret = idmap_set(&m, inside_uid, uid, inside_gid, gid);
	idmap_close(&m);
	return ret;
}

/* A namespace lives as long as a process or a descriptor of it, so a child is made for
 * the instant that it takes to open one. */
static int
userns_create(uid_t owner, gid_t group, uid_t uid, gid_t gid)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	char path[64];
	struct text t = TEXT(path);
	int gate[2], ns = -1, ret;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = kernel_clone3(&a);
	if (pid == 0) {
		char byte;

		close(gate[1]);
		_exit(read(gate[0], &byte, 1) < 0);
	}
	ret = pid < 0 ? -errno : idmap_write(pid, owner, uid, group, gid);
	if (ret == 0) {
		text_add_number(&t, (uint64_t)pid);
		text_add_string(&t, "/ns/user");
		ns = ground_open_proc(path, O_RDONLY);
		ret = ns < 0 ? -errno : ns;
	}
	close(gate[0]);
	close(gate[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return ret;
}

int
idmap_userns(uid_t owner, gid_t group, uid_t uid, gid_t gid)
{
	static struct {
		int fd;
		uid_t owner;
		gid_t group;
	} last = { .fd = -1 };
	int fd;

	if (last.fd >= 0 && last.owner == owner && last.group == group)
		return last.fd;
	fd = userns_create(owner, group, uid, gid);
	if (fd < 0)
		die(LAYER_UID, -fd);
	if (last.fd >= 0)
		close(last.fd);
	last.fd = fd;
	last.owner = owner;
	last.group = group;
	return fd;
}
