#include "supervisor/launch_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/endings.h"
#include "common/util.h"
#include "worker/kernel.h"
#include "worker/plan.h"

#define REAP_TRIES 8

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
	/* There it stays, and its pidfd says so again; but nobody asks for ever. */
	if (ret < 0 && errno != ECHILD && options & WNOHANG && p->tries++ < REAP_TRIES)
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

/* A pidfd says so in its own words. */
pid_t
launch_proc_pid(int pidfd)
{
	char path[64], line[64];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pid: %d", &pid) == 1)
			break;
	if (f)
		fclose(f);
	return pid > 0 ? pid : 0; /* -1: reaped */
}

void
launch_proc_kill(const struct launch_proc *p)
{
	if (p->pidfd >= 0 && !p->reaped)
		pidfd_send_signal(p->pidfd, SIGKILL, NULL, 0);
}

static void
facts_set(struct exit_facts *f, enum exit_witness told, int code, int status)
{
	f->kind = code == CLD_EXITED			      ? EXIT_EXITED :
	    code == CLD_KILLED || code == CLD_DUMPED ? EXIT_SIGNALED :
							      EXIT_UNKNOWN;
	f->status = f->kind == EXIT_UNKNOWN ? 0 : status;
	f->core = code == CLD_DUMPED;
	f->told = f->kind == EXIT_UNKNOWN ? WITNESS_NONE : told;
}

static void
facts_usage(struct exit_facts *f, const struct rusage *u)
{
	f->cpu_us = (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
	    (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
	f->peak_bytes = (uint64_t)u->ru_maxrss << 10;
	f->read_bytes = (uint64_t)u->ru_inblock << 9;
	f->written_bytes = (uint64_t)u->ru_oublock << 9;
	f->meter = METER_RUSAGE;
}

void
launch_exit_of(const struct launch_proc *p, struct exit_facts *ret)
{
	memset(ret, 0, sizeof(*ret));
	facts_set(ret, WITNESS_WAIT, p->code, p->status);
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
		facts_set(f, WITNESS_PIDFD, CLD_EXITED, WEXITSTATUS(s));
	else
		facts_set(
		    f, WITNESS_PIDFD, WCOREDUMP(s) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(s));
	return true;
}

/* Init ended before us, so what it had to say is there or never comes. */
static bool
read_init(int fd, struct launch_status *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0 &&
	    read(fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
}

void
launch_exit_status(const struct launch_proc *init, int runtime_fd, int status_fd,
    struct exit_facts *ret, uint64_t *ret_limited_us)
{
	struct launch_status s;
	bool told = read_init(status_fd, &s);

	launch_exit_of(init, ret);
	*ret_limited_us = told ? s.limited_us : 0;
	if (status_fd < 0 || from_pidfd(runtime_fd, ret))
		return;
	if (told) {
		facts_set(ret, WITNESS_INIT, s.code, s.status);
		return;
	}
	/* Killed before there was a program, or with it; else nobody knows. */
	if (runtime_fd >= 0 && (ret->kind != EXIT_SIGNALED || ret->status != SIGKILL))
		facts_set(ret, WITNESS_NONE, 0, 0);
}

/* What a group counted is nearer the truth than what was seen of it at each reaping. */
static void
facts_count(struct exit_facts *f, const struct cgroup_usage *u)
{
	const struct {
		uint64_t counted, *fact;
	} table[] = {
		{ u->cpu_us, &f->cpu_us },
		{ u->peak_bytes, &f->peak_bytes },
		{ u->read_bytes, &f->read_bytes },
		{ u->written_bytes, &f->written_bytes },
		{ u->processes, &f->processes },
	};

	for (size_t i = 0; i < countof(table); i++) {
		if (table[i].counted == CGROUP_UNTOLD)
			continue;
		*table[i].fact = table[i].counted;
		f->meter = u->backend == CGROUP_V2 ? METER_CGROUP_V2 : METER_CGROUP_V1;
	}
}

static bool
is_counted(uint64_t n)
{
	return n != CGROUP_UNTOLD && n > 0;
}

static bool
has_failed(const struct exit_facts *f, const struct launch_evidence *e)
{
	if (f->kind == EXIT_SIGNALED) /* a signal that was sent to it is its own reason */
		return f->status > 63 || (e->signals_sent & 1ull << f->status) == 0;
	return f->kind == EXIT_EXITED && f->status != 0;
}

static void
facts_limit(struct exit_facts *f, enum exit_limit limit)
{
	f->cause = ENDING_limit;
	f->limit = limit;
}

void
launch_exit_explain(struct exit_facts *f, const struct launch_evidence *e)
{
	bool signaled = f->kind == EXIT_SIGNALED;

	facts_count(f, &e->usage);
	if (signaled && f->status == SIGKILL && e->ordered != ENDING_none) {
		f->cause = e->ordered;
		if (e->ordered == ENDING_seccomp) {
			f->syscall = e->syscall;
			f->arch = e->arch;
		}
	} else if (signaled && f->status == SIGSYS && e->filter_kills) {
		f->cause = ENDING_seccomp;
		f->syscall = UINT32_MAX;
	} else if (!has_failed(f, e)) {
		return;
	} else if (is_counted(e->usage.oom_kills)) {
		f->cause = ENDING_oom;
	} else if (signaled && f->status == SIGXFSZ) {
		facts_limit(f, EXIT_LIMIT_file_size);
	} else if (signaled && (f->status == SIGXCPU || f->status == SIGKILL) &&
	    e->cpu_limit_us != 0 && e->limited_us >= e->cpu_limit_us) {
		facts_limit(f, EXIT_LIMIT_cpu_time);
	} else if (is_counted(e->usage.pids_refused)) {
		facts_limit(f, EXIT_LIMIT_pids);
	}
}
