#include "broker/child.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/session.h"
#include "common/link.h"
#include "common/log.h"
#include "common/util.h"

/* bytes of a provider's standard error that are logged a minute */
#define PROVIDER_LOG_MAX (64u << 10)
#define PROVIDER_LOG_MS	 60000
#define LOGGED_LINE_MAX	 512 /* and of what came at once */

/*
 * Standard streams.  Opaque bytes, in both directions; the descriptors are pipes of the
 * supervisor's making and already do not block (the broker has no fcntl).
 */

/* What a provider says on standard error is for the operator, a bounded amount of it. */
static void
provider_log(struct child *c, const uint8_t *p, size_t n)
{
	const char *id = c->kind == CHILD_PROVIDER ? child_provider(c)->id : "of a workspace";
	size_t line = n > 0 && p[n - 1] == '\n' ? n - 1 : n, before = c->logged_bytes;

	if (c->broker->now_ms - c->logged_from_ms >= PROVIDER_LOG_MS) {
		c->logged_from_ms = c->broker->now_ms;
		before = c->logged_bytes = 0;
	}
	if (line > LOGGED_LINE_MAX)
		line = LOGGED_LINE_MAX;
	c->logged_bytes += n;
	if (before >= PROVIDER_LOG_MAX)
		return;
	log_warn("provider %s: %.*s", id, (int)line, (const char *)p);
	if (c->logged_bytes >= PROVIDER_LOG_MAX)
		log_warn("provider %s says too much: no more of it for a minute", id);
}

