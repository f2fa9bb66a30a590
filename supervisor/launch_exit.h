/*
 * launch_exit: how a process ended, from the kernel's own evidence.
 */
#ifndef SUPERVISOR_LAUNCH_EXIT_H
#define SUPERVISOR_LAUNCH_EXIT_H

#include <stdbool.h>
#include <sys/resource.h>

#include "common/control.h"
#include "common/endings.h"
#include "supervisor/cgroup.h"

/* A child of ours, known by its pidfd only. */
struct launch_proc {
	int pidfd; /* -1: not born */
	bool reaped;
	unsigned tries; /* to reap it that failed */
	int code, status; /* CLD_*, as waitid says; code 0: the kernel kept nothing */
	struct rusage usage; /* with its descendants that were waited for */
};

/* Reaps `p` if it has ended. */
void launch_proc_reap(struct launch_proc *p);
/* Waits for its end, which the caller has already ordered. */
void launch_proc_wait(struct launch_proc *p);
/* In our pid namespace; 0 once it is reaped. */
pid_t launch_proc_pid(int pidfd);

/* Kills it, if it is there. */
void launch_proc_kill(const struct launch_proc *p);

/* The facts of `p` itself. */
void launch_exit_of(const struct launch_proc *p, struct exit_facts *ret);

/*
 * The facts of the program below `init`, which is reaped: from `runtime_fd`, its pidfd; on
 * kernels without PIDFD_GET_INFO from what init wrote to `status_fd`.  A `status_fd` of
 * -1 means that init is the program.  `*ret_limited_us`: processor time of the program's own
 * process, by the clock that its rlimit goes by; 0 where init could not say.
 */
void launch_exit_status(const struct launch_proc *init, int runtime_fd, int status_fd,
    struct exit_facts *ret, uint64_t *ret_limited_us);

/* What the supervisor knows about a chamber besides how its program ended. */
struct launch_evidence {
	enum ending ordered; /* of the first kill order or violation; ENDING_none */
	uint32_t syscall, arch; /* with ENDING_seccomp */
	bool filter_kills; /* it has a filter and no listener: SIGSYS is the filter's */
	uint64_t signals_sent; /* 1 << signal: sent to it on somebody's order */
	uint64_t cpu_limit_us, limited_us; /* RLIMIT_CPU, 0: none; and its clock */
	struct cgroup_usage usage;
};

/*
 * Completes `f`: usage, and the cause where the kernel's evidence has one beyond the status.
 * A program that ended well, or by a signal that it was sent on order, has none, whatever was
 * counted on the way.  Pure.
 */
void launch_exit_explain(struct exit_facts *f, const struct launch_evidence *e);

#endif /* SUPERVISOR_LAUNCH_EXIT_H */
