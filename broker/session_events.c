#include "broker/session_private.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/operation.h"
#include "broker/provider.h"
#include "broker/record.h"
#include "broker/rest.h"
#include "broker/sandbox.h"
#include "broker/shared.h"
#include "broker/turn.h"
#include "broker/workspace.h"
#include "common/log.h"
#include "common/util.h"

/* What happens to a session's children: the supervisor's word, and what their links say. */

static const struct link_handler worker_handler;

/* ---- what the supervisor says --------------------------------------------------------- */

static struct child *
child_find(struct broker *b, const struct control *c)
{
	struct child *worker;
	struct session *s;

	if (c->kind == CHILD_WORKSPACE)
		return workspace_find(b, c->session);
	if (c->kind != CHILD_PROVIDER) {
		worker = worker_find(b, c->session);
		return worker != NULL && c->kind == worker->kind ? worker : NULL;
	}
	s = session_find(b, c->session);
	if (s == NULL)
		return shared_find(b, c->session);
	return c->index < s->operation->config->nproviders ? &s->providers[c->index] : NULL;
}

static int
child_take_link(struct child *c, int fd)
{
	if (c->kind == CHILD_PROVIDER)
		return provider_take_link(c, fd);
	if (c->kind == CHILD_WORKSPACE)
		return workspace_take_link(c, fd);
	c->link =
	    link_open(c->broker->base, fd, ROLE_BROKER, ROLE_WORKER, &worker_handler, c);
	return c->link != NULL ? 0 : -ENOMEM;
}

/* Nobody could hear it: it goes, and what it was to do has ended. */
static void
child_unlinked(struct child *child)
{
	if (!child_serves(child))
		operation_end(child->session->operation, ENDING_host_lost);
	child_kill(child);
}

void
session_on_link(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned nfds)
{
	struct child *child = child_find(b, c);
	struct session *s;
	unsigned i = 0, wanted;
	int r = 0;

	if (child == NULL || child->state != CHILD_ASKED || child->linked)
		return;
	s = child->session;
	wanted = child_serves(child) ? 2 : child->kind == CHILD_TURN ? 3
	    : s->operation->has_input ? 3 : 2;
	if (nfds != wanted) {
		log_error("a child came with %u descriptors instead of %u: %s", nfds, wanted,
		    nfds == 0 ? "there is no room for them: raise ulimit -n" : "it is ended");
		child_unlinked(child);
		return;
	}
	child->linked = true;
	if (child->kind != CHILD_COMMAND)
		r |= child_take_link(child, steal_fd(&fds[i++]));
	else if (s->operation->has_input)
		r |= pipe_write(&child->in, child, steal_fd(&fds[i++]));
	if (!child_serves(child))
		r |= pipe_read(&child->out, child, steal_fd(&fds[i++]), stream_stdout);
	r |= pipe_read(&child->err, child, steal_fd(&fds[i++]), stream_stderr);
	if (r != 0) {
		log_error("cannot take a child's link: out of memory");
		child_unlinked(child);
	}
}

void
session_on_started(struct broker *b, const struct control *c)
{
	struct child *child = child_find(b, c);

	if (child != NULL && child->state == CHILD_ASKED) {
		child->state = CHILD_RUNNING;
		command_started(child);
	}
}

void
session_on_refused(struct broker *b, const struct control *c)
{
	struct child *child = child_find(b, c);
	struct operation *op;

	if (child == NULL || child->state != CHILD_ASKED)
		return;
	child->state = CHILD_GONE;
	child->exit = c->exit;
	if (child->kind == CHILD_PROVIDER) {
		provider_on_refused(child, c);
		return;
	}
	if (child->kind == CHILD_WORKSPACE) {
		workspace_on_refused(child, c);
		return;
	}
	op = child->session->operation;
	pipe_close(&child->in);
	pipe_close(&child->out);
	pipe_close(&child->err);
	link_close(child->link);
	if (!op->ended) {
		op->layer = c->layer < LAYER_MAX ? (enum layer)c->layer : LAYER_NONE;
		op->error = c->error;
		op->deaths = c->count;
		operation_end(op, ENDING_start_failed);
	}
	session_kill(child->session);
	session_arm(child->session);
}

void
worker_record(const struct child *c)
{
	const struct operation *op = c->session != NULL ? c->session->operation : NULL;
	enum ending cause = c->exit.cause != ENDING_none ? (enum ending)c->exit.cause
	    : c->exit.kind == EXIT_EXITED		  ? ENDING_exited : ENDING_signaled;
	struct record r;

	if ((op != NULL && !op->ended && c->served == 0) || ending_desc(cause) == NULL ||
	    (c->exit.kind != EXIT_EXITED && c->exit.kind != EXIT_SIGNALED))
		return;
	if (op != NULL)
		record_init(&r, c->broker, op, "worker.ended");
	else
		sandbox_record_init(&r, c->rests_in, "worker.ended");
	RECORD_TEXT(&r.m, cause, ending_desc(cause)->cause);
	r.m.has_source = true;
	r.m.source = record_source_kernel;
	record_usage(&r.m, &c->exit);
	record_append(&r, JOURNAL_OUTCOME, NULL, NULL);
}

