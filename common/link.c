#include "common/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/inbox.h"
#include "common/pending.h"
#include "common/util.h"

#define KEEP_MAX (256u << 10) /* bytes of an empty out-queue that are worth keeping */

struct link {
	int fd;
	enum role self, peer;
	enum link_state state;
	const struct link_handler *handler;
	void *arg;
	const struct link_io *io;
	struct event_base *base;
	struct event *readable, *writable;
	struct event *soon; /* activated by hand: flush, held-back frames, the end */
	struct event *timeout; /* of link_close_drained(); NULL before */

	struct inbox in;
	struct buf out; /* out.p[out_sent..out.n) has been queued and not yet written */
	size_t out_sent;
	struct pending pending;
	uint32_t last_msgid;
	size_t watch;
	uint64_t nreads; /* of the peer's, out of a full socket */

	bool busy; /* inside a callback of this link: it looks after the queue at its end */
	bool paused;
	bool blocked; /* the socket is full: `writable` is waited for */
	bool broken; /* the peer reads no more; what it wrote is still read */
	bool watched;
	bool closing; /* link_close_drained() */
	bool ended; /* `end` is set; on_end follows */
	enum link_end end;
	struct fault fault;
	int error;
};

static const struct link_io system_io = { read, write };

/* An empty out-queue that was let go: most of many links are silent at a time. */
static struct buf spare;

/* Asks for on_soon(), after everything that is ready in this turn of the loop. */
static void
schedule(struct link *l)
{
	if (!l->busy)
		event_active(l->soon, EV_TIMEOUT, 0);
}

/* The first end stands (D-2). */
static void
end_link(struct link *l, enum link_end end)
{
	if (l->ended)
		return;
	l->ended = true;
	l->end = end;
	event_del(l->readable);
	schedule(l);
}

static void
end_error(struct link *l, int error)
{
	if (!l->ended)
		l->error = error;
	end_link(l, LINK_END_ERROR);
}

void
link_fault(struct link *l, const char *rule)
{
	if (!l->ended)
		l->fault = (struct fault) { .rule = rule };
	end_link(l, LINK_END_FAULT);
}

/* ---- writing ------------------------------------------------------------------------- */

uint64_t
link_reads(const struct link *l)
{
	return l->nreads;
}

size_t
link_queued(const struct link *l)
{
	return l->out.n - l->out_sent;
}

static void
drop_queue(struct link *l)
{
	l->out.n = l->out_sent = 0;
	if (spare.p == NULL && l->out.cap <= KEEP_MAX && !l->out.failed) {
		spare = l->out;
		l->out = (struct buf) { 0 };
	} else {
		buf_finish(&l->out);
	}
}

static void
on_write_error(struct link *l, int error)
{
	if (error == EINTR || error == EAGAIN) {
		l->blocked = true;
	} else if (error == EPIPE || error == ECONNRESET) {
		/* What it wrote before is still to be read: end-of-file ends the link. */
		l->broken = true;
		drop_queue(l);
	} else {
		end_error(l, error);
	}
}

/* Writes once. */
static void
flush(struct link *l)
{
	size_t queued = link_queued(l);
	ssize_t n;

	if (queued > 0 && !l->blocked) {
		n = l->io->write(l->fd, l->out.p + l->out_sent, queued);
		if (n < 0) {
			on_write_error(l, errno);
		} else {
			l->out_sent += (size_t)n;
			l->blocked = (size_t)n < queued;
		}
		if (link_queued(l) == 0)
			drop_queue(l);
		if (l->blocked && !l->ended && event_add(l->writable, NULL) < 0)
			end_error(l, ENOMEM);
	}
	if (l->closing && link_queued(l) == 0)
		end_link(l, LINK_END_CLOSED);
}

/* Before a frame is appended: what was written need not be carried along. */
static void
prepare_queue(struct link *l)
{
	size_t queued = link_queued(l);

	if (l->out.p == NULL && !l->out.failed) {
		l->out = spare;
		spare = (struct buf) { 0 };
	}
	if (l->out_sent == 0 || l->out_sent < queued)
		return;
	memmove(l->out.p, l->out.p + l->out_sent, queued);
	l->out.n = queued;
	l->out_sent = 0;
}

static bool
can_queue(const struct link *l)
{
	return !l->ended && !l->closing && !l->broken;
}

/* A frame has been appended, or could not be. */
static int
queued_frame(struct link *l, int r)
{
	if (r < 0)
		return r;
	if (link_queued(l) > LINK_QUEUE_MAX) {
		end_link(l, LINK_END_SLOW);
		return -EPIPE;
	}
	if (!l->blocked)
		schedule(l);
	return 0;
}

