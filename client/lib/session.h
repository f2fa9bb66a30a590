/*
 * session: the object behind caisson_session_open(), for session.c and watch.c.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <pthread.h>
#include <signal.h>

#include "client/lib/internal.h"
#include "common/walk.h"

struct event;

struct caisson_session {
	struct caisson_sandbox *sandbox;
	pthread_mutex_t lock; /* over wire, lost, closing */
	struct wire *wire;
	bool lost; /* the connection is over: what came before that is still told */
	bool broken; /* it said what nobody may say: nothing more of it is believed */
	/* the thread that renews the lease */
	pthread_t thread;
	pthread_cond_t wake;
	bool renewing, started, closing;
	/* the operation whose events come, or came last */
	char operation[65]; /* "" until it is accepted */
	bool active;
	uint64_t last; /* sequence of the last event that was handed out */
	bool held; /* `accepted` is not */
	struct msg_operation_event accepted;
	struct buf json, code; /* what the last event is shown by */
	/* watch.c */
	struct event *readable, *writable;
	caisson_session_fn *fn;
	void *arg;
	bool *gone; /* set when it is closed below its own callback */
};

/* lease / 3, within bounds (OP-29). */
uint32_t heartbeat_ms(uint32_t lease_ms);
/* Nobody watches it any more. */
void session_unwatch(struct caisson_session *s);

#endif /* CLIENT_LIB_SESSION_H */
