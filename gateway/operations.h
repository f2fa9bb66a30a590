/*
 * operations: the WebSocket on which a client sends operations to its session and receives
 * their events (OP-19 to OP-27).
 *
 * One operation is active at a time, from `send` or `resume` to its terminal event.  The
 * gateway holds no event and numbers none: it carries what the broker sends, and reads no more
 * of it while its client is slow.  A client that goes away detaches; nothing is cancelled.
 */
#ifndef GATEWAY_OPERATIONS_H
#define GATEWAY_OPERATIONS_H

#include "common/protocol.h"

struct caller;
struct operations;

/* The route's handler: the client and its session are known; the upgrade is answered. */
void operations_open(struct caller *x);

/* conn_handler's, of a connection that is one. */
void operations_on_text(struct caller *x, struct slice text);
void operations_on_drained(struct caller *x);
void operations_on_leave(struct caller *x);

/* NULL is allowed. */
void operations_destroy(struct operations *o);

#endif /* GATEWAY_OPERATIONS_H */
