/*
 * gateway: what the process is made of, and its one way to a broker.
 *
 * caisson-gateway carries clients' requests to the broker and back.  It decides nothing and
 * holds no authority: who a client is, the broker judges by the proof that is handed on.
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/alarm.h"
#include "gateway/config.h"
#include "gateway/conn.h"

struct event;
struct event_base;
struct acceptor;
struct monitor;

/* The gateway's own numbers: rows of common/metrics.def. */
struct gateway_stats {
#define METRIC_broker(field)
#define METRIC_gateway(field)			      uint64_t field;
#define METRIC(field, name, type, owner, help) METRIC_##owner(field)
#include "common/metrics.def"
#undef METRIC_broker
#undef METRIC_gateway
};

/* One wish for a link to the broker.  Its owner's, and starts as zeroes but for `fn`, `arg`. */
struct dial {
	/* `fd` >= 0: the link, the callee's from now on; else -1, and `error` is an errno:
	 * there is no broker now.  From the loop, once; `d` may be used again from within. */
	void (*fn)(struct dial *d, int fd, int error);
	void *arg;
	bool set;
	bool sent;
	uint32_t number;
	TAILQ_ENTRY(dial) entry;
};
TAILQ_HEAD(dial_list, dial);

TAILQ_HEAD(conn_list, conn);

struct gateway {
	struct event_base *base;
	struct alarms *alarms; /* timers, for everybody (common/alarm.h) */
	struct gateway_config config;
	const struct conn_handler *handler; /* of the public listeners: api.h */
	struct acceptor *acceptors; /* config.nlisteners of them */
	struct monitor *monitor;
	struct gateway_stats stats;

	/* conn.c */
	struct conn_list conns;
	struct conn_list dirty; /* have something to write, or to do, this turn */
	struct buf spare; /* an empty queue, or none */
	struct event *soon; /* sees to them */
	struct alarm sweep; /* looks for times that have passed */
	uint64_t crowd; /* the most connections since memory was last given back */
	size_t buffered_bytes; /* of what clients have not sent whole yet */

	/* control.c */
	int control_fd;
	struct event *control;
	struct dial_list dials; /* in the order of their wishes */
	uint32_t last_dial;
	unsigned dials_sent;
	unsigned uplinks; /* that clients have and the broker has not ended (uplink.c) */
	struct alarm leave; /* bounds the shutdown */
	bool leaving; /* shutdown: no new connection, and each ends when it is at rest */
	bool parting; /* ... and nothing waits for the broker any more */
	bool settled;
	bool lost; /* the supervisor is gone */
};

/*
 * Everything but the configuration, which is in `g` already, out of the descriptors of
 * common/child.h; `handler` serves the public listeners.  Returns 0 or a negative errno.  The
 * process confines itself after it.
 */
int gateway_begin(struct gateway *g, const struct conn_handler *handler);
void gateway_end(struct gateway *g);

/* Asks for a link to the broker: answered by d->fn, never from within this call. */
void gateway_dial(struct gateway *g, struct dial *d);
/* Takes the wish back; it need not be set.  A link that comes for it is closed. */
void gateway_dial_cancel(struct gateway *g, struct dial *d);

#endif /* GATEWAY_GATEWAY_H */
