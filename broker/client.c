#include "broker/client.h"

#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/operation.h"
#include "broker/sandbox.h"
#include "broker/session.h"
#include "broker/subscriber.h"
#include "broker/workspace.h"
#include "common/log.h"
#include "common/util.h"
#include "common/walk.h"

/*
 * Clients.  Who a local one is was read by the supervisor from the kernel, and one that the
 * gateway carries proves it (principal.h); nothing else in a message says so (D-14).  A client
 * that goes away detaches, its operation goes on (D-4).
 */

#define HELLO_MS   5000 /* from connecting to hello, then the connection is dropped */

static struct operation *
client_operation(struct client *c, struct slice id)
{
	struct operation *op = operation_find(c->broker, id);

	if (op != NULL && op->sandbox != NULL)
		return principal_sees(c->principal, op->sandbox->owner) ? op : NULL;
	return op != NULL && op->client == c ? op : NULL;
}

static void
handle_prove(struct client *c, const struct message *m)
{
	principal_prove(c, m->msgid, &m->u.principal_prove);
}

static void
handle_stats(struct client *c, const struct message *m)
{
	stats_read(c, m->msgid);
}

static void
handle_submit(struct client *c, const struct message *m)
{
	const struct msg_operation_submit *s = &m->u.operation_submit;

	if (!s->has_session && !principal_is_operator(c->principal))
		link_refuse(c->link, m->msgid, "permission_denied",
		    "an operation without a session is the operator's: acquire a session",
		    false);
	else
		operation_submit(c, m->msgid, &m->u.operation_submit);
}

static void
handle_stop(struct client *c, const struct message *m)
{
	const struct msg_operation_cancel *stop = &m->u.operation_cancel;
	struct operation *op = client_operation(c, stop->operation);
	struct msg_operation_cancel_reply reply = { 0 };

	if (op == NULL) {
		link_refuse(c->link, m->msgid, "not_found", "no such operation is open", false);
		return;
	}
	/* Acknowledged first, then the operation ends (D-6). */
	link_reply(c->link, MSG_operation_cancel_reply, m->msgid, &reply);
	operation_end(op, ENDING_canceled);
	if (stop->has_kill && stop->kill)
		session_close(op->session, 0);
}

static void
handle_signal(struct client *c, const struct message *m)
{
	const struct msg_operation_signal *s = &m->u.operation_signal;
	struct operation *op = client_operation(c, s->operation);
	struct msg_operation_signal_reply reply = { 0 };

	if (op == NULL || op->kind != operation_kind_command) {
		link_refuse(c->link, m->msgid, "not_found", "no such command is open", false);
	} else if (!control_may_signal(s->signo)) {
		link_refuse(c->link, m->msgid, "invalid_argument",
		    "this signal cannot be sent; stop the operation instead", false);
	} else {
		command_signal(op->session->worker, (unsigned)s->signo);
		link_reply(c->link, MSG_operation_signal_reply, m->msgid, &reply);
	}
}

static void
handle_input(struct client *c, const struct message *m)
{
	const struct msg_input_write *w = &m->u.input_write;
	struct operation *op = client_operation(c, w->operation);
	struct child *worker;

	if (op == NULL || !op->wants_input)
		return; /* over, or never asked for: the bytes go nowhere */
	worker = op->session->worker;
	if (worker->input.n - worker->input_done + w->data.n > INPUT_WINDOW)
		link_fault(c->link, "input over its credit");
	else
		command_input(worker, w->data);
}

static void
handle_input_close(struct client *c, const struct message *m)
{
	struct operation *op = client_operation(c, m->u.input_close.operation);

	if (op != NULL && op->wants_input)
		command_input_end(op->session->worker);
}

static void
handle_output_close(struct client *c, const struct message *m)
{
	const struct msg_output_close *o = &m->u.output_close;
	struct operation *op = client_operation(c, o->operation);
	struct child *worker;

	if (op == NULL || op->feed != NULL)
		return; /* who follows it along with others leaves alone */
	worker = op->session->worker;
	pipe_close(o->stream == stream_stdout ? &worker->out : &worker->err);
	session_on_stream_end(worker);
}

static void
handle_list(struct client *c, const struct message *m)
{
	process_list(c, m->msgid);
}

/* What a client has to be, to be heard. */
enum need {
	NEED_NOTHING, /* the gateway's own, with nothing proven; or the operator */
	NEED_PROOF, /* as it is what proves */
	NEED_PRINCIPAL,
	NEED_OPERATOR,
};

