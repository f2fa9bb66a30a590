/*
 * workspace_private: the inside of workspace: workspace.c has the child, workspace_requests.c
 * what it is asked for.
 */
#ifndef BROKER_WORKSPACE_PRIVATE_H
#define BROKER_WORKSPACE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>
#include <sys/tree.h>

#include "broker/child.h"
#include "broker/workspace.h"
#include "common/alarm.h"
#include "common/protocol.h"

#define WORKSPACE_REQUESTS_MAX 32 /* of one workspace, at once */

/* One tool.call: of a client that reads, or of an operation that changes. */
struct request {
	struct workspace *workspace;
	struct operation *op; /* NULL: it reads; or the operation's end came first: */
	struct client *client; /* who reads; NULL: nobody waits */
	enum msg_type type; /* of the client's request */
	uint32_t client_msgid;
	char id[40];
	const char *tool;
	struct buf arguments; /* packed; released once sent */
	uint32_t msgid;
	uint64_t sent_at_ms;
	TAILQ_ENTRY(request) entry; /* workspace.waiting, or .sent */
	LIST_ENTRY(request) of_client; /* client.requests */
};

TAILQ_HEAD(requests, request);

struct workspace {
	struct child child; /* one after the other */
	struct sandbox *sandbox;
	bool alive; /* from asked for to reaped: then `child` is known by its number */
	bool greeted; /* its hello was heard */
	bool leaving; /* nothing more is sent to it */
	bool stopping; /* there will be no other */
	unsigned starts; /* since the last hello */
	uint64_t idle_at_ms, kill_at_ms; /* 0: not */
	struct alarm alarm;
	struct requests waiting, sent;
	unsigned nrequests;
	RB_ENTRY(workspace) by_number; /* broker.workspaces, by child.number */
};

/* Made when it is first needed; NULL if memory is out. */
struct workspace *workspace_of_sandbox(struct sandbox *sb);
/* Something waits for the child. */
void workspace_ask(struct workspace *w);

/* ---- workspace_requests.c --------------------------------------------------------------- */

/* False if the link takes no more. */
bool request_send(struct workspace *w, struct request *r);
/* An answer of the child's; false if it is to nothing that was asked. */
bool request_answer(struct workspace *w, const struct message *m);
/* The operation has ended: true if the child is at work for it; else it was never asked. */
bool request_withdraw(struct workspace *w, struct operation *op);
/* No answer will come: to those that were `sent` what happened is unknown. */
void requests_fail(struct requests *all, bool sent);
/* Those of clients, at once. */
void requests_fail_reads(struct workspace *w);
/* Without a word. */
void requests_forget(struct workspace *w);

#endif /* BROKER_WORKSPACE_PRIVATE_H */
