/*
 * place: the calls that a provider runs at once, which wait for that, and which nobody waits
 * for any more.  Places go round between sessions; of a shared provider's the last quarter is
 * for sessions that have none.
 */
#ifndef BROKER_PLACE_H
#define BROKER_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/child.h"

struct call;
struct grant;

/*
 * What is left of a call whose operation is over, at a provider that has not answered: enough
 * to name its answer, and for whoever asks what may still happen.  Session, operation, call and
 * the configuration with the tool may be gone.
 */
struct late {
	char operation[40], call[40];
	struct grant *grant; /* held */
	/* private */
	uint32_t msgid;
	uint64_t lost_at_ms;
	bool lost;
	struct fields fields;
	TAILQ_ENTRY(late) entry; /* child.late */
	char tool[]; /* its name */
};

void lane_init(struct lane *l);
/* Is there a place, for whoever may have it? */
bool place_is_left(const struct child *p);
/* A call in CALL_WAITING stands in its lane, or leaves it. */
void place_wait(struct call *c);
void place_leave(struct call *c);
/* Takes the next one that may have a place out of its lane; NULL: none may, now. */
struct call *place_next(struct child *p);
/* One that waits, whosever turn it is; NULL: none does. */
struct call *place_waiting(const struct child *p);
/* A call is dispatched, or no longer waited for: its place stays taken until the answer. */
void place_take(struct call *c);
void place_give(struct call *c);
void place_answered(struct child *p);
/* The dispatched call with this id on the provider's link; NULL: nobody waits for it. */
struct call *place_find(const struct child *p, uint32_t msgid);
/* Its operation is over and it was not answered: keeps what names a late answer, which is a
 * fact beside the ending (D-2). */
void place_keep_late(const struct call *c);
/* That answer has come: it is recorded. */
void place_on_late(struct child *p, uint32_t msgid);
/* Nothing can come late any more. */
void place_forget_late(struct child *p);
/* When the next late call counts as lost (D-9), 0: never; those that do by now. */
uint64_t place_lost_at(const struct child *p);
void place_count_lost(struct child *p);

#endif /* BROKER_PLACE_H */
