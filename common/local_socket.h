/*
 * local_socket: a connection to a daemon's local socket.
 */
#ifndef COMMON_LOCAL_SOCKET_H
#define COMMON_LOCAL_SOCKET_H

struct ucred;

/*
 * Connects, to ourselves or root only: in a directory that everybody may write to, such as
 * /tmp, somebody else can take the place of a daemon that does not run.  Root trusts the owner
 * of the directory, too.  Waits while the daemon has many to
 * accept, for `wait_ms` at most, 0: as long as it takes.  Returns the descriptor,
 * close-on-exec, and in `*ret_peer` who began to listen there, as the kernel has it; or a
 * negative errno; -EAGAIN: the wait was over; -EKEYREJECTED: it is somebody else who listens.
 */
int local_socket_connect(const char *path, unsigned wait_ms, struct ucred *ret_peer);

#endif /* COMMON_LOCAL_SOCKET_H */
