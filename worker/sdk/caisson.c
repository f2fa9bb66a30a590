#include "worker/sdk/caisson.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* A message that arrives, or has arrived and nobody has taken. */
struct frame {
	struct frame *next;
	uint32_t msgid;
	struct caisson_value what, body; /* error and result; method and fields */
	size_t n;
	uint8_t bytes[];
};

struct caisson {
	int fd;
	uint32_t msgid, first_msgid; /* the last one used; the first one of this turn */
	unsigned state, in_flight;   /* CAISSON_DRAINING, ...; replies not yet taken */
	struct frame *replies;	     /* in the order in which they came */
	struct frame *run;	     /* the turn that is open, or waits to be taken */
	struct frame *arriving;	     /* NULL: the length of the next one comes first */
	uint8_t length[4];
	size_t got; /* bytes of what arrives */
};

/* What a runtime says is a name and a value; `method` is NULL for what answers
 * operation.run. */
static const struct {
	const char *method, *name, *value;
	size_t name_max, value_max; /* bytes */
} forms[] = {
	[CAISSON_HELLO] = { "hello", "name", "protocol", 128, 9 },
	[CAISSON_INVOKE] = { "tool.invoke", "tool", "arguments", 256, 256u << 10 },
	[CAISSON_EMIT] = { "event.emit", "type", "data", 128, 64u << 10 },
	[CAISSON_ANNOTATE] = { "turn.annotate", "key", "value", 128, 16u << 10 },
	[CAISSON_COMPLETE] = { NULL, "status", "output", 16, 768u << 10 },
	[CAISSON_FAIL] = { NULL, "status", "error", 16, 68u << 10 },
	[CAISSON_ESCALATE] = { NULL, "status", "reason", 16, 4096 + 3 },
};

static bool
value_equal(struct caisson_value a, struct caisson_value b)
{
	return a.n == b.n && a.n > 0 && memcmp(a.p, b.p, a.n) == 0;
}

/* Takes a whole frame apart; true if it is kept. */
static int
handle(struct caisson *c, struct frame *f)
{
	struct caisson_value rest = { f->bytes, f->n }, all, kind, msgid = { NULL, 0 };
	struct caisson_cursor it = caisson_iterate(rest);
	struct frame **last = &c->replies;

	if (!caisson_take(&rest, &all) || rest.n > 0 || caisson_type(all) != CAISSON_ARRAY ||
	    !caisson_next(&it, &kind) ||
	    (caisson_uint(kind) < 2 && !caisson_next(&it, &msgid)) ||
	    !caisson_next(&it, &f->what) || !caisson_next(&it, &f->body) || it.left > 0)
		return -EPROTO;
	f->msgid = (uint32_t)caisson_uint(msgid);
	if (caisson_uint(kind) == 1) {
		if (f->msgid < c->first_msgid)
			return 0; /* a call of an earlier turn that nobody waited for */
		while (*last != NULL)
			last = &(*last)->next;
		*last = f;
		return 1;
	}
	it = caisson_iterate(f->body);
	if (!caisson_next(&it, &f->body))
		return -EPROTO;
	if (caisson_is(f->what, "operation.run") && c->run == NULL) {
		c->run = f;
		c->state = 0;
		return 1;
	}
	if (!caisson_is(f->what, "operation.drain") && !caisson_is(f->what, "operation.cancel"))
		return -EPROTO;
	if (c->run != NULL && value_equal(caisson_get(f->body, "operation"),
				  caisson_get(c->run->body, "operation")))
		c->state |= caisson_is(f->what, "operation.drain") ? CAISSON_DRAINING
								   : CAISSON_CANCELLED;
	return 0;
}

