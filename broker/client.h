/*
 * client: who has a link to the broker: a program of a user's on the machine, or one that the
 * gateway carries.  client.c: what it may send, and who answers it; here besides are those
 * that answer and have no header of their own.
 */
#ifndef BROKER_CLIENT_H
#define BROKER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

#include "broker/admissions.h"
#include "broker/pace.h"
#include "broker/principal.h"
#include "common/link.h"
#include "common/protocol.h"

struct broker;
struct control;
struct event;
struct operation;

struct client {
	struct broker *broker;
	struct link *link;
	/* as the kernel gave them to the supervisor (D-14); UID_NONE: of the gateway's */
	uint32_t uid, gid, pid;
	struct principal *principal; /* held; NULL: a stranger, or not proven yet */
	struct proof proof; /* what made it that */
	bool gateway; /* it is carried: only principal.prove says who it is */
	bool full; /* its principal has as many links as it may: it is nobody */
	bool cut; /* it is not that principal any more, and its link is ending */
	unsigned proofs_failed;
	/* came through the daemon's socket: the supervisor wants to know its end */
	bool counted;
	struct event *silence; /* until hello: then it is dropped; NULL: it may take its time */
	bool listing; /* process.list is not answered yet */
	LIST_HEAD(, waiting) waiting; /* for sessions: sandbox.c */
	unsigned nwaiting;
	LIST_HEAD(, request) requests; /* for files: workspace_requests.c */
	TAILQ_HEAD(, subscriber) subscriptions; /* operations in sessions that it follows */
	unsigned nsubscriptions;
	struct pace pace; /* at which it reads, as what it follows sees it */
	unsigned noperations; /* of which it alone gets the events: operation.client */
	TAILQ_ENTRY(client) entry; /* broker.clients */
};

/* Why something is not done, as a link's error slot has it. */
struct refusal {
	const char *code, *message;
	bool retryable;
};

extern const struct refusal refusal_not_ready, refusal_no_journal, refusal_no_memory;

static inline void
refusal_send(struct client *c, uint32_t msgid, const struct refusal *no)
{
	link_refuse(c->link, msgid, no->code, no->message, no->retryable);
}

/* Takes `fd`, -1 if there was no room for it; the rest is CONTROL_CLIENT's. */
void client_create(struct broker *b, int fd, const struct control *c);

/* ---- attach.c: who comes back to an operation, or asks what became of it -------------- */

/* operation.attach, operation.list, operation.show. */
void attach_handle(struct client *c, const struct message *m);
/*
 * Before anything else of a submission into a session that `c` may use, as a retry is answered
 * whatever has become of the session: answers, and returns true, if something came under its
 * key before, or it may have none (OP-38, D-10).  Else nothing is known of its key, if it has
 * one: `ret_key`.
 */
bool attach_by_key(struct client *c, uint32_t msgid, const struct msg_operation_submit *m,
    struct admission_key *ret_key);
/* Of a new key for which there is no room: which bound that is, and what helps. */
const struct refusal *attach_no_room(enum admission_state state);
/* Makes the feed of an operation in a session, with `c` following it, and takes its key (NULL:
 * it has none).  0, -ENOSPC or -ENOMEM: attach_forget() undoes it. */
int attach_submitter(
    struct operation *op, struct client *c, const struct admission_key *key);
/* It is not admitted, and never will be: its key is free, and who waits for it is refused. */
void attach_forget(struct operation *op, const struct refusal *no);

/* ---- process.c: what the supervisor says of the processes, for the operator ----------- */

/* Asks the supervisor what lives here; the rows and the reply follow. */
void process_list(struct client *c, uint32_t msgid);
/* CONTROL_PROCESSES: takes `fd`, -1 for none. */
void process_on_list(struct broker *b, int fd, int error);
/* Whatever it asked for, nobody waits for it. */
void process_forget(struct client *c);
/* At the end of the broker. */
void process_finish(struct broker *b);

/* ---- grants_issue.c, grants_revoke.c, grants_ask.c ------------------------------------ */

/* grant.issue, grant.revoke, grant.list, grant.why: of an operator's client (D-18). */
void grants_handle(struct client *c, const struct message *m);
/* The journal can be written again, or cannot. */
void grants_on_journal(struct broker *b);
/* Whatever it asked for, nobody waits for it. */
void grants_forget(struct client *c);
/* At the end of the broker. */
void grants_finish(struct broker *b);

#endif /* BROKER_CLIENT_H */
