#include "broker/broker.h"

#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "common/walk.h"

/*
 * Local clients.  Who one is was read by the supervisor from the kernel (D-14); nothing in
 * a message says so.  A client that goes away detaches, its operation goes on (D-4).
 */

#define HELLO_MS   5000  /* from connecting to hello, then the connection is dropped */
#define UID_NOBODY 65534 /* what the kernel calls everybody whom it cannot name */

/*
 * D-18: the uid that owns the daemon, and root.  Nobody's own daemon has no other operator than
 * itself: it is what is left where there is nobody to ask.
 */
static bool
client_is_operator(const struct client *c)
{
	uint32_t operator = c->broker->config->operator;

	return c->uid == operator || (c->uid == 0 && operator != UID_NOBODY);
}

static struct operation *
client_operation(struct client *c, struct slice id)
{
	struct operation *op = operation_find(c->broker, id);

	return op != NULL && op->client == c ? op : NULL;
}

static void
handle_submit(struct client *c, const struct message *m)
{
	operation_submit(c, m->msgid, &m->u.operation_submit);
}

static const struct ended *
ended_find(struct broker *b, struct slice id)
{
	for (unsigned i = 0; i < ENDED_KEPT; i++) {
		const struct ended *e = &b->ended[i];

		if (e->id[0] != '\0' && (id.n == 0 || slice_is(id, e->id)))
			return e;
	}
	return NULL;
}

/* An operation that is over: what is lost is named, then comes its one ending (D-11). */
static void
client_replay(struct client *c, const struct ended *e, uint64_t after)
{
	struct msg_operation_event event = { .operation = slice_of(e->id) };
	struct buf body = { 0 };

	if (after < e->gap_to && e->gap_to != 0) {
		uint64_t from = after + 1 > e->gap_from ? after + 1 : e->gap_from;

		pack_map(&body, 2);
		pack_str(&body, "from");
		pack_uint(&body, from);
		pack_str(&body, "to");
		pack_uint(&body, e->gap_to);
		event.sequence = e->sequence - 1;
		event.type = event_type_gap;
		event.has_body = true;
		event.body = (struct slice){ body.p, body.n };
		link_notify(c->link, MSG_operation_event, &event);
		buf_finish(&body);
	}
	if (after >= e->sequence)
		return;
	event.sequence = e->sequence;
	event.type = e->type;
	event.has_body = true;
	event.body = (struct slice){ e->body.p, e->body.n };
	link_notify(c->link, MSG_operation_event, &event);
}

/* "The only one there is" says nothing where there are several. */
static bool
client_must_name(const struct broker *b)
{
	const struct session *first = TAILQ_FIRST(&b->sessions);

	return first != NULL ? TAILQ_NEXT(first, link) != NULL : b->nended > 1;
}

static void
handle_attach(struct client *c, const struct message *m)
{
	const struct msg_operation_attach *a = &m->u.operation_attach;
	struct slice id = a->has_operation ? a->operation : (struct slice){ 0 };
	struct operation *op = operation_find(c->broker, id);
	const struct ended *e;
	struct msg_operation_attach_reply reply = { 0 };

	if (id.n == 0 && client_must_name(c->broker)) {
		link_refuse(c->link, m->msgid, "invalid_argument",
		    "there are several operations: name one", false);
		return;
	}
	if (op != NULL && !op->told) {
		op->client = c;
		reply.operation = slice_of(op->id);
		link_reply(c->link, MSG_operation_attach_reply, m->msgid, &reply);
		return;
	}
	e = ended_find(c->broker, id);
	if (e == NULL) {
		link_refuse(
		    c->link, m->msgid, "not_found", "there is no such operation", false);
		return;
	}
	reply.operation = slice_of(e->id);
	link_reply(c->link, MSG_operation_attach_reply, m->msgid, &reply);
	client_replay(c, e, a->has_after ? a->after : 0);
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
		command_signal(&op->session->worker, (unsigned)s->signo);
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
	worker = &op->session->worker;
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
		command_input_end(&op->session->worker);
}

static void
handle_output_close(struct client *c, const struct message *m)
{
	const struct msg_output_close *o = &m->u.output_close;
	struct operation *op = client_operation(c, o->operation);
	struct child *worker;

	if (op == NULL)
		return;
	worker = &op->session->worker;
	pipe_close(o->stream == stream_stdout ? &worker->out : &worker->err);
	session_on_stream_end(worker);
}

