#include "worker/sdk/caisson.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOCOL   1
#define FRAME_MAX  (1u << 20)	/* bytes */
#define RESULT_MAX (768u << 10) /* bytes */

/* A message that has arrived and that nobody has taken. */
struct frame {
	struct frame *next;
	uint32_t msgid;
	struct caisson_value error, body; /* body: result or params */
	size_t n;
	uint8_t bytes[];
};

struct caisson {
	int fd;
	uint32_t msgid, first_msgid; /* the last one used; the first one of this turn */
	unsigned state, in_flight;   /* CAISSON_DRAINING, ...; replies not yet taken */
	struct frame *replies;	     /* in the order in which they came */
	struct frame *run;	     /* the turn that is open, or waits to be taken */
};

static int
read_all(int fd, uint8_t *p, size_t n)
{
	struct pollfd poll_fd = { fd, POLLIN, 0 };
	ssize_t r;

	for (; n > 0; n -= r > 0 ? (size_t)r : 0, p += r > 0 ? r : 0) {
		r = read(fd, p, n);
		if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR))
			return -EPIPE;
		if (r < 0)
			(void)poll(&poll_fd, 1, -1);
	}
	return 0;
}

/* Where the reply to `msgid` is, or would be; 0: the first one there is. */
static struct frame **
find_reply(struct caisson *c, uint32_t msgid)
{
	struct frame **f = &c->replies;

	while (*f != NULL && msgid != 0 && (*f)->msgid != msgid)
		f = &(*f)->next;
	return f;
}

/* Takes a whole frame apart; true if it is kept. */
static int
handle(struct caisson *c, struct frame *f)
{
	struct caisson_value rest = { f->bytes, f->n }, part[4] = { { NULL, 0 } };
	struct caisson_cursor it = caisson_iterate(rest);
	struct caisson_value all, method;
	unsigned kind, i;

	if (!caisson_take(&rest, &all) || rest.n > 0 || it.left < 3 || it.left > 4)
		return -EPROTO;
	for (i = 0; i < 4 && caisson_next(&it, &part[i]); i++)
		continue;
	kind = (unsigned)caisson_uint(part[0]);
	f->msgid = (uint32_t)caisson_uint(part[1]);
	if (kind == 1) {
		f->error = part[2];
		f->body = part[3];
		if (f->msgid < c->first_msgid)
			return 0; /* a call of an earlier turn that nobody waited for */
		*find_reply(c, UINT32_MAX) = f;
		return 1;
	}
	method = part[kind == 2 ? 1 : 2];
	it = caisson_iterate(part[kind == 2 ? 2 : 3]);
	if (!caisson_next(&it, &f->body))
		return -EPROTO;
	if (caisson_is(method, "operation.run") && c->run == NULL) {
		c->run = f;
		c->state = 0;
		return 1;
	}
	if (!caisson_is(method, "operation.drain") && !caisson_is(method, "operation.cancel"))
		return -EPROTO;
	c->state |=
	    caisson_is(method, "operation.drain") ? CAISSON_DRAINING : CAISSON_CANCELLED;
	return 0;
}

/* Waits for `events`, not at all if 0, and takes in one frame if it has arrived. */
static int
pump(struct caisson *c, short events)
{
	struct pollfd poll_fd = { c->fd, events | POLLIN, 0 };
	struct frame *f;
	uint8_t head[4];
	size_t n;
	int r = poll(&poll_fd, 1, events != 0 ? -1 : 0);

	if (r <= 0 || !(poll_fd.revents & ~POLLOUT))
		return r < 0 && errno != EINTR ? -errno : 0;
	if ((r = read_all(c->fd, head, 4)) < 0)
		return r;
	n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	f = n <= FRAME_MAX ? calloc(1, sizeof *f + n) : NULL;
	if (f == NULL)
		return n <= FRAME_MAX ? -ENOMEM : -EPROTO;
	f->n = n;
	r = read_all(c->fd, f->bytes, n);
	if (r == 0)
		r = handle(c, f);
	if (r <= 0)
		free(f);
	return r < 0 ? r : 1;
}

