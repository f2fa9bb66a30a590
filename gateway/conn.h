/*
 * conn: a client's connection: HTTP requests one after the other, or a WebSocket (websocket.h).
 *
 * A connection is made by a listener (accept.h) and owned by itself: it goes when the client
 * goes, breaks a rule, or lets a time pass, and tells its user by on_close, which is always the
 * last call, always comes from the loop, and never from below a call of the user's.
 *
 * - One request is in service at a time; what the client sends behind it (pipelining) waits.
 * - Nothing is written from within a call: what is sent queues, and leaves as one write when
 * the
 *   loop comes round.
 * - A connection at rest holds no buffer.  Its cost is that of its struct, and of its TLS
 * state.
 * - Not taking a byte for write_timeout while some wait, sending no whole request within
 *   header_timeout of its first byte, resting for idle_timeout, and two unanswered pings end
 * it.
 *
 * Whoever answers later (after a broker has spoken) need only keep the `struct conn *` until
 * on_close.
 */
#ifndef GATEWAY_CONN_H
#define GATEWAY_CONN_H

#include "gateway/http.h"

struct conn;
struct gateway;

/* Bytes that wait for a client: from here on, its user should bring no more ... */
#define CONN_HIGH_BYTES (256u << 10)
/* ... until on_drained, which comes when they are down to here. */
#define CONN_LOW_BYTES	(64u << 10)

struct conn_handler {
	/* of a request's body, at most; the configuration's bound holds as well.  What comes
	 * before it is known from whom is kept small. */
	size_t body_bytes;
	/*
	 * One whole request.  It lives until it is answered, by conn_respond(), conn_refuse()
	 * or ws_accept(), now or later and exactly once, or until on_close.
	 */
	void (*on_request)(struct conn *c, const struct request *r);
	/* One whole text message of a WebSocket, valid UTF-8; it lives until this returns. 
	 * NULL if there are no WebSockets. */
	void (*on_text)(struct conn *c, struct slice text);
	/* conn_is_full() was true, and is no more.  May be NULL. */
	void (*on_drained)(struct conn *c);
	/* A WebSocket whose gateway is about to end: ws_close() it, now or when its operation
	 * is over, or it is cut off.  NULL: closed with 1001 at once. */
	void (*on_leave)(struct conn *c);
	/*
	 * The last call: `c` is gone when it returns, a request in service with it.  `code`: of
	 * a WebSocket, what the client closed it with; 1005: without a code; 1006: no close
	 * frame came.  0: it was none.  May be NULL.
	 */
	void (*on_close)(struct conn *c, unsigned code);
};

/* The user's pointer, NULL at first: on_close is where it is let go. */
void conn_set_user(struct conn *c, void *user);
void *conn_user(const struct conn *c);
struct gateway *conn_gateway(const struct conn *c);

/* Who the client is, somebody knows.  Until then its place is for others: when connections are
 * short it is the first to go, whatever it does, unless an answer is on its way to it. */
void conn_set_proven(struct conn *c);

/* The request in service; NULL if there is none. */
const struct request *conn_request(const struct conn *c);

struct response {
	unsigned status; /* 200..599 */
	const char *type; /* Content-Type; NULL if there is no body */
	struct slice body; /* copied */
	struct {
		const char *name;
		const char *value; /* printable ASCII */
	} fields[6]; /* more headers; a NULL name ends them */
	bool close; /* the connection ends behind it */
};

/*
 * Answers the request in service.  To HEAD the body is left out and its length is told.  Every
 * answer says `Cache-Control: no-store` and `X-Content-Type-Options: nosniff`.
 */
void conn_respond(struct conn *c, const struct response *r);
/*
 * The same with a body {"error":{"code":...,"message":...}}, both escaped.  401 says
 * `WWW-Authenticate: Bearer`, 429 and 503 `Retry-After: 1`.
 */
void conn_refuse(struct conn *c, unsigned status, const char *code, struct slice message);
/* 405, with `allow` ("GET, POST"). */
void conn_refuse_method(struct conn *c, const char *allow);

/* Ends the connection; on_close follows, from the loop.  What is queued is not waited for. */
void conn_abort(struct conn *c);

/* Bytes queued and not yet taken. */
size_t conn_queued(const struct conn *c);
/* At CONN_HIGH_BYTES or over: on_drained will come. */
bool conn_is_full(const struct conn *c);

/* Reads no more from the client, and delivers no more of what was read, until conn_resume(). */
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);

#endif /* GATEWAY_CONN_H */
