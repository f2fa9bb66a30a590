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
#include <sys/socket.h>

#include "common/child.h"
#include "common/sanitizer.h"
#include "common/util.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/worker.h"

SANITIZER_DEFAULTS

/* All that somebody above us has ignored would stay so in the chamber, and through every exec:
 * no flag of a clone changes that.  Handlers are gone since our own exec. */
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
	int cgroup_fd = groups_into(p, trees);
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
	if (groups_are_there(p))
		layer_applied(LAYER_CGROUP, 1); /* or nobody goes on at all */
	pid = kernel_clone3(&a);
	if (pid < 0)
		die(clone_layer(errno, cgroup_fd >= 0), errno);
	return pid;
}

/* The chamber's pid 1 may have died meanwhile; then that is the news, not our failure. */
static void
check_idmap(int ret)
{
	if (ret == -ESRCH)
		_exit(0);
	if (ret < 0)
		die(LAYER_USER_NAMESPACE, -ret);
}

static void
give_identity(const struct plan *p, const struct idmap *m)
{
	bool root = p->h->flags & PLAN_ROOT;

	/* Without root we are the only one there is, in a namespace of ours. */
	check_idmap(idmap_set(m, PLAN_INSIDE_UID, root ? p->h->uid : 0, PLAN_INSIDE_GID,
	    root ? p->h->gid : 0));
}

/* If it is gone, the supervisor sees its end. */
static void
release(int gate_fd)
{
	signal(SIGPIPE, SIG_IGN);
	(void)!write(gate_fd, "", 1);
}

/* The page that the kernel writes the pid of pid 1 to. */
static struct plan_header *
birth_page(void)
{
	struct plan_header *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
	    MAP_SHARED, LAUNCH_FD_PLAN, 0);

	if (page == MAP_FAILED)
		die(LAYER_PLAN, errno);
	page->birth_pid = 0; /* also makes it present and writable */
	return page;
}

/* All that the plan speaks of stays; everything else goes. */
static void
take_descriptors(const struct plan *p, struct order *ret)
{
	int next = LAUNCH_FD_FIRST;

	for (uint32_t i = 0; i < p->h->nfds; i++)
		ret->fds[i] = next++;
	ret->status_fd = p->h->flags & PLAN_INIT ? next++ : -1;
	if (close_range((unsigned)(next + ground_fds(p)), ~0u, 0) < 0)
		die(LAYER_DESCRIPTORS, errno);
	ground_init(p, next);
}

/* The first half of a launch, which pid 1 begins with. */
static pid_t
bear(struct order *o, struct plan_header *page, int gate[2])
{
	const struct plan *p = &o->plan;
	bool stands = p->h->flags & PLAN_STAND;
	pid_t pid;

	groups_open(p, o->trees);
	if (stands)
		stand_prepare(p);
	ground_enter(p, o->trees);
	if (stands ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gate) < 0 :
		     pipe2(gate, O_CLOEXEC) < 0)
		die(LAYER_HANDSHAKE, errno);
	STOP_POINT("launch.before_clone");
	pid = chamber_clone(p, o->trees, page);
	if (pid == 0) {
		close(gate[1]);
		close(LAUNCH_FD_PLAN);
		if (munmap(page, sizeof(*page)) < 0)
			die(LAYER_PLAN, errno);
		if (stands)
			chamber_stand(o, gate[0]);
		chamber_wait(gate[0]);
		close(gate[0]);
		chamber_main(o, false);
	}
	close(gate[0]);
	STOP_POINT("launch.after_clone");
	groups_join(p, o->trees, pid);
	return pid;
}

int
main(void)
{
	static struct order o;
	struct plan_header *page;
	struct idmap maps;
	bool stands;
	int gate[2];
	pid_t pid;

	report_init(LAUNCH_FD_SOCKET);
	signals_reset();
	fill_standard_descriptors();
	memset(o.trees, -1, sizeof(o.trees));
	plan_read(LAUNCH_FD_PLAN, &o.plan);
	page = birth_page();
	STOP_SET(plan_string(&o.plan, o.plan.h->stop));
	STOP_POINT("launch.start");
	take_descriptors(&o.plan, &o);
	confine_groups(&o.plan);
	stands = o.plan.h->flags & PLAN_STAND;
	if (!stands)
		order_own(&o);
	pid = bear(&o, page, gate);
	check_idmap(idmap_open(pid, &maps));
	if (stands) {
		release(gate[1]); /* to prepare, in its groups */
		stand_wait(&o);
	}
	give_identity(&o.plan, &maps);
	STOP_POINT("launch.before_release");
	if (stands)
		order_pass(&o, gate[1]);
	else
		release(gate[1]);
	STOP_POINT("launch.after_release");
	_exit(0);
}
