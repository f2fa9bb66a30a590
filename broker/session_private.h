/*
 * session: what session.c (a session's life), session_events.c (what happens to its
 * children) and provider.c (those that are providers) share.
 */
#ifndef BROKER_SESSION_PRIVATE_H
#define BROKER_SESSION_PRIVATE_H

#include "broker/broker.h"

/* Of no session: `session` and `shared` are the caller's. */
void child_init(struct child *c, struct broker *b, const struct config *config,
    enum child_kind kind, uint32_t index);
/* Orders the supervisor to make it. */
void child_ask(struct child *c);
/* Orders the supervisor to kill it, once. */
void child_kill(struct child *c);
/* Reaped, and its link has ended; or never made. */
bool child_is_gone(const struct child *c);
/* The supervisor is gone, and so is it. */
void child_orphan(struct child *c);
/* The session of that number; NULL if there is none. */
struct session *session_find(struct broker *b, uint64_t id);
/* The whole session, now. */
void session_kill(struct session *s);
/* A half of the worker's end may have come: acts when both have. */
void session_check_worker(struct session *s);

#endif /* BROKER_SESSION_PRIVATE_H */