int
link_request(struct link *l, enum msg_type type, const void *m, uint32_t *ret_msgid)
{
	uint32_t msgid = l->last_msgid;
	int r;

	if (!can_queue(l))
		return -EPIPE;
	r = pending_reserve(&l->pending);
	if (r < 0)
		return r;
	do
		msgid++;
	while (pending_get(&l->pending, msgid) >= 0);
	prepare_queue(l);
	r = queued_frame(l, protocol_request(&l->out, type, msgid, m));
	if (r < 0)
		return r;
	l->last_msgid = msgid;
	pending_add(&l->pending, msgid, type);
	if (ret_msgid != NULL)
		*ret_msgid = msgid;
	return 0;
}

int
link_notify(struct link *l, enum msg_type type, const void *m)
{
	if (!can_queue(l))
		return -EPIPE;
	prepare_queue(l);
	return queued_frame(l, protocol_notify(&l->out, type, m));
}

int
link_reply(struct link *l, enum msg_type type, uint32_t msgid, const void *m)
{
	if (!can_queue(l))
		return -EPIPE;
	prepare_queue(l);
	return queued_frame(l, protocol_reply(&l->out, type, msgid, m));
}

int
link_refuse(
    struct link *l, uint32_t msgid, const char *code, const char *message, bool retryable)
{
	if (!can_queue(l))
		return -EPIPE;
	if (l->handler->on_refused != NULL)
		l->handler->on_refused(l, code, l->arg);
	prepare_queue(l);
	return queued_frame(l, protocol_refuse(&l->out, msgid, code, message, retryable));
}

int
link_hello(struct link *l, const char *name)
{
	struct msg_hello m = { .protocol = PROTOCOL_VERSION };

	if (name != NULL) {
		m.has_name = true;
		m.name = slice_of(name);
	}
	return link_request(l, MSG_hello, &m, NULL);
}

/* ---- reading ------------------------------------------------------------------------- */

static bool
can_read(const struct link *l)
{
	return !l->paused && !l->ended && !l->closing;
}

/* Hello is the link's own affair, on either side; then the handler hears of it. */
static void
handle_hello(struct link *l, const struct message *m)
{
	const struct msg_hello_reply reply = { .protocol = PROTOCOL_VERSION,
		.frameMax = FRAME_MAX };
	bool is_request = m->kind == MSG_REQUEST;
	int r;

	if (m->failed)
		return;
	if ((is_request ? m->u.hello.protocol : m->u.hello_reply.protocol) !=
	    PROTOCOL_VERSION) {
		link_fault(l, "another protocol version: copy the SDK again");
		return;
	}
	if (is_request) {
		r = link_reply(l, MSG_hello_reply, m->msgid, &reply);
		if (r < 0 && r != -EPIPE)
			end_error(l, -r);
	}
	l->state = LINK_READY;
}

static int
find_pending(void *arg, uint32_t msgid)
{
	const struct link *l = arg;

	return pending_get(&l->pending, msgid);
}

static void
dispatch_frame(struct link *l, struct slice f)
{
	struct message m;
	int r;

	r = protocol_decode(
	    f.p, f.n, l->peer, l->self, l->state, find_pending, l, &m, &l->fault);
	if (r == -EPROTO) {
		end_link(l, LINK_END_FAULT);
		return;
	}
	if (r < 0) {
		end_error(l, -r);
		return;
	}
	if (m.kind == MSG_RESPONSE)
		pending_remove(&l->pending, m.msgid);
	if (m.type == MSG_hello || m.type == MSG_hello_reply)
		handle_hello(l, &m);
	if (!l->ended)
		l->handler->on_message(l, &m, l->arg);
}

/* Hands out every whole frame that is there; stops when the handler says so. */
static void
dispatch(struct link *l)
{
	struct slice frame;
	int r;

	while (can_read(l)) {
		r = inbox_take(&l->in, &frame);
		if (r < 0)
			link_fault(l, "frame length");
		if (r <= 0)
			return;
		dispatch_frame(l, frame);
	}
}

/* Reads once. */
static void
fill(struct link *l)
{
	uint8_t *p;
	size_t room;
	ssize_t n;

	if (inbox_room(&l->in, &p, &room) < 0) {
		end_error(l, ENOMEM);
		return;
	}
	n = l->io->read(l->fd, p, room);
	if (n > 0)
		inbox_filled(&l->in, (size_t)n, room);
	else if (n == 0 || errno == ECONNRESET)
		end_link(l, LINK_END_EOF); /* half a frame is nothing */
	else if (errno != EAGAIN && errno != EINTR)
		end_error(l, errno);
}

void
link_pause(struct link *l)
{
	l->paused = true;
	event_del(l->readable);
}

void
link_resume(struct link *l)
{
	if (!l->paused)
		return;
	l->paused = false;
	if (!can_read(l))
		return;
	if (event_add(l->readable, NULL) < 0)
		end_error(l, ENOMEM);
	/* Frames that were held back come from the loop, never from within here. */
	if (inbox_holds(&l->in))
		event_active(l->soon, EV_TIMEOUT, 0);
}

