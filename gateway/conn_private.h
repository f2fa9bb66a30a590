/*
 * conn_private: a connection's inside, for the files that make it: conn.c (bytes),
 * conns.c (all of them, and time), conn_http.c (requests and answers), conn_ws.c (a WebSocket),
 * accept.c.
 */
#ifndef GATEWAY_CONN_PRIVATE_H
#define GATEWAY_CONN_PRIVATE_H

#include <event2/event_struct.h>

#include "gateway/gateway.h"
#include "gateway/tls.h"
#include "gateway/websocket.h"

/* bytes of what is not whole yet, of all connections: gateway.buffered_bytes; half of it for
 * those whose proof has not come */
#define CONNS_BUFFERED_MAX (64u << 20)

struct acceptor;
struct ws;

/* A request in service: it owns its bytes, as the connection reads on. */
struct exchange {
	struct request request;
	bool counted; /* among those that the limit is about */
	uint8_t bytes[];
};

struct conn {
	struct event io; /* for reading, writing, or both: `waits` */
	TAILQ_ENTRY(conn) entry, dirty_entry;
	struct gateway *g;
	struct acceptor *acceptor;
	const struct conn_handler *handler;
	void *user;
	struct ssl_st *tls; /* NULL: plain */
	int fd;
	short waits; /* EV_READ, EV_WRITE: what `io` is set for */

	uint8_t *in; /* read, and not taken yet; NULL when empty */
	size_t in_bytes, in_cap;
	struct buf out; /* out.p[out_sent..out.n) is queued; freed when empty */
	size_t out_sent;

	struct http_scan scan;
	struct exchange *exchange;
	struct ws *ws; /* NULL: HTTP */

	uint64_t due_at_ms; /* 0: nothing; else what `expects` names has not come by then */
	uint64_t opened_at_ms;
	uint64_t taken_at_ms; /* when the client last took a byte, while some wait */
	uint64_t acknowledged_bytes; /* by a TCP client, when that was last looked at */

	bool dirty; /* in gateway.dirty */
	bool proven; /* conn_set_proven() */
	bool paused; /* by the user */
	bool held; /* a request waits until the client has taken answers */
	bool told_full; /* conn_is_full() was true: on_drained is owed */
	bool begun; /* a request is on its way, and has its time */
	bool eof; /* the client sends nothing more */
	bool more; /* there may be something to read without the socket's saying so */
	bool continued; /* 100 was sent for the request that comes */
	bool closing; /* ends when what is queued is taken */
	bool drained; /* ... which it is: what still comes is thrown away */
	bool shook_hands; /* a byte of the client's came through */
	bool tls_read_blocked; /* reading waits until it can be written (TLS), */
	bool tls_write_blocked; /* and the other way round */
	bool write_blocked; /* the socket is full */
	bool ended; /* on_close follows */
	unsigned code; /* on_close's */
};

/* conn.c */

/* Something is to be done for it when the loop comes round. */
void conn_touch(struct conn *c);
/* Ends it: on_close follows, from the loop. */
void conn_end(struct conn *c);
/* The same, because a time has passed: what the kernel holds for the client is forgotten, too.
 * */
void conn_cut_off(struct conn *c);
/* Ends it when what is queued is taken, and the client has ended, too, or 2 s later. */
void conn_finish(struct conn *c);
/* What the client has to do within `ms`; 0: nothing. */
void conn_expect(struct conn *c, unsigned ms);
/* A client that has not taken the answers to what it sent gets no more of them. */
bool conn_is_behind(const struct conn *c);
/* Where an answer or a frame is put together; conn_touch() then. */
struct buf *conn_out(struct conn *c);
void conn_free(struct conn *c); /* on_close first; never from below a callback of its own */
/* Sees to those that were touched, and frees those that have ended. */
void conns_on_soon(int fd, short events, void *g);

/* conns.c */

/* Takes `fd`, also on failure.  Returns 0 or a negative errno. */
int conn_open(struct gateway *g, struct acceptor *a, int fd, struct ssl_ctx_st *tls);
int conns_init(struct gateway *g); /* 0 or a negative errno */
void conns_finish(struct gateway *g);
void conns_leave(struct gateway *g); /* after CONTROL_SHUTDOWN */
/* Ends the connection that has rested longest, of those that make room for one of `a`; false:
 * none rests. */
bool conns_make_room(struct gateway *g, const struct acceptor *a);

/* conn_http.c */

/* Takes what is whole of `n` bytes.  Returns how many were taken; it may have ended since. */
size_t conn_take_requests(struct conn *c, uint8_t *p, size_t n);
/* The time for a request to come is over. */
void conn_late_request(struct conn *c);
/* The request in service is over without an answer of ours, or with it. */
void conn_drop_exchange(struct conn *c);

/* conn_ws.c */

size_t conn_take_frames(struct conn *c, uint8_t *p, size_t n);
/* The time is over: of a ping's interval, or of the closing handshake. */
void conn_late_frame(struct conn *c);
void conn_drop_ws(struct conn *c);
/* The gateway is about to end. */
void conn_leave_ws(struct conn *c);

#endif /* GATEWAY_CONN_PRIVATE_H */