static void
handle_list(struct client *c, const struct message *m)
{
	process_list(c, m->msgid);
}

static const struct {
	enum msg_type type;
	void (*handle)(struct client *, const struct message *);
} handlers[] = {
	{ MSG_operation_submit, handle_submit },
	{ MSG_operation_attach, handle_attach },
	{ MSG_operation_cancel, handle_stop },
	{ MSG_operation_signal, handle_signal },
	{ MSG_input_write, handle_input },
	{ MSG_input_close, handle_input_close },
	{ MSG_output_close, handle_output_close },
	{ MSG_process_list, handle_list },
	{ MSG_grant_issue, grants_handle },
	{ MSG_grant_revoke, grants_handle },
	{ MSG_grant_list, grants_handle },
	{ MSG_grant_why, grants_handle },
	{ MSG_escalation_list, grants_handle },
};

/* Until there are principals for others, everything here is the operator's. */
static void
client_refuse_stranger(struct client *c, const struct message *m)
{
	char text[256];

	if (m->kind != MSG_REQUEST)
		return;
	snprintf(text, sizeof text,
	    "uid %u is not the operator of this daemon, who is uid %u%s; no other principal is "
	    "known to this version",
	    c->uid, c->broker->config->operator,
	    c->broker->config->operator == UID_NOBODY || c->broker->config->operator == 0
		? "" : " or root");
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
	if (!client_is_operator(c)) {
		client_refuse_stranger(c, m);
		return;
	}
	for (size_t i = 0; i < countof(handlers); i++)
		if (handlers[i].type == m->type) {
			handlers[i].handle(c, m);
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

static void
client_on_silence(evutil_socket_t fd, short events, void *arg)
{
	struct client *c = arg;

	(void)fd;
	(void)events;
	log_info("client of uid %u says nothing and is dropped", c->uid);
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
		log_warn("client of uid %u broke the protocol: %s", c->uid, fault->rule);
	else if (end == LINK_END_SLOW)
		log_warn("client of uid %u does not read and is cut off", c->uid);
	TAILQ_FOREACH (s, &b->sessions, link) {
		if (s->operation->client != c)
			continue;
		s->operation->client = NULL;
		/* Nobody will send the rest of the input; nobody holds output back. */
		if (s->operation->wants_input)
			command_input_end(&s->worker);
		pipe_resume(&s->worker);
	}
	TAILQ_REMOVE(&b->clients, c, entry);
	client_tell_gone(b, c->uid, c->counted);
	client_forget_silence(c);
	process_forget(c);
	grants_forget(c);
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
	TAILQ_FOREACH (s, &c->broker->sessions, link)
		if (s->operation->client == c)
			pipe_resume(&s->worker);
}

static const struct link_handler client_handler = {
	.on_message = client_on_message,
	.on_end = client_on_end,
	.on_drained = client_on_drained,
};

static bool
client_watch(struct client *c)
{
	const struct timeval bound = { HELLO_MS / 1000, HELLO_MS % 1000 * 1000 };

	if (!c->counted)
		return true;
	c->silence = evtimer_new(c->broker->base, client_on_silence, c);
	return c->silence != NULL && event_add(c->silence, &bound) == 0;
}

void
client_create(struct broker *b, int fd, const struct control *m)
{
	bool counted = m->flags & CONTROL_FROM_SOCKET;
	struct client *c = calloc(1, sizeof *c);
	struct control taken = { .verb = CONTROL_CLIENT_TAKEN };

	/* Before a byte of it is read: from here on it dies with us. */
	if (counted)
		control_tell(b, &taken);
	if (c != NULL) {
		*c = (struct client){ .broker = b, .uid = m->uid, .gid = m->gid, .pid = m->pid,
			.counted = counted };
		if (client_watch(c))
			c->link = link_open(b->base, steal_fd(&fd), ROLE_BROKER, ROLE_CLIENT,
			    &client_handler, c);
	}
	if (c != NULL && c->link != NULL) {
		TAILQ_INSERT_TAIL(&b->clients, c, entry);
		return;
	}
	log_error("cannot take a client: out of memory");
	util_close(&fd);
	if (c != NULL)
		client_forget_silence(c);
	free(c);
	client_tell_gone(b, m->uid, counted);
}
