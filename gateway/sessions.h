/*
 * sessions: the HTTP API's handlers (routes.def) of sessions and of what became of operations.
 */
#ifndef GATEWAY_SESSIONS_H
#define GATEWAY_SESSIONS_H

struct caller;

void sessions_acquire(struct caller *x);
void sessions_list(struct caller *x);
void sessions_show(struct caller *x);
void sessions_release(struct caller *x);
void sessions_heartbeat(struct caller *x);
void sessions_list_operations(struct caller *x);
void sessions_show_operation(struct caller *x);

#endif /* GATEWAY_SESSIONS_H */