/* Who may send what: all of it. */
static const struct handler {
	enum msg_type type;
	enum need need;
	void (*handle)(struct client *, const struct message *);
} handlers[] = {
	{ MSG_principal_prove, NEED_PROOF, handle_prove },
	{ MSG_operation_submit, NEED_PRINCIPAL, handle_submit },
	{ MSG_operation_attach, NEED_PRINCIPAL, attach_handle },
	{ MSG_operation_list, NEED_PRINCIPAL, attach_handle },
	{ MSG_operation_show, NEED_PRINCIPAL, attach_handle },
	{ MSG_operation_cancel, NEED_PRINCIPAL, handle_stop },
	{ MSG_operation_signal, NEED_PRINCIPAL, handle_signal },
	{ MSG_input_write, NEED_PRINCIPAL, handle_input },
	{ MSG_input_close, NEED_PRINCIPAL, handle_input_close },
	{ MSG_output_close, NEED_PRINCIPAL, handle_output_close },
	{ MSG_session_acquire, NEED_PRINCIPAL, sandbox_handle },
	{ MSG_session_show, NEED_PRINCIPAL, sandbox_handle },
	{ MSG_session_list, NEED_PRINCIPAL, sandbox_handle },
	{ MSG_session_release, NEED_PRINCIPAL, sandbox_handle },
	{ MSG_session_heartbeat, NEED_PRINCIPAL, sandbox_handle },
	{ MSG_file_list, NEED_PRINCIPAL, workspace_handle },
	{ MSG_file_read, NEED_PRINCIPAL, workspace_handle },
	{ MSG_file_stat, NEED_PRINCIPAL, workspace_handle },
	{ MSG_stats_read, NEED_NOTHING, handle_stats },
	{ MSG_process_list, NEED_OPERATOR, handle_list },
	{ MSG_grant_issue, NEED_OPERATOR, grants_handle },
	{ MSG_grant_revoke, NEED_OPERATOR, grants_handle },
	{ MSG_grant_list, NEED_OPERATOR, grants_handle },
	{ MSG_grant_why, NEED_OPERATOR, grants_handle },
	{ MSG_escalation_list, NEED_OPERATOR, grants_handle },
};

static bool
client_may(const struct client *c, enum need need)
{
	switch (need) {
	case NEED_NOTHING:
		return principal_is_operator(c->principal) ||
		       (c->gateway && c->principal == NULL);
	case NEED_PROOF: return c->gateway || c->principal != NULL;
	case NEED_PRINCIPAL: return c->principal != NULL;
	default: return principal_is_operator(c->principal);
	}
}

/* Who may, then: it is no secret to anybody who could connect. */
static void
operator_words(const struct broker *b, char *text, size_t cap)
{
	uint32_t operator = b->config->operator;

	snprintf(text, cap, "who is uid %u%s at the local socket", operator,
	    operator == UID_NOBODY || operator == 0 ? "" : " or root");
}

static void
client_refuse(struct client *c, const struct message *m)
{
	char who[128], operator[96], text[512];

	if (m->kind != MSG_REQUEST)
		return;
	operator_words(c->broker, operator, sizeof operator);
	if (c->full) {
		snprintf(text, sizeof text,
		    "the principal of uid %u has as many connections as it may; close one and "
		    "connect again", c->uid);
		link_refuse(c->link, m->msgid, "resource_exhausted", text, true);
		return;
	}
	if (c->gateway && c->principal == NULL) {
		link_refuse(c->link, m->msgid, "unauthenticated",
		    "nobody has proven who this is: show a token or a certificate first",
		    false);
		return;
	}
	if (c->principal == NULL)
		snprintf(who, sizeof who, "uid %u is not the operator of this daemon", c->uid);
	else
		snprintf(who, sizeof who, "%.64s is not the operator of this daemon",
		    c->principal->id);
	snprintf(text, sizeof text, "%s, %s%s", who, operator,
	    c->principal == NULL ? "; no principal of the configuration has this uid" : "");
	link_refuse(c->link, m->msgid, "permission_denied", text, false);
}

static void
client_forget_silence(struct client *c)
{
	if (c->silence != NULL)
		event_free(c->silence);
	c->silence = NULL;
}

static void
client_on_message(struct link *l, const struct message *m, void *arg)
{
	struct client *c = arg;

	(void)l;
	broker_tick(c->broker);
	if (m->type == MSG_hello) {
		client_forget_silence(c);
		return;
	}
	c->broker->stats.requests += m->kind == MSG_REQUEST;
	for (size_t i = 0; i < countof(handlers); i++) {
		const struct handler *h = &handlers[i];

		if (h->type != m->type)
			continue;
		if (client_may(c, h->need))
			h->handle(c, m);
		else
			client_refuse(c, m);
		return;
	}
}

/* The supervisor counts who is there. */
static void
client_tell_gone(struct broker *b, uint32_t uid, bool counted)
{
	struct control gone = { .verb = CONTROL_CLIENT_GONE, .uid = uid };

	if (counted)
		control_tell(b, &gone);
}

/* For the log; valid until the next call. */
static const char *
client_words(const struct client *c)
{
	static char text[128];

	if (!c->gateway)
		snprintf(text, sizeof text, "of uid %u", c->uid);
	else
		snprintf(text, sizeof text, "of the gateway (%.64s)",
		    c->principal != NULL ? c->principal->id : "not proven");
	return text;
}

