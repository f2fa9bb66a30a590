/*
 * turn: what turn.c needs of turn_submit.c.
 */
#ifndef BROKER_TURN_PRIVATE_H
#define BROKER_TURN_PRIVATE_H

#include "broker/turn.h"

struct config;
struct operation;

/*
 * Does what a client claims of actor, receiver and message fit the turn (TU-11)?  NULL, or the
 * code that the turn is denied with.
 */
const char *turn_context_fault(
    const struct operation *op, const struct msg_operation_submit *m);

/* Fills t->asked from `tools` and `namespaces`, which turn_submit_fault() let pass.  Returns 0
 * or -ENOMEM. */
int turn_narrow(
    struct turn *t, const struct config *config, const struct msg_operation_submit *m);

#endif /* BROKER_TURN_PRIVATE_H */
