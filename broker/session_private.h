/*
 * session: what session.c (a session's life) and session_events.c (what happens to its
 * children) share.
 */
#ifndef BROKER_SESSION_PRIVATE_H
#define BROKER_SESSION_PRIVATE_H

#include "broker/broker.h"

/* Orders the supervisor to kill it, once. */
void child_kill(struct child *c);
/* The whole session, now. */
void session_kill(struct session *s);
/* A half of the worker's end may have come: acts when both have. */
void session_check_worker(struct session *s);

#endif /* BROKER_SESSION_PRIVATE_H */
