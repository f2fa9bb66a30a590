/*
 * internal: what the files of the library share: its objects, and who owns them.
 */
#ifndef CLIENT_LIB_INTERNAL_H
#define CLIENT_LIB_INTERNAL_H

#include "client/lib/wire.h"

struct caisson_client {
	struct target target;
	SSL_CTX *tls; /* NULL: none */
	char *namespace; /* percent-encoded already */
	char *token; /* NULL: none */
	uint32_t timeout_ms;
	struct wire *calls; /* NULL: not connected */
};

struct caisson_sandbox {
	struct caisson_client *client;
	char *runtime, *id;
	bool lease_known;
	uint32_t lease_ms;
};

/* One call on the client's own connection, which is made when there is none. */
int client_call(struct caisson_client *c, const struct call *call, struct buf *ret,
    struct caisson_error *error);

/* Of a request; NULL is none.  0, or -1 with "usage". */
int check_key(const char *key, struct caisson_error *error);

/* The text of a member of a JSON object; false if it has none, or it does not fit. */
bool answer_member(const char *json, const char *name, char *ret, size_t cap);
/* Likewise a number; 0 if there is none. */
uint64_t answer_number(const char *json, const char *name);

/* What an event is to those who call the library: `ret` holds slices of `e`, and `json` the
 * line, NUL-terminated. */
int event_show(const struct msg_operation_event *e, struct buf *json, struct buf *code,
    struct caisson_event *ret, struct caisson_error *error);

/*
 * What the session connection has, for the caisson command: the event as the broker's own
 * struct.  As caisson_session_next() and caisson_receive().
 */
int session_next(
    struct caisson_session *s, struct msg_operation_event *ret, struct caisson_error *error);

#endif /* CLIENT_LIB_INTERNAL_H */
