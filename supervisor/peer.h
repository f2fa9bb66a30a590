/*
 * peer: the supervisor's end of one control link (common/control.h).
 *
 * Owns its descriptor and what waits to be sent, descriptors included.  All that it reads are
 * fixed-size structs; descriptors that arrive are closed, as nobody has any to give us.
 */
#ifndef SUPERVISOR_PEER_H
#define SUPERVISOR_PEER_H

#include <stdbool.h>

#include "common/control.h"

/* Not in Debian 12's headers (Linux 6.16): whether an AF_UNIX socket receives descriptors. */
#define PEER_SO_PASSRIGHTS 83

struct event_base;
struct peer;

struct peer_handler {
	/* One struct; may call peer_close(). */
	void (*on_control)(const struct control *c, void *arg);
	/* The other end is gone, or broke the form; the peer is silent until peer_close(). */
	void (*on_end)(int error, void *arg);
};

/*
 * Takes `fd` (also on failure).  Returns NULL with errno set.
 */
struct peer *peer_open(
    struct event_base *base, int fd, const struct peer_handler *handler, void *arg);
/* NULL is allowed.  What still waits is dropped. */
void peer_close(struct peer *p);

/*
 * Reads now what has come and was not read: the last words of an end that is known to be gone.
 * May end in on_end().  NULL is allowed.
 */
void peer_drain(struct peer *p);

/*
 * Sends now or when there is room, in order.  Takes the descriptors, which are closed here
 * in any case.  A peer that lets 4096 wait has ended.  NULL is allowed, and drops.
 */
void peer_send(struct peer *p, const struct control *c, int *fds, unsigned nfds);

/* How many structs wait to be sent; NULL has none. */
unsigned peer_waiting(const struct peer *p);

/*
 * A socketpair of `type`, close-on-exec; ends of a stream that go to ours are non-blocking,
 * as they cannot say so themselves.  A stream is a link: where the kernel knows how, both
 * its ends refuse descriptors, and whoever sends one gets EPERM.  0 or a negative errno.
 */
int peer_pair(
    int type, bool nonblock_ours, bool nonblock_theirs, int *ret_ours, int *ret_theirs);

#endif /* SUPERVISOR_PEER_H */
