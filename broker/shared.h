/*
 * shared: the providers that all sessions of a configuration have in common.
 *
 * A set holds its configuration.  Sessions that began under it join it, and it stays as long as
 * the configuration is the broker's; then it goes with the last of them.  A provider that two
 * configurations make the same way, row and profile, is in the sets of both: its process goes
 * on, with the calls that it has, and what is called of it is each session's own
 * configuration's to say.  It is told nothing of tools but with each call.
 */
#ifndef BROKER_SHARED_H
#define BROKER_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/protocol.h"

struct broker;
struct child;
struct config;

/* The set of `config`, with one session more; NULL if memory is out. */
struct shared *shared_join(struct broker *b, struct config *config);
void shared_leave(struct shared *set);
struct child *shared_provider(struct shared *set, uint32_t index);
/* The one that the supervisor knows by `number`, whatever configuration it is of by now; NULL:
 * none. */
struct child *shared_find(struct broker *b, uint64_t number);
/* The same, by the provider's id. */
const struct child *shared_find_named(struct broker *b, uint64_t number, struct slice id);
/* All of them, one after the other: the one behind `p`, NULL: the first; NULL at the end. */
const struct child *shared_next(struct broker *b, const struct child *p);
/* Is it over, and in no set?  Then it is freed, from its alarm. */
bool shared_is_left(const struct child *p);
void shared_reap(struct child *p);
/* b->config is another one: it has a set of its own, with what it makes as it is. */
void shared_on_config(struct broker *b);
/* The supervisor has been told so: orders name that one, and sets that nobody uses any more go. */
void shared_on_taken(struct broker *b);

/* The broker ends: begins to end them, once; true if none is left. */
bool shared_stop_all(struct broker *b);
/* As session_orphan(). */
void shared_orphan_all(struct broker *b);
void shared_finish_all(struct broker *b);

#endif /* BROKER_SHARED_H */