/* Reads what has arrived; 1 if something has, else waits for `events` unless they are 0. */
static int
pump(struct caisson *c, short events)
{
	struct pollfd poll_fd = { c->fd, events, 0 };
	struct frame *f = c->arriving;
	uint8_t *p = f != NULL ? f->bytes : c->length;
	size_t n = f != NULL ? f->n : sizeof c->length;
	ssize_t r = read(c->fd, p + c->got, n - c->got);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return events == 0 || poll(&poll_fd, 1, -1) >= 0 || errno == EINTR ? 0 : -errno;
	if (r <= 0)
		return -EPIPE;
	c->got += (size_t)r;
	if (c->got < n)
		return 1;
	c->got = 0;
	c->arriving = NULL;
	if (f != NULL && (r = handle(c, f)) <= 0)
		free(f);
	if (f != NULL)
		return r < 0 ? (int)r : 1;
	n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	if (n == 0 || n > CAISSON_FRAME_MAX)
		return -EPROTO;
	c->arriving = calloc(1, sizeof *f + n);
	if (c->arriving == NULL)
		return -ENOMEM;
	c->arriving->n = n;
	return 1;
}

/* Sends a frame, and reads meanwhile, so that neither side waits for the other. */
static int
flush(struct caisson *c, struct caisson_writer *w)
{
	int error = w->error;
	ssize_t r;
	size_t at;

	for (at = 0; error == 0 && at < 4; at++)
		w->p[at] = (uint8_t)((w->n - 4) >> 8 * (3 - at));
	for (at = 0; error >= 0 && at < w->n;) {
		r = write(c->fd, w->p + at, w->n - at);
		if (r >= 0)
			at += (size_t)r;
		else if (errno == EAGAIN)
			error = pump(c, POLLIN | POLLOUT);
		else if (errno != EINTR)
			error = -EPIPE;
	}
	caisson_writer_finish(w);
	return error < 0 ? error : 0;
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

int
caisson_check(enum caisson_request kind, const char *name, struct caisson_value value)
{
	if (name[0] == '\0' || value.n == 0 ||
	    (kind == CAISSON_INVOKE && caisson_type(value) != CAISSON_MAP))
		return -EINVAL;
	if (strlen(name) > forms[kind].name_max || value.n > forms[kind].value_max ||
	    !caisson_fits(value))
		return -EMSGSIZE;
	return 0;
}

/* The operation that a request belongs to, and the name that a call has. */
static void
put_origin(struct caisson_writer *w, struct caisson *c, enum caisson_request kind)
{
	char id[16];

	caisson_put_str(w, "operation");
	caisson_put_value(w, caisson_get(c->run->body, "operation"));
	if (kind == CAISSON_INVOKE) {
		caisson_put_str(w, "id");
		caisson_put_str_n(w, id, (size_t)snprintf(id, sizeof id, "c%u", c->msgid));
	}
}

int
caisson_start_with(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, const struct caisson_option *options, size_t n,
    uint32_t *ret_call)
{
	bool reply = forms[kind].method == NULL, of_turn = !reply && kind != CAISSON_HELLO;
	struct caisson_writer w = { NULL, 0, 0, 0 };
	int error = value->error;
	size_t i;

	if (error == 0)
		error = caisson_check(kind, name, (struct caisson_value){ value->p, value->n });
	for (i = 0; error == 0 && i < n; i++)
		error = caisson_option_fits(&options[i]) ? 0 : -EMSGSIZE;
	if (error == 0 && c->run == NULL && kind != CAISSON_HELLO)
		error = -EINVAL;
	if (error == 0 && of_turn && c->state & CAISSON_CANCELLED)
		error = -ECANCELED;
	if (error < 0)
		return error;
	caisson_put_raw(&w, "\0\0\0", 4);
	caisson_put_array(&w, 4);
	caisson_put_uint(&w, reply);
	caisson_put_uint(&w, reply ? c->run->msgid : ++c->msgid);
	if (reply)
		caisson_put_nil(&w);
	else {
		caisson_put_str(&w, forms[kind].method);
		caisson_put_array(&w, 1);
	}
	caisson_put_map(&w, 2 + n + of_turn + (kind == CAISSON_INVOKE));
	caisson_put_str(&w, forms[kind].name);
	caisson_put_str(&w, name);
	caisson_put_str(&w, forms[kind].value);
	caisson_put_raw(&w, value->p, value->n);
	for (i = 0; i < n; i++) {
		caisson_put_str(&w, options[i].name);
		caisson_put_value(&w, options[i].value);
	}
	if (of_turn)
		put_origin(&w, c, kind);
	error = flush(c, &w);
	if (error == 0 && reply)
		end_turn(c);
	c->in_flight += error == 0 && !reply;
	*ret_call = c->msgid;
	return error;
}

static int
tell_with(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, const struct caisson_option *options, size_t n)
{
	struct caisson_result r;
	uint32_t call;
	int error = caisson_start_with(c, kind, name, value, options, n, &call);

	if (error == 0)
		error = caisson_call_wait(c, call, &r);
	if (error < 0)
		return error;
	caisson_result_finish(&r);
	return r.status == CAISSON_SUCCEEDED ? 0 : -EPERM;
}

int
caisson_tell(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value)
{
	return tell_with(c, kind, name, value, NULL, 0);
}

/* With what is packed already: the version, and true. */
static int
say_hello(struct caisson *c)
{
	struct caisson_writer version = { &(uint8_t){ CAISSON_PROTOCOL }, 1, 1, 0 };
	struct caisson_option turns = { "turns", { &(uint8_t){ 0xc3 }, 1 } };

	return tell_with(c, CAISSON_HELLO, "caisson.c", &version, &turns, 1);
}

int
caisson_fail(struct caisson *c, const char *code, const char *message)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	uint32_t none;
	int error;

	caisson_put_map(&w, 2);
	caisson_put_str(&w, "code");
	caisson_put_str(&w, code);
	caisson_put_str(&w, "message");
	caisson_put_str(&w, message);
	error = caisson_start(c, CAISSON_FAIL, "fail", &w, &none);
	caisson_writer_finish(&w);
	return error;
}

