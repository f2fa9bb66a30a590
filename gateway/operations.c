#include "gateway/operations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/event_json.h"
#include "common/walk.h"
#include "gateway/caller.h"
#include "gateway/frames.h"
#include "gateway/gateway.h"
#include "gateway/websocket.h"

#define ID_MAX	   64	/* bytes of a session's or an operation's id */
#define WS_RESTART 1012 /* IANA: connect again */

/* Requests to the broker that may be open: from here on the client is read no more, and again
 * below the half. */
#define ASKED_MAX 16

enum state {
	OPERATIONS_IDLE,
	OPERATIONS_LOOKING, /* resume: is the operation one of this session? */
	OPERATIONS_ASKING,  /* send, or resume: the broker has been asked */
	OPERATIONS_ACTIVE,  /* events come */
};

/* Where each frame is put together; kept, as events come in numbers. */
static struct buf frame;
#define FRAME_KEEP (64u << 10) /* bytes of it that are worth that */

struct id {
	uint8_t n;
	uint8_t p[ID_MAX];
};

struct operations {
	struct caller *caller;
	struct id session;
	bool lease; /* heartbeats mean something */
	bool has_trace;
	uint8_t trace[32]; /* of the upgrade: that of operations that bring none */
	enum state state;
	uint32_t msgid;	     /* of submit, show, attach */
	struct id operation; /* active; of one that is over until the next */
	struct id cancelled; /* whose cancel was asked for last */
	uint64_t after;	     /* of a resume */
	unsigned asked;	     /* heartbeats and cancels that are not answered */
	bool paused;	     /* the client */
	bool leaving;	     /* the gateway is: closed when its operation is over */
};

static void
set_id(struct id *id, struct slice s)
{
	id->n = (uint8_t)(s.n <= ID_MAX ? s.n : 0);
	memcpy(id->p, s.p, id->n);
}

static struct slice
id_slice(const struct id *id)
{
	return (struct slice){ id->p, id->n };
}

/* ---- to the client ----------------------------------------------------------------------- */

/* Sends what was put together in `frame`, which is empty then. */
static void
send_frame(struct operations *o)
{
	if (frame.failed)
		ws_close(o->caller->conn, WS_INTERNAL, "memory is out");
	else
		ws_send_text(o->caller->conn, buf_slice(&frame));
	frame.n = 0;
	if (frame.failed || frame.cap > FRAME_KEEP)
		buf_finish(&frame);
}

static void
send_error(struct operations *o, struct slice code, struct slice message)
{
	frame_write_error(&frame, code, message);
	send_frame(o);
}

/* What breaks the rules of a connection ends it (OP-21, OP-22). */
static void
close_policy(struct operations *o, const char *reason)
{
	ws_close(o->caller->conn, WS_POLICY, reason);
}

/* The gateway ends, and nothing that was begun here is cut short by it. */
static void
leave_if_idle(struct operations *o)
{
	if (o->leaving && o->state == OPERATIONS_IDLE)
		ws_close(o->caller->conn, WS_RESTART, "connect again");
}

/* ---- to the broker ----------------------------------------------------------------------- */

static int
ask(struct operations *o, enum msg_type type, const void *m, uint32_t *ret_msgid)
{
	int r = uplink_request(o->caller->uplink, type, m, ret_msgid);

	if (r == -ERANGE)
		send_error(
		    o, slice_of("invalid_argument"), slice_of("the request is too large"));
	else if (r < 0)
		send_error(
		    o, slice_of("unavailable"), slice_of("the broker cannot be asked now"));
	return r;
}

/* Beside the operation: at most ASKED_MAX wait for their answer. */
static void
ask_aside(struct operations *o, enum msg_type type, const void *m)
{
	if (ask(o, type, m, NULL) < 0)
		return;
	if (++o->asked == ASKED_MAX) {
		o->paused = true;
		conn_pause(o->caller->conn);
	}
}

