/*
 * private: the caissond that `caisson run`, `exec` and `learn` start in a session of its own,
 * with the descriptors PRIVATE_FD_* of common/child.h: one client, one run, a directory of its
 * own (D-17); it ends when its client does.  That of `caisson grant` is rest.h's.
 */
#ifndef SUPERVISOR_PRIVATE_H
#define SUPERVISOR_PRIVATE_H

#include "common/options.h"
#include "supervisor/daemon.h"

/*
 * Does it all.  `o` is what options_parse() made of the client's line.  Returns 0 and the exit
 * status; or a negative errno with one line in `err` if it could not begin.
 */
int private_run(enum command command, const struct options *o, int *ret_status,
    char err[DAEMON_ERROR_MAX]);

#endif /* SUPERVISOR_PRIVATE_H */
