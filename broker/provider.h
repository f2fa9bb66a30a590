/*
 * provider: a provider's process: a session's own, which lives and dies with it, or one for all
 * sessions, made when the first needs it, made again after a pause when it has died.  What
 * places it has is place.h's.
 */
#ifndef BROKER_PROVIDER_H
#define BROKER_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/child.h"

struct broker;
struct config;
struct control;
struct session;

/* The one that serves `s`: its own, or that of all. */
struct child *provider_of(struct session *s, uint32_t index);
/* Asks for it if it is not there; false if none will come: it has died too often, or nobody
 * is to start any more. */
bool provider_need(struct child *p);
/* Sets its alarm, and its session's, to the next instant that matters. */
void provider_arm(struct child *p);

/* One that is nothing yet, of no session: that is the caller's to say.  Its end, when
 * child_is_gone(). */
void provider_init(
    struct child *p, struct broker *b, struct config *config, uint32_t index);
void provider_finish(struct child *p);
/* A shared one is drained, and goes; killed soon if it does not.  Again is once. */
void provider_stop(struct child *p);
/* As session_orphan(). */
void provider_orphan(struct child *p);

/* What session_events.c has for one: its link (`fd` is taken; 0 or -ENOMEM), or the
 * supervisor's word. */
int provider_take_link(struct child *p, int fd);
void provider_on_refused(struct child *p, const struct control *c);
void provider_on_exit(struct child *p, const struct control *c);

#endif /* BROKER_PROVIDER_H */