static void
answered_aside(struct operations *o)
{
	o->asked -= o->asked > 0;
	if (o->paused && o->asked <= ASKED_MAX / 2) {
		o->paused = false;
		conn_resume(o->caller->conn);
	}
}

static void
heartbeat(struct operations *o)
{
	struct msg_session_heartbeat m = { .session = id_slice(&o->session) };

	if (o->lease)
		ask_aside(o, MSG_session_heartbeat, &m);
}

static void
begin(struct operations *o, enum state state, enum msg_type type, const void *m)
{
	if (ask(o, type, m, &o->msgid) == 0)
		o->state = state;
}

/* ---- frames of the client ---------------------------------------------------------------- */

static void
handle_send(struct operations *o, struct frame *f)
{
	if (o->state != OPERATIONS_IDLE) {
		close_policy(o, "an operation is active: one at a time");
		return;
	}
	f->submit.has_session = true;
	f->submit.session = id_slice(&o->session);
	if (!f->submit.has_trace && o->has_trace) {
		f->submit.has_trace = true;
		f->submit.trace = (struct slice){ o->trace, sizeof(o->trace) };
	}
	o->operation.n = 0;
	begin(o, OPERATIONS_ASKING, MSG_operation_submit, &f->submit);
}

static void
handle_resume(struct operations *o, struct frame *f)
{
	struct msg_operation_show m = { .operation = f->operation };

	if (o->state != OPERATIONS_IDLE) {
		close_policy(o, "an operation is active: one at a time");
		return;
	}
	set_id(&o->operation, f->operation);
	o->after = f->after;
	begin(o, OPERATIONS_LOOKING, MSG_operation_show, &m);
}

/* Of the operation that has just ended it may have crossed the terminal event. */
static void
handle_cancel(struct operations *o, struct frame *f)
{
	struct msg_operation_cancel m = { .operation = f->operation };

	if (o->operation.n == 0 || !slice_equal(id_slice(&o->operation), f->operation)) {
		close_policy(o, "cancel names another operation than the active one");
	} else if (o->state == OPERATIONS_IDLE) {
		send_error(
		    o, slice_of("failed_precondition"), slice_of("the operation is over"));
	} else {
		o->cancelled = o->operation;
		ask_aside(o, MSG_operation_cancel, &m);
	}
}

static void
handle_heartbeat(struct operations *o, struct frame *f)
{
	(void)f;
	heartbeat(o);
}

static void (*const frame_handlers[])(struct operations *o, struct frame *f) = {
	[FRAME_SEND] = handle_send,
	[FRAME_CANCEL] = handle_cancel,
	[FRAME_HEARTBEAT] = handle_heartbeat,
	[FRAME_RESUME] = handle_resume,
};

void
operations_on_text(struct caller *x, struct slice text)
{
	struct operations *o = x->operations;
	struct json_fault fault;
	struct frame f = { .type = FRAME_SEND };
	int r = frame_read(text, conn_gateway(x->conn)->config.body_bytes, &f, &fault);

	if (r == -EINVAL)
		close_policy(o, fault.text);
	else if (r < 0)
		ws_close(x->conn, WS_INTERNAL, "memory is out");
	else
		frame_handlers[f.type](o, &f);
	frame_finish(&f);
}

void
operations_on_leave(struct caller *x)
{
	x->operations->leaving = true;
	leave_if_idle(x->operations);
}

void
operations_on_drained(struct caller *x)
{
	if (x->uplink != NULL)
		uplink_resume(x->uplink);
}

/* ---- messages of the broker -------------------------------------------------------------- */

static void
on_event(struct operations *o, const struct msg_operation_event *e)
{
	/* Those of one that was left, or is not admitted yet, are nobody's. */
	if (o->state != OPERATIONS_ACTIVE ||
	    !slice_equal(e->operation, id_slice(&o->operation)))
		return;
	if (e->type == event_type_completed || e->type == event_type_failed)
		o->state = OPERATIONS_IDLE;
	event_json_write(e, &frame);
	send_frame(o);
	leave_if_idle(o);
}