static void
pipe_on_readable(evutil_socket_t fd, short events, void *arg)
{
	static uint8_t chunk[OUTPUT_CHUNK_MAX]; /* one thread, and never held over a return */
	struct pipe *p = arg;
	struct child *c = p->child;
	struct operation *op =
	    c->session != NULL && !child_serves(c) ? c->session->operation : NULL;
	ssize_t n;

	(void)events;
	broker_tick(c->broker);
	if (op != NULL && !op->ended && !operation_may_output(op)) {
		event_del(p->event);
		if (op->client != NULL)
			link_watch(op->client->link, OUTPUT_QUEUE_MAX / 2);
		return;
	}
	n = read(fd, chunk, sizeof chunk);
	if (n > 0) {
		if (c->rests_in != NULL)
			c->broker->stats.unheard_bytes += (uint64_t)n;
		else if (op == NULL)
			provider_log(c, chunk, (size_t)n);
		else {
			operation_output(op, p->stream, chunk, (size_t)n);
			session_streams_moved(c->session);
		}
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	pipe_close(p);
	session_on_stream_end(c);
}

int
pipe_read(struct pipe *p, struct child *c, int fd, enum stream stream)
{
	p->fd = fd;
	p->child = c;
	p->stream = stream;
	p->event = event_new(c->broker->base, fd, EV_READ | EV_PERSIST, pipe_on_readable, p);
	if (p->event == NULL || event_add(p->event, NULL) < 0) {
		pipe_close(p);
		return -ENOMEM;
	}
	return 0;
}

void
pipe_close(struct pipe *p)
{
	if (p->event != NULL)
		event_free(p->event);
	p->event = NULL;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

void
pipe_resume(struct child *c)
{
	if (c->out.event != NULL)
		event_add(c->out.event, NULL);
	if (c->err.event != NULL)
		event_add(c->err.event, NULL);
	session_flow(c->session);
	session_streams_moved(c->session);
}

static void
drain_one(const struct pipe *p, struct operation *op)
{
	static uint8_t chunk[OUTPUT_CHUNK_MAX]; /* as above, which may be one of our callers */
	ssize_t n;

	if (p->fd < 0)
		return;
	n = read(p->fd, chunk, sizeof chunk);
	if (n > 0)
		operation_output(op, p->stream, chunk, (size_t)n);
}

/* One read each: a chunk is what a pipe can hold, and numbers for two events are kept. */
/* What it said last is why it ended. */
static void
drain_log(struct child *c)
{
	static uint8_t chunk[OUTPUT_CHUNK_MAX];
	ssize_t n;

	while (c->err.fd >= 0 && c->logged_bytes < PROVIDER_LOG_MAX) {
		n = read(c->err.fd, chunk, sizeof chunk);
		if (n <= 0)
			break;
		provider_log(c, chunk, (size_t)n);
	}
}

void
pipe_drain(struct child *c)
{
	if (child_serves(c)) {
		drain_log(c);
		return;
	}
	drain_one(&c->out, c->session->operation);
	drain_one(&c->err, c->session->operation);
}

/* ---- input ---------------------------------------------------------------------------- */

static void
input_credit(struct operation *op, size_t bytes)
{
	struct msg_input_credit credit = { .operation = slice_of(op->id), .bytes = bytes };

	if (op->client != NULL && !op->ended)
		link_notify(op->client->link, MSG_input_credit, &credit);
}

static void
input_forget(struct child *c)
{
	buf_finish(&c->input);
	c->input_done = 0;
}

static void
input_on_writable(evutil_socket_t fd, short events, void *arg)
{
	struct child *c = arg;
	struct operation *op = c->session->operation;
	ssize_t n;

	(void)events;
	broker_tick(op->broker);
	if (c->input.n > c->input_done) {
		n = write(fd, c->input.p + c->input_done, c->input.n - c->input_done);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* nobody reads any more */
			pipe_close(&c->in);
			input_forget(c);
			input_credit(op, 0);
			return;
		}
		c->input_done += (size_t)n;
		input_credit(op, (size_t)n);
	}
	if (c->input.n > c->input_done)
		return;
	c->input.n = c->input_done = 0;
	event_del(c->in.event);
	if (!op->wants_input) { /* its end was announced, and all is written */
		pipe_close(&c->in);
		input_forget(c);
	}
}

int
pipe_write(struct pipe *p, struct child *c, int fd)
{
	p->fd = fd;
	p->child = c;
	p->event = event_new(
	    c->session->broker->base, fd, EV_WRITE | EV_PERSIST, input_on_writable, c);
	if (p->event == NULL) {
		pipe_close(p);
		return -ENOMEM;
	}
	if (c->input.n > 0 || !c->session->operation->wants_input)
		event_add(p->event, NULL);
	return 0;
}

void
command_input(struct child *c, struct slice data)
{
	if (c->linked && c->in.fd < 0)
		return; /* the command closed it */
	if (c->input_done > 0 && c->input_done >= c->input.n / 2) {
		memmove(c->input.p, c->input.p + c->input_done, c->input.n - c->input_done);
		c->input.n -= c->input_done;
		c->input_done = 0;
	}
	buf_add(&c->input, data.p, data.n);
	if (c->input.failed)
		operation_end(c->session->operation, ENDING_host_lost);
	else if (c->in.event != NULL)
		event_add(c->in.event, NULL);
}

void
command_input_end(struct child *c)
{
	c->session->operation->wants_input = false;
	if (c->in.event != NULL)
		event_add(c->in.event, NULL);
}

/* ---- signals -------------------------------------------------------------------------- */

void
command_signal(struct child *c, unsigned signo)
{
	struct control signal = { .verb = CONTROL_SIGNAL, .kind = c->kind,
		.session = c->number, .index = c->index, .error = (int32_t)signo,
		.generation = c->session->operation->config->generation };

	/* Its first words may be read before the supervisor has said that it runs. */
	if (c->state == CHILD_ASKED)
		c->signals |= UINT64_C(1) << signo;
	else if (c->state == CHILD_RUNNING)
		control_tell(c->session->broker, &signal);
}

void
command_started(struct child *c)
{
	for (unsigned signo = 1; c->signals != 0 && signo < 64; signo++)
		if (c->signals & UINT64_C(1) << signo)
			command_signal(c, signo);
	c->signals = 0;
}
