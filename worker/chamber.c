#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/child.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/worker.h"

void
chamber_wait(int release_fd)
{
	char byte;

	STOP_POINT("init.start");
	if (read(release_fd, &byte, 1) != 1)
		_exit(1);
}

static void
take_identity(void)
{
	if (kernel_setresgid(PLAN_INSIDE_GID) < 0 || kernel_setresuid(PLAN_INSIDE_UID) < 0)
		die(LAYER_UID, errno);
}

/* The signal is lost at a change of uid and comes too late if the supervisor is gone already:
 * so it is armed after the one, and the other is looked at after it. */
static void
tie_to_supervisor(const struct plan *p)
{
	bool tied = p->h->flags & PLAN_DIE_WITH_PARENT;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		die(LAYER_UID, errno);
	/* Who stood by was tied already, whatever its program is to be. */
	if (prctl(PR_SET_PDEATHSIG, tied ? SIGKILL : 0, 0, 0, 0) < 0)
		die(LAYER_UID, errno);
	if (!tied)
		return;
	if (report_is_hung_up())
		_exit(1);
	layer_applied(LAYER_PARENT, 1);
}

static int
move_up(int fd, int above)
{
	int up = kernel_dup_above(fd, above);

	if (up < 0)
		die(LAYER_DESCRIPTORS, errno);
	return up;
}

/*
 * 0..nfds-1 become the program's, `nfds` the launch socket and `nfds + 1` init's
 * pipe, both close-on-exec; nothing else stays open.  Whatever numbers they come with, none is
 * taken before it was read.
 */
static void
arrange_descriptors(const struct order *o)
{
	int n = (int)o->plan.h->nfds, above = n + 2, from[PLAN_FDS_MAX];
	int launch = move_up(LAUNCH_FD_SOCKET, above);
	int status = o->status_fd < 0 ? -1 : move_up(o->status_fd, above);

	for (int i = 0; i < n; i++)
		from[i] = o->fds[i] <= i ? move_up(o->fds[i], above) : o->fds[i];
	for (int i = 0; i < n; i++)
		if (dup2(from[i], i) < 0)
			die(LAYER_DESCRIPTORS, errno);
	if (dup3(launch, n, O_CLOEXEC) < 0)
		die(LAYER_DESCRIPTORS, errno);
	report_init(n);
	if (status >= 0 && dup3(status, n + 1, O_CLOEXEC) < 0)
		die(LAYER_DESCRIPTORS, errno);
	if (close_range((unsigned)n + 1 + (status >= 0), ~0u, 0) < 0)
		die(LAYER_DESCRIPTORS, errno);
	layer_applied(LAYER_DESCRIPTORS, 1);
}

/*
 * Processor time of a process that is dead but not reaped, without its children, by the
 * clock that RLIMIT_CPU goes by (clock_getcpuclockid() has no name for that one).
 */
static uint64_t
limited_clock(pid_t pid)
{
	struct timespec t;

	if (clock_gettime((clockid_t)(~(unsigned)pid << 3), &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Pid 1: holds nothing but its pipe, reads nothing, reaps, and ends with the program. */
static _Noreturn void
init_reap(pid_t runtime, int status_fd)
{
	struct launch_status status;
	siginfo_t si;

	for (;;) {
		memset(&si, 0, sizeof(si));
		if (waitid(P_ALL, 0, &si, WEXITED | WNOWAIT | __WALL) < 0 && errno != EINTR)
			_exit(1);
		if (si.si_pid == runtime)
			status.limited_us = limited_clock(runtime); /* its last chance */
		if (si.si_pid != 0)
			waitid(P_PID, (id_t)si.si_pid, NULL, WEXITED | __WALL);
		if (si.si_pid != runtime)
			continue;
		status.code = si.si_code;
		status.status = si.si_status;
		if (write(status_fd, &status, sizeof(status)) != (ssize_t)sizeof(status))
			_exit(1);
		/* Who has no child is alone here; the kernel looks for others among all
		 * processes of the host. */
		if (waitid(P_ALL, 0, &si, WEXITED | WNOWAIT | WNOHANG | __WALL) < 0 &&
		    errno == ECHILD)
			_exit(0);
		/* What our end would kill instead, nobody would reap, and so nobody count. */
		kill(-1, SIGKILL);
		while (waitid(P_ALL, 0, &si, WEXITED | __WALL) == 0 || errno == EINTR)
			;
		_exit(0);
	}
}

static _Noreturn void
init_main(const struct plan *p)
{
	int pidfd = -1, launch = (int)p->h->nfds, status = launch + 1;
	struct clone_args a = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t runtime;

	STOP_POINT("init.before_runtime");
	runtime = kernel_clone3(&a);
	if (runtime < 0)
		die(LAYER_RLIMITS, errno);
	if (runtime == 0)
		program_enter(p, launch);
	STOP_POINT("init.after_runtime");
	/* What it kept would outlive its use: a link that never ends, a pipe never closed.
	 * Nothing can fail once the report, without which the program never runs, is out. */
	if (close_range(0, (unsigned)launch - 1, 0) < 0)
		die(LAYER_DESCRIPTORS, errno);
	report(STAGE_RUNTIME, 0, pidfd);
	STOP_POINT("init.after_report");
	close(pidfd);
	close(launch);
	init_reap(runtime, status);
}

void
chamber_prepare(const struct plan *p)
{
	if (setsid() < 0)
		die(LAYER_NAMESPACES, errno);
	confine_namespaces();
	root_complete_proc(p);
	confine_bounding();
	confine_rlimits();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die(LAYER_NO_NEW_PRIVS, errno);
	layer_applied(LAYER_NO_NEW_PRIVS, 1);
}

void
chamber_main(const struct order *o, bool prepared)
{
	const struct plan *p = &o->plan;

	take_identity();
	tie_to_supervisor(p);
	STOP_POINT("init.after_release");
	if (!prepared)
		chamber_prepare(p);
	root_complete(p, o->trees);
	confine_capabilities();
	arrange_descriptors(o);
	confine_sizes(p);
	confine_mdwe(p);
	confine_landlock(p);
	STOP_POINT("init.confined");
	if (p->h->flags & PLAN_INIT)
		init_main(p);
	program_enter(p, (int)p->h->nfds);
}
