/*
 * rest: the caissond that `caisson grant -c FILE` starts: the client gets a link to the broker
 * of the file's namespace, whether a daemon serves it or nobody does (D-17).
 *
 * Whoever holds the lock of the namespace's directory has its broker.  If that is a daemon, it
 * is connected to, unread, and the connection handed to the client: the kernel tells that the
 * one that listens is the one that holds the lock.  Else the lock is ours as long as the client
 * lives: ledger and broker are started over the directory, but no runtime, no provider and no
 * socket.
 */
#ifndef SUPERVISOR_REST_H
#define SUPERVISOR_REST_H

#include "supervisor/daemon.h"

/*
 * Does it all, once private_run() has taken the descriptors.  Waits some seconds for a lock
 * that is held by one that does not answer: it may be a daemon that starts or ends, or another
 * one like us.  Returns 0 and the exit status; or a negative errno with one line in `err`.
 */
int rest_run(const struct options *o, int *ret_status, char err[DAEMON_ERROR_MAX]);

#endif /* SUPERVISOR_REST_H */