int
caisson_escalate(struct caisson *c, const char *reason)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	uint32_t none;
	int error;

	caisson_put_str(&w, reason);
	error = caisson_start(c, CAISSON_ESCALATE, "escalate", &w, &none);
	caisson_writer_finish(&w);
	return error;
}

int
caisson_call_wait(struct caisson *c, uint32_t call, struct caisson_result *ret)
{
	struct frame **f = &c->replies, *got;
	struct caisson_value error;
	int r = 0;

	if (c->in_flight == 0 || call > c->msgid)
		return -EINVAL;
	while (r >= 0 && (*f == NULL || (call != 0 && (*f)->msgid != call)))
		if (*f != NULL)
			f = &(*f)->next;
		else /* what comes is added here */
			r = c->state & CAISSON_CANCELLED ? -ECANCELED : pump(c, POLLIN);
	if (r < 0)
		return r;
	got = *f;
	*f = got->next;
	c->in_flight--;
	error = caisson_type(got->what) == CAISSON_MAP ? got->what
						       : caisson_get(got->body, "error");
	*ret = (struct caisson_result){
		.call = got->msgid,
		.status = caisson_is(caisson_get(got->body, "status"), "failed")
			      ? CAISSON_FAILED
			  : error.n > 0 ? CAISSON_DENIED
					: CAISSON_SUCCEEDED,
		.output = caisson_get(got->body, "output"),
		.code = caisson_get(error, "code"),
		.message = caisson_get(error, "message"),
		.retryable = caisson_bool(caisson_get(error, "retryable")),
		.details = caisson_get(error, "details"),
		.frame = got,
	};
	return 0;
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
		.max_steps = caisson_uint(caisson_get(c->run->body, "maxSteps")),
		.max_tool_calls = caisson_uint(caisson_get(c->run->body, "maxToolCalls")),
		.timeout_ms = caisson_uint(caisson_get(c->run->body, "timeoutMs")),
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
caisson_open(struct caisson **ret)
{
	const char *text = getenv("CAISSON_LINK_FD");
	struct caisson *c = calloc(1, sizeof *c);
	int error = -EBADF;

	if (c == NULL)
		return -ENOMEM;
	c->fd = text != NULL ? (int)strtol(text, NULL, 10) : -1;
	/* What the runtime starts has no business on the link. */
	if (fcntl(c->fd, F_SETFD, FD_CLOEXEC) >= 0 && fcntl(c->fd, F_SETFL, O_NONBLOCK) >= 0)
		error = say_hello(c);
	if (error < 0)
		caisson_close(c);
	else
		*ret = c;
	return error == -EPERM ? -EPROTO : error;
}

void
caisson_close(struct caisson *c)
{
	if (c == NULL)
		return;
	end_turn(c);
	free(c->arriving);
	close(c->fd);
	free(c);
}