static void
on_shown(struct operations *o, const struct msg_operation_show_reply *reply)
{
	struct msg_operation_attach m = { .has_operation = true,
		.operation = id_slice(&o->operation),
		.has_after = true,
		.after = o->after };
	struct value session;

	o->state = OPERATIONS_IDLE;
	if (value_get(reply->operation, "session", &session) && session.type == VALUE_STR &&
	    slice_equal(session.bytes, id_slice(&o->session))) {
		begin(o, OPERATIONS_ASKING, MSG_operation_attach, &m);
		return;
	}
	o->operation.n = 0;
	send_error(o, slice_of("not_found"), slice_of("this session has no such operation"));
}

/* The answer to what was sent as the operation's own. */
static void
on_admission(struct operations *o, const struct message *m)
{
	o->msgid = 0;
	if (m->failed) {
		o->state = OPERATIONS_IDLE;
		o->operation.n = 0;
		send_error(o, m->error.code, m->error.message);
	} else if (m->type == MSG_operation_show_reply) {
		on_shown(o, &m->u.operation_show_reply);
	} else {
		set_id(&o->operation, m->type == MSG_operation_submit_reply
					  ? m->u.operation_submit_reply.operation
					  : m->u.operation_attach_reply.operation);
		o->state = OPERATIONS_ACTIVE;
	}
}

static void
on_aside(struct operations *o, const struct message *m)
{
	answered_aside(o);
	if (m->failed) {
		send_error(o, m->error.code, m->error.message);
	} else if (m->type == MSG_operation_cancel_reply) {
		frame_write_cancel(&frame, id_slice(&o->cancelled));
		send_frame(o);
	}
}

static void
on_message(struct uplink *u, const struct message *m, void *arg)
{
	struct operations *o = arg;

	if (m->kind == MSG_NOTIFY) {
		if (m->type == MSG_operation_event)
			on_event(o, &m->u.operation_event);
	} else if (m->msgid == o->msgid && o->msgid != 0) {
		on_admission(o, m);
		leave_if_idle(o);
	} else {
		on_aside(o, m);
	}
	if (conn_is_full(o->caller->conn))
		uplink_pause(u);
}

/* What became of the operation, the client asks the next broker (OP-27, OP-41). */
static void
on_end(struct uplink *u, struct slice code, struct slice message, void *arg)
{
	struct operations *o = arg;

	o->caller->uplink = NULL;
	o->state = OPERATIONS_IDLE;
	send_error(o, code, message);
	ws_close(o->caller->conn, WS_RESTART, "connect again, and resume");
	uplink_close(u);
}

static const struct uplink_handler uplink_handler = { NULL, on_message, on_end };

/* ---- the upgrade ------------------------------------------------------------------------- */

static bool
offers_ours(const struct request *r)
{
	struct ws_offers offers = { 0 };
	struct slice one;

	while (ws_offer_next(r, &offers, &one))
		if (slice_is(one, "caisson"))
			return true;
	return false;
}

void
operations_open(struct caller *x)
{
	const struct request *r = caller_request(x);
	struct operations *o = calloc(1, sizeof(*o));
	int trace;
	struct slice id;
	struct value lease;

	if (o == NULL) {
		caller_refuse(x, "unavailable", "memory is out");
		return;
	}
	trace = fields_trace(r, &id);
	if (trace < 0) {
		caller_refuse(x, "invalid_argument", "traceparent: is not of the W3C's form");
		free(o);
		return;
	}
	o->caller = x;
	o->has_trace = trace > 0;
	if (o->has_trace)
		memcpy(o->trace, id.p, sizeof(o->trace));
	set_id(&o->session, routes_session(r));
	o->lease = value_get(x->session, "leaseMs", &lease) && lease.type == VALUE_UINT;
	x->operations = o;
	uplink_set_handler(x->uplink, &uplink_handler, o);
	caller_upgrade(x, offers_ours(r) ? "caisson" : NULL);
	heartbeat(o);
}

void
operations_destroy(struct operations *o)
{
	free(o);
}
