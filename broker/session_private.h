/*
 * session: what session.c (a session's life), session_events.c (what happens to its
 * children) and provider.c (those that are providers) share.
 */
#ifndef BROKER_SESSION_PRIVATE_H
#define BROKER_SESSION_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/child.h"
#include "broker/session.h"

struct broker;
struct config;

/* Of no session: `session` and `shared` are the caller's. */
void child_init(struct child *c, struct broker *b, struct config *config,
    enum child_kind kind, uint32_t index);
/* That of `s`, absent so far; NULL if memory is out. */
struct child *worker_create(struct session *s);
/* Gone, or absent, and its link over.  NULL is allowed. */
void worker_destroy(struct child *w);
/* The one that CONTROL_LINK and its like name by its number; NULL if there is none. */
struct child *worker_find(struct broker *b, uint64_t number);
/* An ending that came before its worker's says nothing of how that went, or what it used; and
 * that of a turn nothing of what its worker used in those before: this does. */
void worker_record(const struct child *w);
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
