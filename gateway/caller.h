/*
 * caller: the requests of one client's connection, one at a time, and the broker's answers.
 *
 * A handler (routes.def) runs when the broker knows who the client is, and, of a route that
 * needs one, that the session in the path is that client's.  It asks the broker something and
 * says what is to be done with the answer, or answers at once.  What the broker refuses becomes
 * the HTTP answer by status.h.
 */
#ifndef GATEWAY_CALLER_H
#define GATEWAY_CALLER_H

#include "common/json_members.h"
#include "gateway/conn.h"
#include "gateway/routes.h"
#include "gateway/uplink.h"

struct operations;

struct caller {
	struct conn *conn;
	struct uplink *uplink;	   /* NULL: not dialed yet, or it ended */
	const struct route *route; /* of the request in service; NULL: there is none */
	uint32_t msgid;		   /* of the request to the broker that is waited for */
	void (*on_reply)(struct caller *x, const struct message *m);
	struct slice session; /* the map of the session in the path, while the handler runs */
	struct buf content;   /* of a file, as it comes (files.c) */
	uint64_t offset, wanted,
	    size;     /* likewise: the first byte, how many, the file's bytes */
	bool partial; /* likewise */
	struct operations *operations; /* once it is a WebSocket */
};

/* The request in service. */
static inline const struct request *
caller_request(const struct caller *x)
{
	return conn_request(x->conn);
}

/* Sends a request to the broker; `on_reply` gets its result.  If it cannot be sent, the client
 * is refused. */
void caller_ask(struct caller *x, enum msg_type type, const void *m,
    void (*on_reply)(struct caller *x, const struct message *m));

/* Answer the request in service, as the last thing that a handler does. */
void caller_answer(struct caller *x, unsigned status, const struct buf *json);
void caller_answer_value(struct caller *x, unsigned status, struct slice value);
/* {"NAME":LIST,"next":"..."}: a page; `next` is left out if it is empty. */
void caller_answer_page(
    struct caller *x, const char *name, struct slice list, struct slice next);
void caller_respond(struct caller *x, const struct response *r);
/* The same by conn_refuse(), where its status is not that of the code. */
void caller_refuse_as(
    struct caller *x, unsigned status, const char *code, struct slice message);
void caller_refuse(struct caller *x, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The upgrade to a WebSocket; no more requests come. */
void caller_upgrade(struct caller *x, const char *subprotocol);

/*
 * The query's member as a number from `min` to `max`; `fallback` if it is not there.  False:
 * the client has been refused.
 */
bool caller_number(struct caller *x, const char *name, uint64_t min, uint64_t max,
    uint64_t fallback, uint64_t *ret);
/* Reads the body, an object or nothing, by a table.  False: the client has been refused; `json`
 * is the caller's either way. */
bool caller_body(
    struct caller *x, const struct json_member *table, void *ret, struct buf *json);

/* Of a client whose connection is gone. */
void caller_destroy(struct caller *x);
/* conn_handler.on_request */
void caller_on_request(struct conn *c, const struct request *r);

#endif /* GATEWAY_CALLER_H */
