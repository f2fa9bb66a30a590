/*
 * caisson-worker: the launcher, which becomes pid 1 of a chamber.  Started by the
 * supervisor with the descriptors of common/child.h; of no use to anyone else.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/child.h"
#include "common/sanitizer.h"
#include "common/util.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/text.h"
#include "worker/worker.h"

SANITIZER_DEFAULTS

#define STEPS_MAX 1024u

/* A private copy, which nobody can change under us; the shared page is kept for the
 * one number that the kernel writes. */
static struct plan_header *
plan_read(struct plan *ret)
{
	struct stat st;
	void *page, *copy;
	size_t n;

	if (fstat(LAUNCH_FD_PLAN, &st) < 0)
		die(LAYER_PLAN, errno);
	if (st.st_size < (off_t)sizeof(struct plan_header) || st.st_size > PLAN_MAX)
		die(LAYER_PLAN, EINVAL);
	n = (size_t)st.st_size;
	page = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, LAUNCH_FD_PLAN, 0);
	copy = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || copy == MAP_FAILED)
		die(LAYER_PLAN, errno);
	memcpy(copy, page, n);
	if (plan_check(copy, n, ret) < 0 || ret->h->nsteps > STEPS_MAX)
		die(LAYER_PLAN, EINVAL);
	((struct plan_header *)page)->birth_pid = 0; /* also makes it present and writable */
	return page;
}

/* All that somebody above us has ignored would stay so in the chamber, and through every exec: no
 * flag of a clone changes that.  Handlers are gone since our own exec. */
static void
signals_reset(void)
{
	sigset_t none;

	for (int i = 1; i < _NSIG; i++)
		if (kernel_signal_default(i) < 0 && errno != EINVAL) /* two have no other */
			die(LAYER_HANDSHAKE, errno);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		die(LAYER_HANDSHAKE, errno);
}

/* Descriptors 0 to 2 are not ours to use, but what we open must not land there. */
static void
fill_standard_descriptors(void)
{
	while (fcntl(2, F_GETFD) < 0)
		if (open("/dev/null", O_RDWR) > 2)
			break;
}

static bool
has_cgroup(const struct plan *p)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_CGROUP || p->steps[i].op == PLAN_CGROUP_INTO)
			return true;
	return false;
}

/* While they can be named: descriptors in `trees`, by step. */
static void
open_cgroups(const struct plan *p, int *trees)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		uint32_t op = p->steps[i].op;

		if (op != PLAN_CGROUP && op != PLAN_CGROUP_INTO)
			continue;
		trees[i] = open(plan_string(p, p->steps[i].source),
		    op == PLAN_CGROUP ? O_WRONLY | O_CLOEXEC :
					O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (trees[i] < 0)
			die(LAYER_CGROUP, errno);
	}
}

/* The directory of cgroup v2 that the chamber is born in, -1: none. */
static int
cgroup_into(const struct plan *p, const int *trees)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_CGROUP_INTO)
			return trees[i];
	return -1;
}

/*
 * v1 knows no birth in a group: the chamber is put there while it waits for its uid.  Not
 * by way of us, who would count among its processes.
 */
static void
join_cgroups(const struct plan *p, const int *trees, pid_t pid)
{
	char number[24];
	struct text text = TEXT(number);

	text_add_number(&text, (uint64_t)pid);
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		if (p->steps[i].op != PLAN_CGROUP ||
		    write(trees[i], text.buf, text.n) == (ssize_t)text.n)
			continue;
		if (errno == ESRCH)
			_exit(0); /* it has died: that is the news, not our failure */
		die(LAYER_CGROUP, errno);
	}
}

/*
 * Scripts write to /dev/stdout and /dev/fd/N, which opens the pipe anew and asks for its
 * mode.  The pipe is the program's to use already; this lets it do so by name.
 */
static void
own_pipes(const struct plan *p)
{
	struct stat st;

	for (int fd = LAUNCH_FD_FIRST; fd < LAUNCH_FD_FIRST + 3; fd++)
		if (fstat(fd, &st) < 0 ||
		    (S_ISFIFO(st.st_mode) && fchown(fd, p->h->uid, p->h->gid) < 0))
			die(LAYER_DESCRIPTORS, errno);
}