/* ---- the loop -------------------------------------------------------------------------- */

static void
finish(struct link *l)
{
	if (l->end == LINK_END_CLOSED)
		flush(l);
	l->busy = true; /* nothing is scheduled any more */
	l->handler->on_end(l, l->end, l->end == LINK_END_FAULT ? &l->fault : NULL,
	    l->end == LINK_END_ERROR ? l->error : 0, l->arg);
	event_free(l->readable);
	event_free(l->writable);
	event_free(l->soon);
	if (l->timeout != NULL)
		event_free(l->timeout);
	close(l->fd);
	inbox_finish(&l->in);
	buf_finish(&l->out);
	pending_finish(&l->pending);
	free(l);
}

static void
tell_drained(struct link *l)
{
	if (!l->watched || link_queued(l) > l->watch)
		return;
	l->watched = false;
	if (l->handler->on_drained != NULL)
		l->handler->on_drained(l, l->arg);
}

/* Ends every callback: what was queued leaves, what has ended goes. */
static void
leave(struct link *l)
{
	if (!l->ended)
		flush(l);
	if (!l->ended)
		tell_drained(l);
	inbox_rest(&l->in);
	l->busy = false;
	if (l->ended)
		finish(l);
	else if (link_queued(l) > 0 && !l->blocked)
		schedule(l);
}

static void
link_on_readable(evutil_socket_t fd, short events, void *arg)
{
	struct link *l = arg;

	(void)fd;
	(void)events;
	l->busy = true;
	dispatch(l);
	if (can_read(l)) {
		fill(l);
		dispatch(l);
	}
	leave(l);
}

static void
link_on_writable(evutil_socket_t fd, short events, void *arg)
{
	struct link *l = arg;

	(void)fd;
	(void)events;
	l->busy = true;
	l->nreads += l->blocked;
	l->blocked = false;
	leave(l);
}

static void
link_on_soon(evutil_socket_t fd, short events, void *arg)
{
	struct link *l = arg;

	(void)fd;
	(void)events;
	l->busy = true;
	dispatch(l);
	leave(l);
}

static void
link_on_timeout(evutil_socket_t fd, short events, void *arg)
{
	struct link *l = arg;

	(void)fd;
	(void)events;
	l->busy = true;
	end_link(l, LINK_END_CLOSED);
	leave(l);
}

/* ---- opening and closing --------------------------------------------------------------- */

/* A confined process may ask for the flags, not set them: it is given what is right. */
static int
make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_NONBLOCK))
		return flags;
	return fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static void
free_event(struct event *e)
{
	if (e != NULL)
		event_free(e);
}

struct link *
link_open(struct event_base *base, int fd, enum role self, enum role peer,
    const struct link_handler *handler, void *arg)
{
	struct link *l = calloc(1, sizeof *l);
	int saved;

	if (l == NULL || make_nonblocking(fd) < 0)
		goto failed;
	l->fd = fd;
	l->self = self;
	l->peer = peer;
	l->state = LINK_NEW;
	l->handler = handler;
	l->arg = arg;
	l->io = &system_io;
	l->base = base;
	l->readable = event_new(base, fd, EV_READ | EV_PERSIST, link_on_readable, l);
	l->writable = event_new(base, fd, EV_WRITE, link_on_writable, l);
	l->soon = event_new(base, -1, 0, link_on_soon, l);
	errno = ENOMEM;
	if (l->readable != NULL && l->writable != NULL && l->soon != NULL &&
	    event_add(l->readable, NULL) == 0)
		return l;
failed:
	saved = errno;
	if (l != NULL) {
		free_event(l->readable);
		free_event(l->writable);
		free_event(l->soon);
	}
	free(l);
	close(fd);
	errno = saved;
	return NULL;
}

void
link_close(struct link *l)
{
	if (l != NULL)
		end_link(l, LINK_END_CLOSED);
}

void
link_close_drained(struct link *l, int timeout_ms)
{
	const struct timeval tv = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };

	if (l == NULL || l->ended || l->closing)
		return;
	l->closing = true;
	event_del(l->readable);
	l->timeout = evtimer_new(l->base, link_on_timeout, l);
	if (l->timeout == NULL || evtimer_add(l->timeout, &tv) < 0)
		end_link(l, LINK_END_CLOSED);
	schedule(l);
}

/* ---- small things ------------------------------------------------------------------------ */

void
link_set_state(struct link *l, enum link_state state)
{
	l->state = state;
}

enum link_state
link_get_state(const struct link *l)
{
	return l->state;
}

void
link_watch(struct link *l, size_t bytes)
{
	l->watch = bytes;
	l->watched = true;
	if (link_queued(l) <= bytes)
		schedule(l);
}

void
link_set_io(struct link *l, const struct link_io *io)
{
	l->io = io;
}