/* Begins a message; the length is filled in by finish(). */
static void
begin(struct caisson_writer *w, unsigned kind, uint32_t msgid, const char *method)
{
	caisson_put_raw(w, "\0\0\0", 4);
	caisson_put_head(w, CAISSON_ARRAY, 4);
	caisson_put_uint(w, kind);
	caisson_put_uint(w, msgid);
	if (method == NULL)
		return caisson_put_nil(w);
	caisson_put_str(w, method);
	caisson_put_array(w, 1);
}

/* Sends it; reads meanwhile, so that neither side waits for the other. */
static int
finish(struct caisson *c, struct caisson_writer *w)
{
	size_t n = w->n - 4, at;
	ssize_t r;
	int error = w->error != 0 ? w->error : n > FRAME_MAX ? -EMSGSIZE : 0;

	for (at = 0; error == 0 && at < 4; at++)
		w->p[at] = (uint8_t)(n >> 8 * (3 - at));
	for (at = 0; error >= 0 && at<w->n; at += r> 0 ? (size_t)r : 0) {
		r = write(c->fd, w->p + at, w->n - at);
		if (r < 0 && errno == EAGAIN)
			error = pump(c, POLLIN | POLLOUT);
		else if (r < 0 && errno != EINTR)
			error = -EPIPE;
	}
	caisson_writer_finish(w);
	return error < 0 ? error : 0;
}

