/*
 * daemon: `caissond -c FILE`: one namespace, its state directory and its local socket, until a
 * signal ends it.
 *
 * Owns lock, socket, pid file and readiness; broker and ledger are host.h's.  The order of a
 * start: the configuration is valid, the directory is locked, the socket's name is ours, we are
 * in the background; then broker and ledger start, and once the broker has its state, clients
 * are served and whoever waits for readiness is told.
 *
 * SIGTERM (in the foreground SIGINT, too) ends what is open within limits.shutdown_grace, a
 * second one kills it.  SIGHUP reads the configuration again (reload.h).
 */
#ifndef SUPERVISOR_DAEMON_H
#define SUPERVISOR_DAEMON_H

#include "common/options.h"

#define DAEMON_ERROR_MAX 1024 /* bytes: of a line of config.h, state.h or listen.h */

/*
 * Does it all.  Returns 0 and the exit status, 125 if it could not go on; or a negative errno
 * with one line in `err` if it could not begin.  After a second SIGTERM it does not return.
 */
int daemon_run(const struct options *o, int *ret_status, char err[DAEMON_ERROR_MAX]);

#endif /* SUPERVISOR_DAEMON_H */
