/*
 * launch_spawn: starts caisson-worker with the descriptors of common/child.h.
 */
#ifndef SUPERVISOR_LAUNCH_SPAWN_H
#define SUPERVISOR_LAUNCH_SPAWN_H

#include <stddef.h>

/*
 * Starts the launcher with `socket` and `plan` at LAUNCH_FD_*, the `nfds` descriptors of
 * `fds` from LAUNCH_FD_FIRST on and `status` (-1: none) after them.  All stay the
 * caller's.  Costs the same however large the caller is: the child borrows its memory
 * until the exec (T15).  Returns the launcher's pidfd, or a negative errno.
 */
int launch_spawn(int socket, int plan, const int *fds, size_t nfds, int status);

#endif /* SUPERVISOR_LAUNCH_SPAWN_H */