/* Which of its parts a clone3 has failed for. */
static enum layer
clone_layer(int error, bool cgroup)
{
	if (cgroup && (error == EACCES || error == EBUSY || error == ENODEV ||
			  error == EOPNOTSUPP))
		return LAYER_CGROUP;
	return error == EINVAL ? LAYER_NAMESPACES : LAYER_USER_NAMESPACE;
}

/* How many namespaces the supervisor gave us. */
static int
ground_fds(const struct plan *p)
{
	uint32_t f = p->h->flags;

	return !!(f & PLAN_HAS_USER) + !!(f & PLAN_HAS_NETWORK) + !!(f & PLAN_HAS_TIME) +
	    !!(f & PLAN_HAS_ROOT);
}

static pid_t
chamber_clone(const struct plan *p, const int *trees, struct plan_header *page)
{
	struct clone_args a = {
		.flags = CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_NEWUSER | CLONE_NEWPID |
		    CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS,
		.parent_tid = (uint64_t)(uintptr_t)&page->birth_pid,
	};
	int cgroup_fd = cgroup_into(p, trees);
	pid_t pid;

	if ((p->h->flags & (PLAN_NETWORK | PLAN_SHARED_NETWORK)) == 0)
		a.flags |= CLONE_NEWNET;
	if (cgroup_fd >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup_fd;
	}
	/* The child goes on with what we noted. */
	if ((p->h->flags & PLAN_NETWORK) == 0)
		layer_applied(LAYER_NETWORK, p->h->flags & PLAN_SHARED_NETWORK ? 2 : 1);
	if (has_cgroup(p))
		layer_applied(LAYER_CGROUP, 1); /* or nobody goes on at all */
	pid = kernel_clone3(&a);
	if (pid < 0)
		die(clone_layer(errno, cgroup_fd >= 0), errno);
	return pid;
}

/* The chamber's pid 1 may have died meanwhile; then that is the news, not our failure. */
static void
give_identity(const struct plan *p, pid_t pid)
{
	bool root = p->h->flags & PLAN_ROOT;
	/* Without root we are the only one there is, in a namespace of ours. */
	int ret = idmap_write(pid, PLAN_INSIDE_UID, root ? p->h->uid : 0, PLAN_INSIDE_GID,
	    root ? p->h->gid : 0);

	if (ret == -ESRCH)
		_exit(0);
	if (ret < 0)
		die(LAYER_USER_NAMESPACE, -ret);
}

int
main(void)
{
	static int trees[STEPS_MAX];
	struct plan_header *page;
	struct plan p;
	int gate[2], status_fd, ground_fd;
	pid_t pid;

	report_init(LAUNCH_FD_SOCKET);
	signals_reset();
	fill_standard_descriptors();
	page = plan_read(&p);
	STOP_SET(plan_string(&p, p.h->stop));
	STOP_POINT("launch.start");
	status_fd = p.h->flags & PLAN_INIT ? LAUNCH_FD_FIRST + (int)p.h->nfds : -1;
	ground_fd = LAUNCH_FD_FIRST + (int)p.h->nfds + (status_fd >= 0);
	if (close_range((unsigned)(ground_fd + ground_fds(&p)), ~0u, 0) < 0)
		die(LAYER_DESCRIPTORS, errno);
	ground_init(&p, ground_fd);
	memset(trees, -1, sizeof(trees));
	confine_groups(&p);
	if (p.h->flags & PLAN_ROOT) {
		own_pipes(&p);
		layer_applied(LAYER_UID, 1);
	} else {
		layer_absent(&p, LAYER_UID, EPERM);
	}
	open_cgroups(&p, trees);
	ground_enter(&p, trees);
	if (pipe2(gate, O_CLOEXEC) < 0)
		die(LAYER_HANDSHAKE, errno);
	STOP_POINT("launch.before_clone");
	pid = chamber_clone(&p, trees, page);
	if (pid == 0) {
		close(gate[1]);
		close(LAUNCH_FD_PLAN);
		if (munmap(page, p.h->size_bytes) < 0)
			die(LAYER_PLAN, errno);
		chamber_main(&p, trees, gate[0], status_fd);
	}
	STOP_POINT("launch.after_clone");
	join_cgroups(&p, trees, pid);
	give_identity(&p, pid);
	STOP_POINT("launch.before_release");
	signal(SIGPIPE, SIG_IGN);
	/* If it is gone, the supervisor sees its end. */
	(void)!write(gate[1], "", 1);
	STOP_POINT("launch.after_release");
	_exit(0);
}
