/*
 * launch_spawn: starts caisson-worker with the descriptors of common/child.h.
 */
#ifndef SUPERVISOR_LAUNCH_SPAWN_H
#define SUPERVISOR_LAUNCH_SPAWN_H

#include <stddef.h>

#include "supervisor/ground.h"
#include "worker/plan.h"

/* The program's, init's pipe, and namespaces. */
#define LAUNCH_FDS_MAX (PLAN_FDS_MAX + 1 + GROUND_FDS_MAX)

/* `fds` with `null_fd` where one of the standard three is not there or -1, in `out`.  Returns
 * their number; 0 if another is missing, which makes no sense. */
size_t launch_spawn_fds(const int *fds, size_t nfds, int null_fd, int *out);

/*
 * Starts the launcher with `socket` and `plan` at LAUNCH_FD_*, the `nfds` descriptors of
 * `fds` from LAUNCH_FD_FIRST on (LAUNCH_FDS_MAX at most).  All stay the
 * caller's.  Costs the same however large the caller is: the child borrows its memory
 * until the exec (T15).  Returns the launcher's pidfd, or a negative errno.
 */
int launch_spawn(int socket, int plan, const int *fds, size_t nfds);

#endif /* SUPERVISOR_LAUNCH_SPAWN_H */
