/*
 * wire: what a client says over a channel, and what comes back, in one of two languages: links
 * to a broker (local.c), HTTP and WebSocket to a gateway (web.c).
 *
 * A wire either makes calls, each answered before the next, or carries a session.  What an
 * event is called here is what the broker calls it, whichever way it came.
 */
#ifndef CLIENT_LIB_WIRE_H
#define CLIENT_LIB_WIRE_H

#include "client/lib/channel.h"
#include "common/pending.h"
#include "common/wshead.h"

enum verb {
	VERB_ACQUIRE,
	VERB_LIST,
	VERB_SHOW,
	VERB_RELEASE,
	VERB_HEARTBEAT,
	VERB_OPERATIONS,
	VERB_OPERATION,
	VERB_FILES,
	VERB_STAT,
	VERB_READ,
};

struct call {
	enum verb verb;
	const char *runtime, *session, *operation; /* ids */
	const char *path, *cursor, *key; /* NULL: none */
	uint32_t limit, lease_ms, timeout_ms, queue; /* 0: left out, but limit */
	bool immediate, wait;
	uint64_t offset, length; /* of VERB_READ */
};

/* What came on a session; slices live until the next wire_ops.next or channel_step(). */
struct incoming {
	bool refused; /* then `refusal`, else `event` */
	struct msg_operation_event event;
	struct caisson_error refusal;
};

struct wire;

struct wire_ops {
	/* Says hello; `runtime` and `session`: the one that it carries, NULL: it makes
	 * calls. */
	int (*greet)(struct wire *w, const char *runtime, const char *session,
	    struct caisson_error *error);
	/* The answer as JSON, or for VERB_READ the bytes. */
	int (*call)(struct wire *w, const struct call *c, struct buf *ret, struct caisson_error *error);
	/* Queue one frame each. */
	int (*send)(struct wire *w, const char *session, const struct caisson_operation *op,
	    struct caisson_error *error);
	int (*resume)(struct wire *w, const char *operation, uint64_t after, struct caisson_error *error);
	int (*cancel)(struct wire *w, const char *operation, struct caisson_error *error);
	int (*heartbeat)(struct wire *w, const char *session, struct caisson_error *error);
	/* Of what has come: 1 and `*ret`; 0: nothing whole; -1. */
	int (*next)(struct wire *w, struct incoming *ret, struct caisson_error *error);
};

struct wire {
	const struct wire_ops *ops;
	struct channel *ch;
	const struct caisson_client *client;
	uint64_t at_ms; /* until when what waits may wait */
	size_t held; /* bytes of the channel that the last incoming names */
	/* local.c */
	uint32_t last_msgid;
	struct pending pending; /* requests without an answer */
	/* web.c */
	bool upgraded;
	struct buf message; /* fragments of one, then the whole of it */
	struct buf value, data; /* what the last event is made of */
	bool within; /* one whose last frame has not come */
	bool message_over; /* it was handed out */
	/* What was asked and is not answered yet, in this order: answers keep it. */
	uint32_t older_cancels; /* of operations before the last one */
	bool asked; /* a send or resume */
	uint32_t cancels;
};

/* Connects and says hello.  NULL on failure. */
struct wire *wire_open(const struct caisson_client *c, const char *runtime, const char *session,
    struct caisson_error *error);
void wire_close(struct wire *w);
/* Waits for more, until w->at_ms, and takes it: 0; -1 with "transport". */
int wire_more(struct wire *w, struct caisson_error *error);

extern const struct wire_ops local_ops, web_ops;
/* web_next.c */
int web_next(struct wire *w, struct incoming *ret, struct caisson_error *error);

/* ---- websocket.c ------------------------------------------------------------------------- */

/* Appends one masked frame of a client (RFC 6455, 5.3). */
void wire_frame(struct buf *out, enum wshead_type type, const void *p, size_t n);
/* A key that nobody has had. */
void wire_key(char ret[WSHEAD_KEY + 1]);

/* ---- http.c ------------------------------------------------------------------------------ */

struct wire_response {
	unsigned status;
	size_t head_bytes;
	size_t body_bytes;
	bool has_length, close;
	bool upgrade, connection_upgrade; /* it changes to WebSocket, and says so in both places */
	bool unasked; /* it names an extension or a subprotocol: none was offered */
	char accept[64]; /* Sec-WebSocket-Accept; "" for none */
};
/* 1 with the head parsed; 0: not whole yet; -1 with "protocol". */
int wire_parse_response(struct slice in, struct wire_response *ret, struct caisson_error *error);
/*
 * Can it be one part of a path, which nobody on the way takes for another?  Encoded or not, some
 * take "." and "..", slashes and controls for something else.  NULL cannot.
 */
bool wire_is_part(const char *name);
/* Appends a path segment, or a query value, percent-encoded. */
void wire_encode(struct buf *out, const char *text);

#endif /* CLIENT_LIB_WIRE_H */
