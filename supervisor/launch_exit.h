/*
 * launch_exit: how a process ended, from the kernel's own evidence.
 */
#ifndef SUPERVISOR_LAUNCH_EXIT_H
#define SUPERVISOR_LAUNCH_EXIT_H

#include <stdbool.h>
#include <sys/resource.h>

#include "common/control.h"

/* A child of ours, known by its pidfd only. */
struct launch_proc {
	int pidfd; /* -1: not born */
	bool reaped;
	int code, status; /* CLD_*, as waitid says; code 0: the kernel kept nothing */
	struct rusage usage; /* with its descendants that were waited for */
};

/* Reaps `p` if it has ended. */
void launch_proc_reap(struct launch_proc *p);
/* Waits for its end, which the caller has already ordered. */
void launch_proc_wait(struct launch_proc *p);

/* The facts of `p` itself. */
void launch_exit_of(const struct launch_proc *p, struct exit_facts *ret);

/*
 * The facts of the program below `init`, which is reaped: from `runtime_fd`, its pidfd; on
 * kernels without PIDFD_GET_INFO from what init wrote to `status_fd`.  A `status_fd` of
 * -1 means that init is the program.
 */
void launch_exit_status(const struct launch_proc *init, int runtime_fd, int status_fd,
    struct exit_facts *ret);

#endif /* SUPERVISOR_LAUNCH_EXIT_H */
