/*
 * state: the ledger's answer at the start: grants, asks, keys and sessions of the record, and
 * what the broker before us left open.
 */
#ifndef BROKER_STATE_H
#define BROKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/protocol.h"

struct broker;

/* Takes the link to the ledger: asks for the state if there is no journal yet. */
void state_ledger(struct broker *b, int fd);
/* Takes a segment that came before or after the state. */
void state_segment(struct broker *b, int fd, uint64_t number, uint64_t reserved_bytes);
void state_no_segment(struct broker *b, int error);
/* state_grants.c: what a page says of grants; 0 or a negative errno.  It may be told twice. */
int state_grants_read(struct broker *b, const struct msg_state_load_reply *page);
/* state_asks.c: likewise of asks and of keys. */
int state_asks_read(struct broker *b, const struct msg_state_load_reply *page);
/* Calls `fn` for each map of the list.  Returns 0, what `fn` returned, or -EINVAL. */
int state_each_map(
    struct broker *b, struct slice list, int (*fn)(struct broker *, struct slice));
/* All of it is here: into the set.  On false it was logged, and the broker settles. */
bool state_grants_attach(struct broker *b);

#endif /* BROKER_STATE_H */
