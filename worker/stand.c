#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "common/child.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/worker.h"

/*
 * A chamber that stands by knows nothing of its program: a launcher with the host in sight, and
 * a pid 1 in namespaces of its own with no uid yet.  Neither does anything but wait, each for
 * one message of the one that it trusts: the supervisor's, and the launcher's.  End-of-file is
 * the end of both, and pid 1 dies with the supervisor, too.
 */

/* What leads back from the chamber's root to where the sources are; as root only. */
static int host_mounts = -1, host_root = -1, host_dir = -1;

/* Where pid 1 has its two descriptors, so that nothing else stays open. */
#define STAND_FD_GATE LAUNCH_FD_PLAN
#define STAND_FD_PROC LAUNCH_FD_FIRST

/* The supervisor's own would live for as long as we wait. */
static void
forget_standard_descriptors(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		if (fd < 0 || dup2(fd, i) < 0)
			die(LAYER_DESCRIPTORS, errno);
	close(fd);
}

void
stand_prepare(const struct plan *p)
{
	forget_standard_descriptors();
	/* What a terminal sends to all of the supervisor's group is no news about us. */
	if (syscall(SYS_setpgid, 0, 0) < 0)
		die(LAYER_HANDSHAKE, errno);
	if ((p->h->flags & PLAN_ROOT) == 0)
		return;
	host_mounts = ground_open_proc("self/ns/mnt", O_RDONLY);
	if (host_mounts >= 0)
		host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host_root >= 0)
		host_dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host_dir < 0)
		die(LAYER_NAMESPACES, errno);
}

/* A namespace's root is not always ours, who may have been put into a part of it. */
static void
host_return(void)
{
	if (setns(host_mounts, CLONE_NEWNS) < 0 || fchdir(host_root) < 0 || chroot(".") < 0 ||
	    fchdir(host_dir) < 0)
		die(LAYER_SOURCES, errno);
}

/* What was decided without the order must be as the order has it. */
static void
kind_check(const struct plan_header *stood, const struct plan_header *h)
{
	bool root = h->flags & PLAN_ROOT;

	if ((stood->flags & PLAN_KIND) != (h->flags & PLAN_KIND) ||
	    (h->flags & PLAN_HAS_ROOT) == 0 || stood->root_id == 0 ||
	    stood->root_id != h->root_id ||
	    (!root && (stood->uid != h->uid || stood->gid != h->gid)))
		die(LAYER_PLAN, EINVAL);
}

void
stand_wait(struct order *o)
{
	const struct plan_header *stood = o->plan.h;

	STOP_POINT("launch.standing");
	if (!order_receive(LAUNCH_FD_SOCKET, false, o))
		_exit(1);
	STOP_POINT("launch.ordered");
	kind_check(stood, o->plan.h);
	order_own(o);
	if (order_trees(&o->plan) == 0)
		return;
	if ((o->plan.h->flags & PLAN_ROOT) == 0) /* nothing leads back */
		die(LAYER_PLAN, EINVAL);
	host_return();
	sources_open(&o->plan, o->trees, true);
}

void
chamber_stand(struct order *o, int gate_fd)
{
	if (dup3(gate_fd, STAND_FD_GATE, O_CLOEXEC) < 0)
		die(LAYER_DESCRIPTORS, errno);
	ground_move(STAND_FD_PROC);
	if (close_range(STAND_FD_PROC + 1, ~0u, 0) < 0)
		die(LAYER_DESCRIPTORS, errno);
	/* The signal comes too late if the supervisor is gone already. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		die(LAYER_PARENT, errno);
	if (report_is_hung_up())
		_exit(1);
	chamber_wait(STAND_FD_GATE);
	chamber_prepare(&o->plan);
	report(STAGE_STANDING, 0, -1);
	STOP_POINT("init.standing");
	if (!order_receive(STAND_FD_GATE, true, o))
		_exit(1);
	STOP_POINT("init.ordered");
	close(STAND_FD_GATE);
	order_note(&o->plan);
	layers_recheck(&o->plan);
	chamber_main(o, true);
}
