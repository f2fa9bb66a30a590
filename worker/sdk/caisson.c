#include "worker/sdk/caisson.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define PROTOCOL  1
#define FRAME_MAX (1u << 20) /* bytes */
#define DEPTH_MAX 32	     /* containers in containers, the frame included */

/* How each type looks: `count` numbers from `from` on stand in the first byte, from `fix` on;
 * others follow it, `width` bytes wide after `code`, twice as wide after the next code, ... */
static const struct kind {
	uint8_t fix, count, code, codes, width;
	int8_t from;
} kinds[] = {
	[CAISSON_NIL] = { 0xc0, 1, 0, 0, 0, 0 },
	[CAISSON_BOOL] = { 0xc2, 2, 0, 0, 0, 0 },
	[CAISSON_UINT] = { 0x00, 128, 0xcc, 4, 1, 0 },
	[CAISSON_INT] = { 0xe0, 32, 0xd0, 4, 1, -32 },
	[CAISSON_REAL] = { 0, 0, 0xcb, 1, 8, 0 },
	[CAISSON_STR] = { 0xa0, 32, 0xd9, 3, 1, 0 },
	[CAISSON_BIN] = { 0, 0, 0xc4, 3, 1, 0 },
	[CAISSON_ARRAY] = { 0x90, 16, 0xdc, 2, 2, 0 },
	[CAISSON_MAP] = { 0x80, 16, 0xde, 2, 2, 0 },
};

struct caisson_head
caisson_head(struct caisson_value v)
{
	unsigned b = v.n > 0 ? v.p[0] : 0xc1, t = CAISSON_NIL;
	struct caisson_head h = { CAISSON_NONE, 0, 0 };
	const struct kind *k = kinds + t;
	size_t size, i;

	while (t <= CAISSON_MAP && b - k->fix >= k->count && b - k->code >= k->codes)
		k = kinds + ++t;
	if (t > CAISSON_MAP)
		return h;
	if (b - k->fix < k->count)
		return (struct caisson_head){ t, (uint64_t)k->from + b - k->fix, 1 };
	size = 1 + ((size_t)k->width << (b - k->code));
	if (size > v.n)
		return h;
	h.n = t == CAISSON_INT && v.p[1] & 0x80 ? UINT64_MAX : 0;
	for (i = 1; i < size; i++)
		h.n = h.n << 8 | v.p[i];
	return (struct caisson_head){ t, h.n, size };
}

bool
caisson_take(struct caisson_value *rest, struct caisson_value *ret)
{
	uint64_t left[DEPTH_MAX + 2] = { 1 }; /* values that are to come, at each depth */
	struct caisson_value v = *rest;
	struct caisson_cursor it;
	unsigned depth = 0;
	size_t bytes;

	while (left[0] > 0 || depth > 0) {
		it = caisson_iterate(*rest);
		(void)caisson_bytes(*rest, &bytes);
		if (caisson_type(*rest) == CAISSON_NONE || bytes > it.rest.n ||
		    depth > DEPTH_MAX)
			return false;
		*rest = (struct caisson_value){ it.rest.p + bytes, it.rest.n - bytes };
		left[depth]--;
		if (it.left > 0)
			left[++depth] = it.left;
		while (depth > 0 && left[depth] == 0)
			depth--;
	}
	*ret = (struct caisson_value){ v.p, v.n - rest->n };
	return true;
}

void
caisson_put_raw(struct caisson_writer *w, const void *p, size_t n)
{
	uint8_t *grown;

	if (w->error == 0 && w->cap - w->n < n) {
		w->cap = 2 * (w->n + n) + 256;
		grown = realloc(w->p, w->cap);
		w->error = grown == NULL ? -ENOMEM : 0;
		w->p = grown == NULL ? w->p : grown;
	}
	if (w->error == 0 && n > 0) {
		memcpy(w->p + w->n, p, n);
		w->n += n;
	}
}

void
caisson_put_head(struct caisson_writer *w, enum caisson_type type, uint64_t n)
{
	const struct kind *k = kinds + type;
	/* What has to fit: a negative number is as wide as its complement and a sign. */
	uint64_t most = type == CAISSON_INT ? ~n << 1 : n;
	unsigned width = k->width, code = k->code, i;
	uint8_t bytes[9];

	while (width > 0 && width < 8 && most >> 8 * width != 0)
		width *= 2, code++;
	if (n - (uint64_t)k->from < k->count)
		width = 0, code = k->fix + (unsigned)n - (unsigned)k->from;
	bytes[0] = (uint8_t)code;
	for (i = width; i > 0; i--, n >>= 8)
		bytes[i] = (uint8_t)n;
	caisson_put_raw(w, bytes, 1 + width);
}

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

/* What a runtime says is a name and a value; `method` is NULL for what answers operation.run. */
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
	c->state |=
	    caisson_is(f->what, "operation.drain") ? CAISSON_DRAINING : CAISSON_CANCELLED;
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
	if (n == 0 || n > FRAME_MAX)
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
caisson_start(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, uint32_t *ret_call)
{
	bool reply = forms[kind].method == NULL, of_turn = !reply && kind != CAISSON_HELLO;
	struct caisson_writer w = { NULL, 0, 0, 0 };
	char id[16];
	int error;

	if (value->error < 0)
		return value->error;
	if (name[0] == '\0' || value->n == 0 || (c->run == NULL && kind != CAISSON_HELLO))
		return -EINVAL;
	if (strlen(name) > forms[kind].name_max || value->n > forms[kind].value_max)
		return -EMSGSIZE;
	if (of_turn && c->state & CAISSON_CANCELLED)
		return -ECANCELED;
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
	caisson_put_map(&w, 2 + of_turn + (kind == CAISSON_INVOKE));
	caisson_put_str(&w, forms[kind].name);
	caisson_put_str(&w, name);
	caisson_put_str(&w, forms[kind].value);
	caisson_put_raw(&w, value->p, value->n);
	if (of_turn) {
		caisson_put_str(&w, "operation");
		caisson_put_value(&w, caisson_get(c->run->body, "operation"));
	}
	if (kind == CAISSON_INVOKE) {
		caisson_put_str(&w, "id");
		caisson_put_str_n(&w, id, (size_t)snprintf(id, sizeof id, "c%u", c->msgid));
	}
	error = flush(c, &w);
	if (error == 0 && reply)
		end_turn(c);
	c->in_flight += error == 0 && !reply;
	*ret_call = c->msgid;
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
	struct caisson_writer version = { &(uint8_t){ PROTOCOL }, 1, 1, 0 }; /* packed */
	int error = -EBADF;

	if (c == NULL)
		return -ENOMEM;
	c->fd = text != NULL ? (int)strtol(text, NULL, 10) : -1;
	/* What the runtime starts has no business on the link. */
	if (fcntl(c->fd, F_SETFD, FD_CLOEXEC) >= 0 && fcntl(c->fd, F_SETFL, O_NONBLOCK) >= 0)
		error = caisson_tell(c, CAISSON_HELLO, "caisson.c", &version);
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
