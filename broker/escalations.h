/*
 * escalations: what runtimes have asked a person for, until somebody grants it (TU-59).
 *
 * Owns a bounded table, in the order of asking, that the record implies: a broker that starts
 * is told it by its ledger.  The same ask twice has one id and one entry (TU-63).  Content is
 * not in it: what a runtime gave as its reason went with its turn's terminal event.
 */
#ifndef BROKER_ESCALATIONS_H
#define BROKER_ESCALATIONS_H

#include <sys/queue.h>

#include "common/protocol.h"

#define ESCALATION_ID 40 /* bytes, with its NUL */

struct escalation {
	char id[ESCALATION_ID];
	uint64_t requested_at_ms;
	char *requester; /* kind:id */
	char *operation;
	/* What was asked for; all NULL and empty if it named no call of a tool there is. */
	char *tool, *action, *resource;
	struct buf path; /* packed segments */
	uint8_t digest[32]; /* keyed, of the canonical arguments */
	bool resolved;	    /* a grant was issued for it */
	TAILQ_ENTRY(escalation) link;
};

struct escalations {
	TAILQ_HEAD(, escalation) list;
	size_t n;
};

void escalations_init(struct escalations *e);
void escalations_finish(struct escalations *e);

struct digest;

/*
 * The id of an ask: a keyed digest of who asks for what (TU-63), out of a record of it, which
 * has its requester as actor, and of `reason` if it names no call.  The ledger, which reads
 * the record back, cannot make an ask say something else.  Returns 0 or -ENOMEM.
 */
int escalation_id(
    struct digest *d, const struct msg_record *m, struct slice reason, char ret[ESCALATION_ID]);

/*
 * Puts one in, as the last, out of a record of type escalation.requested; one of its id that
 * is there goes, and at ESCALATIONS_MAX the oldest resolved one, else the oldest.  Returns 0;
 * -EINVAL for a record that is none; -ENOMEM.
 */
int escalations_add(struct escalations *e, const struct msg_record *m);
/* NULL if there is none of that id. */
struct escalation *escalations_find(struct escalations *e, struct slice id);
/* Could a grant for exactly what it asks for be made? */
bool escalation_names_a_call(const struct escalation *e);

#endif /* BROKER_ESCALATIONS_H */