int
caisson_open(struct caisson **ret)
{
	const char *text = getenv("CAISSON_LINK_FD");
	struct caisson *c = calloc(1, sizeof *c);
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_result r;
	int error;

	if (c == NULL)
		return -ENOMEM;
	c->fd = text != NULL ? (int)strtol(text, NULL, 10) : -1;
	/* What the runtime starts has no business on the link. */
	if (fcntl(c->fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0) {
		free(c);
		return -EBADF;
	}
	begin(&w, 0, c->msgid = 1, "hello");
	caisson_put_map(&w, 2);
	caisson_put_str(&w, "protocol");
	caisson_put_uint(&w, PROTOCOL);
	caisson_put_str(&w, "name");
	caisson_put_str(&w, "caisson.c");
	error = finish(c, &w);
	c->in_flight = 1;
	if (error == 0)
		error = caisson_call_wait(c, 0, &r);
	if (error == 0) {
		error = r.status == CAISSON_SUCCEEDED ? 0 : -EPROTO;
		caisson_result_finish(&r);
	}
	if (error < 0)
		caisson_close(c);
	else
		*ret = c;
	return error;
}

static void
end_turn(struct caisson *c)
{
	struct frame *f;

	while ((f = c->replies) != NULL) {
		c->replies = f->next;
		free(f);
	}
	free(c->run);
	c->run = NULL;
	c->first_msgid = c->msgid + 1;
	c->in_flight = 0;
}

void
caisson_close(struct caisson *c)
{
	if (c == NULL)
		return;
	end_turn(c);
	close(c->fd);
	free(c);
}

int
caisson_next_turn(struct caisson *c, struct caisson_turn *ret)
{
	int r = 0;

	while (r >= 0 && c->run == NULL)
		r = pump(c, POLLIN);
	if (r < 0)
		return r;
	*ret = (struct caisson_turn){
		.message = caisson_get(c->run->body, "message"),
		.agent = caisson_get(c->run->body, "agent"),
		.tools = caisson_get(c->run->body, "tools"),
		.context = caisson_get(c->run->body, "context"),
		.max_steps = (uint32_t)caisson_uint(caisson_get(c->run->body, "maxSteps")),
		.max_tool_calls =
		    (uint32_t)caisson_uint(caisson_get(c->run->body, "maxToolCalls")),
		.timeout_ms = (uint32_t)caisson_uint(caisson_get(c->run->body, "timeoutMs")),
	};
	return 0;
}

unsigned
caisson_state(struct caisson *c)
{
	while (pump(c, 0) > 0)
		continue;
	return c->state;
}

int
caisson_start(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, uint32_t *ret_id)
{
	static const struct {
		const char *method, *name, *value;
		size_t name_max, value_max;
	} of[] = {
		[CAISSON_INVOKE] = { "tool.invoke", "tool", "arguments", 256, 256u << 10 },
		[CAISSON_EMIT] = { "event.emit", "type", "data", 128, 64u << 10 },
		[CAISSON_ANNOTATE] = { "turn.annotate", "key", "value", 128, 16u << 10 },
	};
	struct caisson_writer w = { NULL, 0, 0, 0 };
	char id[16];
	int error;

	if (c->run == NULL || name[0] == '\0' || value->n == 0 || value->error < 0)
		return c->run != NULL && value->error < 0 ? value->error : -EINVAL;
	if (strlen(name) > of[kind].name_max || value->n > of[kind].value_max)
		return -EMSGSIZE;
	if (c->state & CAISSON_CANCELLED)
		return -ECANCELED;
	begin(&w, 0, ++c->msgid, of[kind].method);
	caisson_put_map(&w, kind == CAISSON_INVOKE ? 4 : 3);
	caisson_put_str(&w, "operation");
	caisson_put_value(&w, caisson_get(c->run->body, "operation"));
	caisson_put_str(&w, of[kind].name);
	caisson_put_str(&w, name);
	caisson_put_str(&w, of[kind].value);
	caisson_put_raw(&w, value->p, value->n);
	if (kind == CAISSON_INVOKE) {
		(void)snprintf(id, sizeof id, "c%u", c->msgid);
		caisson_put_str(&w, "id");
		caisson_put_str(&w, id);
	}
	error = finish(c, &w);
	c->in_flight += error == 0;
	*ret_id = c->msgid;
	return error;
}

int
caisson_call_wait(struct caisson *c, uint32_t call, struct caisson_result *ret)
{
	struct caisson_value status, error;
	struct frame **f, *got;
	int r = 0;

	if (c->in_flight == 0 || call > c->msgid)
		return -EINVAL;
	for (; r >= 0 && *(f = find_reply(c, call)) == NULL;)
		r = c->state & CAISSON_CANCELLED ? -ECANCELED : pump(c, POLLIN);
	if (r < 0)
		return r;
	got = *f;
	*f = got->next;
	c->in_flight--;
	status = caisson_get(got->body, "status");
	error = caisson_type(got->error) == CAISSON_MAP ? got->error
							: caisson_get(got->body, "error");
	*ret = (struct caisson_result){
		.call = got->msgid,
		.status = caisson_is(status, "failed") ? CAISSON_FAILED
			  : error.n > 0		       ? CAISSON_DENIED
						       : CAISSON_SUCCEEDED,
		.output = caisson_get(got->body, "output"),
		.code = caisson_get(error, "code"),
		.message = caisson_get(error, "message"),
		.retryable = caisson_bool(caisson_get(error, "retryable")),
		.frame = got,
	};
	return 0;
}

int
caisson_outcome(
    struct caisson *c, const char *status, const char *key, const struct caisson_writer *value)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	int error;

	if (c->run == NULL || value->n == 0)
		return value->error < 0 ? value->error : -EINVAL;
	if (value->error < 0 || value->n > RESULT_MAX)
		return value->error < 0 ? value->error : -EMSGSIZE;
	begin(&w, 1, c->run->msgid, NULL);
	caisson_put_map(&w, 2);
	caisson_put_str(&w, "status");
	caisson_put_str(&w, status);
	caisson_put_str(&w, key);
	caisson_put_raw(&w, value->p, value->n);
	error = finish(c, &w);
	if (error == 0)
		end_turn(c);
	return error;
}
