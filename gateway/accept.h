/*
 * accept: the listening sockets that the process was born with.
 *
 * Each public listener may hold its share of a quarter of all connections whatever the others
 * do; the rest is for who comes first.  The monitor's are few and beside that, so that it
 * answers when everything is full.  At the bound a connection at rest makes room, and where
 * there is none, who comes waits in the kernel's queue.  Out of descriptors or memory,
 * accepting pauses.
 */
#ifndef GATEWAY_ACCEPT_H
#define GATEWAY_ACCEPT_H

#include "gateway/gateway.h"

#define MONITOR_CONNECTIONS_MAX 16

/* Listeners config.listeners[i] are the descriptors `first_fd` + i.  0 or a negative errno. */
int acceptors_open(struct gateway *g, int first_fd);
void acceptors_stop(struct gateway *g); /* no new connection; the descriptors are closed */
void acceptors_close(struct gateway *g);

/* One of that acceptor's connections rests now, */
void acceptor_on_rest(struct acceptor *a);
/* or has ended. */
void acceptor_on_end(struct acceptor *a);
/* Does a connection less of the one make room for one more of the other? */
bool acceptor_may_give(const struct acceptor *from, const struct acceptor *to);
/* Of a connection: which handler, and place in the configuration. */
const struct conn_handler *acceptor_handler(const struct acceptor *a);
unsigned acceptor_index(const struct acceptor *a);
bool acceptor_is_monitor(const struct acceptor *a);

#endif /* GATEWAY_ACCEPT_H */