void
session_on_exit(struct broker *b, const struct control *c)
{
	struct child *child = child_find(b, c);

	if (child == NULL || child->state == CHILD_ABSENT || child->state == CHILD_GONE)
		return;
	child->state = CHILD_GONE;
	child->exit = c->exit;
	if (child->kind == CHILD_PROVIDER) {
		provider_on_exit(child, c);
		return;
	}
	if (child->kind == CHILD_WORKSPACE) {
		workspace_on_exit(child, c);
		return;
	}
	if (child->session == NULL) {
		rest_on_exit(child);
		return;
	}
	worker_record(child);
	pipe_close(&child->in);
	session_flow(child->session);
	session_check_worker(child->session);
	session_arm(child->session);
}

void
child_orphan(struct child *c)
{
	if (c->state != CHILD_ASKED && c->state != CHILD_RUNNING)
		return;
	c->state = CHILD_GONE;
	c->exit = (struct exit_facts){ .kind = EXIT_UNKNOWN };
	pipe_close(&c->in);
	pipe_close(&c->out);
	pipe_close(&c->err);
	link_close(c->link);
}

void
session_orphan(struct session *s)
{
	child_orphan(s->worker);
	for (size_t i = 0; i < s->operation->config->nproviders; i++)
		child_orphan(&s->providers[i]);
	session_arm(s);
}

/* ---- links ---------------------------------------------------------------------------- */

/* A frame that names an operation that is over is refused, counted, and charged to nobody. */
static bool
names_open_operation(struct operation *op, struct slice id)
{
	return !op->ended && op->turn != NULL && op->turn->run_sent && slice_is(id, op->id);
}

static void
worker_on_message(struct link *l, const struct message *m, void *arg)
{
	struct child *c = arg;
	struct operation *op = c->session != NULL ? c->session->operation : NULL;
	const union msg_any *u = &m->u;
	struct slice id = { 0 };

	broker_tick(c->broker);
	if (op == NULL) {
		rest_on_message(c, m);
		return;
	}
	switch (m->type) {
	case MSG_hello:
		c->turns = u->hello.has_turns && u->hello.turns;
		if (op->kind == operation_kind_turn)
			turn_run(op);
		else
			sandbox_run_command(op);
		return;
	case MSG_command_run_reply: sandbox_on_command(op, m); return;
	case MSG_operation_run_reply: turn_on_outcome(op, m); return;
	case MSG_tool_invoke: id = u->tool_invoke.operation; break;
	case MSG_event_emit: id = u->event_emit.operation; break;
	case MSG_turn_annotate: id = u->turn_annotate.operation; break;
	case MSG_output_write: id = u->output_write.operation; break;
	default: link_fault(l, "unexpected message"); return;
	}
	if (!names_open_operation(op, id)) {
		if (m->kind == MSG_REQUEST)
			link_refuse(l, m->msgid, "host_closed", "host is closed", false);
		return;
	}
	if (m->type == MSG_tool_invoke)
		call_handle_invoke(op, m->msgid, &u->tool_invoke);
	else if (m->type == MSG_event_emit)
		turn_handle_emit(op, m->msgid, &u->event_emit);
	else if (m->type == MSG_turn_annotate)
		turn_handle_annotate(op, m->msgid, &u->turn_annotate);
	else
		operation_output(
		    op, u->output_write.stream, u->output_write.data.p, u->output_write.data.n);
	session_flow(c->session);
}

/* An event or a chunk over its bound costs what it would have cost, and is no nonsense (D-3,
 * OP-15). */
static bool
is_event_too_large(const struct fault *f)
{
	return f->rule == fault_too_long && f->field != NULL && strcmp(f->field, "data") == 0 &&
	    (f->method == protocol_name(MSG_event_emit) ||
		f->method == protocol_name(MSG_output_write));
}

static void
worker_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct child *c = arg;
	struct operation *op = c->session != NULL ? c->session->operation : NULL;

	(void)l;
	(void)error;
	broker_tick(c->broker);
	c->link = NULL;
	if (op == NULL) {
		rest_on_link_end(c);
		return;
	}
	if (end == LINK_END_FAULT && !op->ended && is_event_too_large(fault)) {
		op->limit_name = "event size";
		operation_end(op, ENDING_limit);
	} else if (end == LINK_END_FAULT && !op->ended) {
		op->fault = *fault;
		operation_end(op, ENDING_runtime_protocol_violation);
	} else if (end == LINK_END_SLOW && !op->ended) {
		op->limit_name = "unread replies";
		operation_end(op, ENDING_limit);
	} else if (end == LINK_END_ERROR && !op->ended) {
		operation_end(op, ENDING_host_lost);
	}
	session_check_worker(c->session);
	session_arm(c->session);
}

static const struct link_handler worker_handler = {
	.on_message = worker_on_message,
	.on_end = worker_on_end,
};
