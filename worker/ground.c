#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "common/child.h"
#include "common/util.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/text.h"
#include "worker/worker.h"

static int proc_fd = -1, next_fd;

void
ground_init(const struct plan *p, int first_fd)
{
	(void)p;
	next_fd = first_fd;
	proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd < 0)
		die(LAYER_PROC, errno);
}

void
ground_move(int fd)
{
	if (dup3(proc_fd, fd, O_CLOEXEC) < 0)
		die(LAYER_DESCRIPTORS, errno);
	close(proc_fd);
	proc_fd = fd;
}

int
ground_open_proc(const char *path, int flags)
{
	return openat(proc_fd, path, flags | O_CLOEXEC);
}

/* The next of the namespaces that the supervisor holds; they come in the flags' order. */
static void
enter(int type, enum layer layer)
{
	if (setns(next_fd, type) < 0)
		die(layer, errno);
	close(next_fd++);
}

/* Ours, for whoever comes after us. */
static void
hand_up(enum launch_stage stage, const char *path, enum layer layer)
{
	cleanup_fd int fd = ground_open_proc(path, O_RDONLY);

	if (fd < 0)
		die(layer, errno);
	report(stage, 0, fd);
}

/*
 * Without root, what chambers share must belong to somebody: a user namespace that is the
 * parent of theirs, so that none of them has any power over it.
 */
static void
user_enter(const struct plan *p)
{
	int ret;

	if (p->h->flags & PLAN_HAS_USER) {
		enter(CLONE_NEWUSER, LAYER_USER_NAMESPACE);
		return;
	}
	if (unshare(CLONE_NEWUSER) < 0)
		die(LAYER_USER_NAMESPACE, errno);
	ret = idmap_write(getpid(), 0, p->h->uid, 0, p->h->gid);
	if (ret < 0)
		die(LAYER_USER_NAMESPACE, -ret);
	hand_up(STAGE_USER, "self/ns/user", LAYER_USER_NAMESPACE);
}

/* Everything below `dir`: 0 or a negative errno. */
static int
forbid_reading(int dir)
{
	_Alignas(struct dirent64) char entries[4096];
	long n;

	while ((n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0)
		for (long at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(entries + at);

			at += e->d_reclen;
			if (e->d_name[0] == '.')
				continue;
			if (syscall(SYS_fchmodat, dir, e->d_name, 0) < 0)
				return -errno;
		}
	return n < 0 ? -errno : 0;
}

/*
 * One namespace with nothing in it for many chambers.  They can put nothing into it but
 * pairs of sockets, and /proc/net would tell one how many another has: nobody may read it.
 */
static void
network_enter(const struct plan *p)
{
	cleanup_fd int dir = -1;
	int ret;

	if (p->h->flags & PLAN_HAS_NETWORK) {
		enter(CLONE_NEWNET, LAYER_NETWORK);
		return;
	}
	if (unshare(CLONE_NEWNET) < 0)
		die(LAYER_NETWORK, errno);
	dir = ground_open_proc("self/net", O_RDONLY | O_DIRECTORY);
	ret = dir < 0 ? -errno : forbid_reading(dir);
	if (ret < 0)
		die(LAYER_NETWORK, -ret);
	hand_up(STAGE_NETWORK, "self/ns/net", LAYER_NETWORK);
}

/* One line of timens_offsets: the clock shows what has passed since now. */
static int
clock_restart(const char *name, clockid_t clock)
{
	char line[64];
	struct text t = TEXT(line);
	cleanup_fd int fd = ground_open_proc("self/timens_offsets", O_WRONLY);
	struct timespec now;

	if (fd < 0 || syscall(SYS_clock_gettime, clock, &now) < 0)
		return -errno;
	text_add_string(&t, name);
	text_add_string(&t, " -");
	text_add_number(&t, (uint64_t)now.tv_sec);
	text_add_string(&t, " 0\n");
	return write(fd, t.buf, t.n) == (ssize_t)t.n ? 0 : -errno;
}

/* How long the host is up says which host it is. */
static void
time_enter(const struct plan *p)
{
	int ret;

	if (p->h->flags & PLAN_HAS_TIME) {
		enter(CLONE_NEWTIME, LAYER_TIME);
	} else {
		/* The chamber will be in it, as its clocks cannot be set once somebody is. */
		if (unshare(CLONE_NEWTIME) < 0) {
			layer_absent(p, LAYER_TIME, errno);
			return;
		}
		ret = clock_restart("monotonic", CLOCK_MONOTONIC);
		if (ret == 0)
			ret = clock_restart("boottime", CLOCK_BOOTTIME);
		if (ret < 0)
			die(LAYER_TIME, -ret);
		hand_up(STAGE_TIME, "self/ns/time_for_children", LAYER_TIME);
	}
	layer_applied(LAYER_TIME, 1);
}

static void
root_enter(const struct plan *p, int *trees)
{
	bool held = p->h->flags & PLAN_HAS_ROOT;

	/* Those that are this chamber's own, while the host can be seen; without root they can
	 * only be taken from a copy of it. */
	if (held) {
		sources_open(p, trees, true);
		enter(CLONE_NEWNS, LAYER_NAMESPACES);
		return;
	}
	if (unshare(CLONE_NEWNS) < 0)
		die(LAYER_NAMESPACES, errno);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die(LAYER_MOUNTS, errno);
	sources_open(p, trees, false);
	root_build(p, trees);
	if (p->h->flags & PLAN_KEEP_ROOT)
		hand_up(STAGE_ROOT, "self/ns/mnt", LAYER_NAMESPACES);
}

void
ground_enter(const struct plan *p, int *trees)
{
	if ((p->h->flags & PLAN_ROOT) == 0)
		user_enter(p);
	if (p->h->flags & PLAN_SHARED_NETWORK)
		network_enter(p);
	if (p->h->flags & PLAN_TIME)
		time_enter(p);
	STOP_POINT("launch.before_root");
	root_enter(p, trees);
	STOP_POINT("launch.after_root");
}

int
ground_proc(void)
{
	struct clone_args a = { .flags = CLONE_NEWPID | CLONE_FILES, .exit_signal = SIGCHLD };
	pid_t pid = kernel_clone3(&a);
	int status;

	if (pid < 0)
		die(errno == EINVAL ? LAYER_NAMESPACES : LAYER_USER_NAMESPACE, errno);
	/* The number of the descriptor is its exit status; 1 is that of die(). */
	if (pid == 0)
		_exit(root_proc(0));
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) < 3)
		_exit(1);
	return WEXITSTATUS(status);
}