static void
client_on_silence(evutil_socket_t fd, short events, void *arg)
{
	struct client *c = arg;

	(void)fd;
	(void)events;
	log_info("client %s says nothing and is dropped", client_words(c));
	link_close(c->link);
}

static void
client_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct client *c = arg;
	struct broker *b = c->broker;
	struct session *s;

	(void)l;
	(void)error;
	if (end == LINK_END_FAULT)
		log_warn("client %s broke the protocol: %s", client_words(c), fault->rule);
	else if (end == LINK_END_SLOW)
		log_warn("client %s does not read and is cut off", client_words(c));
	for (s = TAILQ_FIRST(&b->sessions); s != NULL && c->noperations > 0;
	     s = TAILQ_NEXT(s, link)) {
		if (s->operation->client != c)
			continue;
		operation_set_client(s->operation, NULL);
		/* Nobody will send the rest of the input; nobody holds output back. */
		if (s->operation->wants_input)
			command_input_end(s->worker);
		pipe_resume(s->worker);
	}
	subscribers_forget(c);
	TAILQ_REMOVE(&b->clients, c, entry);
	b->gateway_links -= c->gateway;
	principal_on_client_end(c);
	client_tell_gone(b, c->uid, c->counted);
	client_forget_silence(c);
	process_forget(c);
	grants_forget(c);
	sandbox_forget_client(c);
	free(c);
	if (b->settled && TAILQ_EMPTY(&b->clients))
		event_base_loopexit(b->base, NULL);
}

static void
client_on_drained(struct link *l, void *arg)
{
	struct client *c = arg;
	struct session *s;

	(void)l;
	/* Not of one that only follows sessions, of which there are many. */
	for (s = TAILQ_FIRST(&c->broker->sessions); s != NULL && c->noperations > 0;
	     s = TAILQ_NEXT(s, link))
		if (s->operation->client == c)
			pipe_resume(s->worker);
	subscribers_on_drained(c);
}

static void
client_on_refused(struct link *l, const char *code, void *arg)
{
	struct client *c = arg;

	(void)l;
	stats_on_refusal(&c->broker->stats, code);
}

static const struct link_handler client_handler = {
	.on_message = client_on_message,
	.on_end = client_on_end,
	.on_drained = client_on_drained,
	.on_refused = client_on_refused,
};

static bool
client_watch(struct client *c)
{
	const struct timeval bound = { HELLO_MS / 1000, HELLO_MS % 1000 * 1000 };

	if (!c->counted && !c->gateway)
		return true;
	c->silence = evtimer_new(c->broker->base, client_on_silence, c);
	return c->silence != NULL && event_add(c->silence, &bound) == 0;
}

/* Takes `fd`; NULL: it is closed, and logged. */
static struct client *
client_open(struct broker *b, int fd, const struct control *m)
{
	bool gateway = m->flags & CONTROL_FROM_GATEWAY;
	struct client *c = calloc(1, sizeof *c);

	if (c != NULL) {
		*c = (struct client){ .broker = b, .uid = m->uid, .gid = m->gid, .pid = m->pid,
			.gateway = gateway,
			.counted = !gateway && (m->flags & CONTROL_FROM_SOCKET) };
		TAILQ_INIT(&c->subscriptions);
		if (client_watch(c))
			c->link = link_open(b->base, steal_fd(&fd), ROLE_BROKER, ROLE_CLIENT,
			    &client_handler, c);
	}
	if (c != NULL && c->link != NULL)
		return c;
	log_error("cannot take a client: out of memory");
	util_close(&fd);
	if (c != NULL)
		client_forget_silence(c);
	free(c);
	return NULL;
}

void
client_create(struct broker *b, int fd, const struct control *m)
{
	bool gateway = m->flags & CONTROL_FROM_GATEWAY;
	bool counted = !gateway && (m->flags & CONTROL_FROM_SOCKET);
	struct control taken = { .verb = CONTROL_CLIENT_TAKEN };
	static bool full;
	struct client *c;

	/* Before a byte of it is read: from here on it dies with us. */
	if (counted)
		control_tell(b, &taken);
	if (gateway && b->gateway_links >= GATEWAY_LINKS_MAX) {
		log_warn("the gateway has %u links, and gets no more", b->gateway_links);
		util_close(&fd);
		return;
	}
	if (fd < 0 && !full)
		log_warn("a client cannot be served: too few descriptors: raise ulimit -n");
	full = fd < 0; /* said once, however many come */
	c = fd >= 0 ? client_open(b, fd, m) : NULL;
	if (c == NULL) {
		client_tell_gone(b, m->uid, counted);
		return;
	}
	TAILQ_INSERT_TAIL(&b->clients, c, entry);
	b->gateway_links += gateway;
	++*(gateway ? &b->stats.clients_gateway : &b->stats.clients_local);
	principal_on_client(c);
}
