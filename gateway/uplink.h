/*
 * uplink: a link to the broker in the name of one client.
 *
 * Asks the supervisor for the link, says hello, hands the client's proof over, and is then
 * ready for requests.  It is one principal's for as long as it lives: another proof needs
 * another one.  Of the proof a digest is kept, to know it again; the token only until it has
 * been sent.
 *
 * Owned by whoever opened it, up to uplink_close(), which may be called at any time, from
 * within its callbacks too.
 */
#ifndef GATEWAY_UPLINK_H
#define GATEWAY_UPLINK_H

#include "gateway/fields.h"

struct gateway;
struct uplink;

struct uplink_handler {
	/* The broker knows who this is. */
	void (*on_ready)(struct uplink *u, void *arg);
	/* A response to a request, or an event.  Slices live until this returns. */
	void (*on_message)(struct uplink *u, const struct message *m, void *arg);
	/*
	 * There is none, or no more: there is no broker (`code` unavailable), it refused the
	 * client (its own code), or it ended.  The last call; uplink_close() is left to do.
	 */
	void (*on_end)(struct uplink *u, struct slice code, struct slice message, void *arg);
};

/* Copies of the proof are its own.  NULL if memory is out. */
struct uplink *uplink_open(struct gateway *g, const struct proof *proof,
    const struct uplink_handler *handler, void *arg);
/* NULL is allowed.  No callback comes any more. */
void uplink_close(struct uplink *u);

/* Who is told from now on. */
void uplink_set_handler(struct uplink *u, const struct uplink_handler *handler, void *arg);

bool uplink_is_ready(const struct uplink *u);
/* Is it that of a client who shows this? */
bool uplink_is_of(const struct uplink *u, const struct proof *proof);

/* Queues a request; as link_request().  -EPIPE if it is not ready. */
int uplink_request(struct uplink *u, enum msg_type type, const void *m, uint32_t *ret_msgid);

/* Reads no more from the broker, whose log then drops what this client is too slow for. */
void uplink_pause(struct uplink *u);
void uplink_resume(struct uplink *u);

#endif /* GATEWAY_UPLINK_H */
