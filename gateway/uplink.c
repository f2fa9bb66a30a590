#include "gateway/uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/link.h"
#include "common/sha256.h"
#include "gateway/gateway.h"

enum uplink_state {
	UPLINK_DIALING,	 /* the supervisor has been asked */
	UPLINK_GREETING, /* hello is on its way */
	UPLINK_PROVING,	 /* principal.prove is */
	UPLINK_READY,
	UPLINK_OVER, /* on_end has been told */
};

struct uplink {
	struct gateway *gateway;
	const struct uplink_handler *handler; /* NULL once it is closed */
	void *arg;
	enum uplink_state state;
	struct dial dial;
	struct link *link;	     /* NULL before it, and after its end */
	uint8_t print[SHA256_BYTES]; /* of the proof */
	bool has_certificate;
	uint8_t certificate[32];
	char *token; /* NULL once it is sent */
	size_t token_n;
};

static void
print_proof(const struct proof *proof, uint8_t ret[SHA256_BYTES])
{
	if (proof->has_token)
		sha256(slice_of("token"), proof->token, ret);
	else
		sha256(slice_of("certificate"), (struct slice){ proof->certificate, 32 }, ret);
}

static void
forget_token(struct uplink *u)
{
	if (u->token != NULL)
		explicit_bzero(u->token, u->token_n);
	free(u->token);
	u->token = NULL;
}

static void
destroy(struct uplink *u)
{
	forget_token(u);
	free(u);
}

/* The last that its user hears; `u` may be gone afterwards. */
static void
end(struct uplink *u, struct slice code, struct slice message)
{
	if (u->state == UPLINK_OVER || u->handler == NULL)
		return;
	u->state = UPLINK_OVER;
	u->gateway->uplinks--;
	u->handler->on_end(u, code, message, u->arg);
}

static void
end_unavailable(struct uplink *u, const char *message)
{
	end(u, slice_of("unavailable"), slice_of(message));
}

/* ---- the link ------------------------------------------------------------------------ */

static void
prove(struct uplink *u)
{
	struct msg_principal_prove m = {
		.has_token = u->token != NULL,
		.token = { (const uint8_t *)u->token, u->token_n },
		.has_certificate = u->has_certificate,
		.certificate = { u->certificate, sizeof(u->certificate) },
	};
	int r = link_request(u->link, MSG_principal_prove, &m, NULL);

	forget_token(u);
	u->state = UPLINK_PROVING;
	if (r < 0)
		end(u, slice_of("internal"), slice_of("the proof cannot be handed on"));
}

static void
on_message(struct link *l, const struct message *m, void *arg)
{
	struct uplink *u = arg;

	(void)l;
	if (u->handler == NULL || u->state == UPLINK_OVER)
		return;
	if (u->state == UPLINK_READY) {
		u->handler->on_message(u, m, u->arg);
	} else if (m->kind == MSG_RESPONSE && m->failed) {
		end(u, m->error.code, m->error.message);
	} else if (u->state == UPLINK_GREETING && m->type == MSG_hello_reply) {
		prove(u);
	} else if (u->state == UPLINK_PROVING && m->type == MSG_principal_prove_reply) {
		u->state = UPLINK_READY;
		u->handler->on_ready(u, u->arg);
	} else {
		link_fault(u->link, "a message before the proof was answered");
	}
}

static void
on_end(struct link *l, enum link_end why, const struct fault *fault, int error, void *arg)
{
	struct uplink *u = arg;

	(void)l, (void)why, (void)fault, (void)error;
	u->link = NULL;
	if (u->handler == NULL)
		destroy(u);
	else
		end_unavailable(u, "the broker is gone");
}

static const struct link_handler link_handler = { .on_message = on_message, .on_end = on_end };

static void
on_dialed(struct dial *d, int fd, int error)
{
	struct uplink *u = d->arg;

	(void)error;
	if (fd >= 0)
		u->link =
		    link_open(u->gateway->base, fd, ROLE_CLIENT, ROLE_BROKER, &link_handler, u);
	if (u->link == NULL || link_hello(u->link, "gateway") < 0) {
		end_unavailable(u, "there is no broker now");
		return;
	}
	u->state = UPLINK_GREETING;
}

/* ---- its user ------------------------------------------------------------------------- */

struct uplink *
uplink_open(struct gateway *g, const struct proof *proof, const struct uplink_handler *handler,
    void *arg)
{
	struct uplink *u = calloc(1, sizeof(*u));

	if (u == NULL)
		return NULL;
	u->gateway = g;
	u->handler = handler;
	u->arg = arg;
	if (proof->has_token) {
		u->token_n = proof->token.n;
		u->token = malloc(u->token_n);
		if (u->token == NULL) {
			free(u);
			return NULL;
		}
		memcpy(u->token, proof->token.p, u->token_n);
	} else {
		u->has_certificate = true;
		memcpy(u->certificate, proof->certificate, sizeof(u->certificate));
	}
	print_proof(proof, u->print);
	u->dial.fn = on_dialed;
	u->dial.arg = u;
	g->uplinks++;
	gateway_dial(g, &u->dial);
	return u;
}

void
uplink_close(struct uplink *u)
{
	if (u == NULL)
		return;
	if (u->state != UPLINK_OVER)
		u->gateway->uplinks--;
	u->handler = NULL;
	gateway_dial_cancel(u->gateway, &u->dial);
	if (u->link != NULL)
		link_close(u->link); /* on_end() lets go of the rest */
	else
		destroy(u);
}

void
uplink_set_handler(struct uplink *u, const struct uplink_handler *handler, void *arg)
{
	u->handler = handler;
	u->arg = arg;
}

bool
uplink_is_ready(const struct uplink *u)
{
	return u != NULL && u->state == UPLINK_READY;
}

bool
uplink_is_of(const struct uplink *u, const struct proof *proof)
{
	uint8_t print[SHA256_BYTES];

	print_proof(proof, print);
	return memcmp(print, u->print, sizeof(print)) == 0;
}

int
uplink_request(struct uplink *u, enum msg_type type, const void *m, uint32_t *ret_msgid)
{
	return uplink_is_ready(u) && u->link != NULL ? link_request(u->link, type, m, ret_msgid)
						     : -EPIPE;
}

void
uplink_pause(struct uplink *u)
{
	if (u->link != NULL)
		link_pause(u->link);
}

void
uplink_resume(struct uplink *u)
{
	if (u->link != NULL)
		link_resume(u->link);
}
