#include "supervisor/launch_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/kernel.h"
#include "worker/plan.h"

static void
proc_reap(struct launch_proc *p, int options)
{
	siginfo_t si;
	long ret;

	if (p->pidfd < 0 || p->reaped)
		return;
	do {
		memset(&si, 0, sizeof(si));
		/* The kernel's waitid also tells the usage, which glibc's does not. */
		ret = syscall(SYS_waitid, P_PIDFD, p->pidfd, &si, options | WEXITED | __WALL,
		    &p->usage);
	} while (ret < 0 && errno == EINTR);
	if (ret == 0 && si.si_pid == 0)
		return;
	p->reaped = true;
	p->code = ret == 0 ? si.si_code : 0;
	p->status = ret == 0 ? si.si_status : 0;
}

void
launch_proc_reap(struct launch_proc *p)
{
	proc_reap(p, WNOHANG);
}

void
launch_proc_wait(struct launch_proc *p)
{
	proc_reap(p, 0);
}

static void
facts_set(struct exit_facts *f, int code, int status)
{
	f->kind = code == CLD_EXITED			      ? EXIT_EXITED :
	    code == CLD_KILLED || code == CLD_DUMPED ? EXIT_SIGNALED :
							      EXIT_UNKNOWN;
	f->status = f->kind == EXIT_UNKNOWN ? 0 : status;
	f->core = code == CLD_DUMPED;
}

static void
facts_usage(struct exit_facts *f, const struct rusage *u)
{
	f->cpu_us = (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
	    (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
	f->peak_bytes = (uint64_t)u->ru_maxrss << 10;
}

void
launch_exit_of(const struct launch_proc *p, struct exit_facts *ret)
{
	memset(ret, 0, sizeof(*ret));
	facts_set(ret, p->code, p->status);
	facts_usage(ret, &p->usage);
}

/* What the kernel remembers of a process that is gone, as long as its pidfd lives. */
static bool
from_pidfd(int fd, struct exit_facts *f)
{
	struct kernel_pidfd_info info = { .mask = KERNEL_PIDFD_INFO_EXIT };
	int s;

#ifdef CAISSON_TEST_STOPS
	if (getenv("CAISSON_NO_PIDFD_INFO") != NULL)
		return false;
#endif
	if (fd < 0 || ioctl(fd, KERNEL_PIDFD_GET_INFO, &info) < 0 ||
	    (info.mask & KERNEL_PIDFD_INFO_EXIT) == 0)
		return false;
	s = info.exit_code;
	if (WIFEXITED(s))
		facts_set(f, CLD_EXITED, WEXITSTATUS(s));
	else
		facts_set(f, WCOREDUMP(s) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(s));
	return true;
}

/* Init ended before us, so what it had to say is there or never comes. */
static bool
from_init(int fd, struct exit_facts *f)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct launch_status s;

	if (poll(&p, 1, 0) != 1 || (p.revents & POLLIN) == 0 ||
	    read(fd, &s, sizeof(s)) != (ssize_t)sizeof(s))
		return false;
	facts_set(f, s.code, s.status);
	return true;
}

void
launch_exit_status(const struct launch_proc *init, int runtime_fd, int status_fd,
    struct exit_facts *ret)
{
	launch_exit_of(init, ret);
	if (status_fd < 0 || from_pidfd(runtime_fd, ret) || from_init(status_fd, ret))
		return;
	/* Killed before there was a program, or with it; else nobody knows. */
	if (runtime_fd >= 0 && (ret->kind != EXIT_SIGNALED || ret->status != SIGKILL))
		ret->kind = EXIT_UNKNOWN;
}
