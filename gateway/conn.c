#include "gateway/conn_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "gateway/accept.h"
#include "gateway/control.h"

#define FINISH_MS      2000 /* that a client has to end after our end */
#define BEHIND_BYTES   (16u << 10) /* of answers that wait: no request is taken before them */
#define SPARE_MAX      (512u << 10) /* bytes of an empty queue that are worth keeping */
#define READS_PER_TURN 16 /* of one TLS connection, each of a record at most */

/* Where bytes are read to: what is whole is taken from here, and only the rest is kept. */
static uint8_t scratch[LINK_READ_MAX];

/* ---- what is to be done, and when ------------------------------------------------------- */

void
conn_touch(struct conn *c)
{
	if (c->dirty)
		return;
	c->dirty = true;
	TAILQ_INSERT_TAIL(&c->g->dirty, c, dirty_entry);
	event_active(c->g->soon, EV_TIMEOUT, 0);
}

void
conn_end(struct conn *c)
{
	c->ended = true;
	conn_touch(c);
}

void
conn_cut_off(struct conn *c)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	c->g->stats.cut_off++;
	conn_end(c);
}

void
conn_expect(struct conn *c, unsigned ms)
{
	c->due_at_ms = ms == 0 ? 0 : clock_ms() + ms;
}

void
conn_finish(struct conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	conn_expect(c, 0);
	conn_touch(c);
}

/* ---- what the kernel is asked for ------------------------------------------------------- */

/* Bytes behind a request in service, or before a user who pauses, wait in the kernel. */
static bool
wants_read(const struct conn *c)
{
	if (c->ended || c->eof || (c->paused && !c->drained))
		return false;
	if (c->drained || c->tls_read_blocked)
		return c->drained;
	if (c->closing)
		return false;
	return !conn_is_behind(c) &&
	    (c->exchange == NULL || c->in_bytes < c->g->config.header_bytes);
}

/* Of requests, not much more than one is read ahead, whoever sends them. */
static size_t
most_to_read(const struct conn *c)
{
	return c->ws != NULL || c->g->config.header_bytes > sizeof(scratch)
	    ? sizeof(scratch)
	    : c->g->config.header_bytes;
}

static void conn_on_io(evutil_socket_t fd, short events, void *arg);

static void
wait_for(struct conn *c)
{
	short waits = 0;

	if (wants_read(c))
		waits |= EV_READ;
	if ((c->write_blocked && !c->tls_write_blocked) || c->tls_read_blocked)
		waits |= EV_WRITE;
	if (c->tls_write_blocked)
		waits |= EV_READ;
	if (waits == c->waits)
		return;
	if (c->waits != 0)
		event_del(&c->io);
	c->waits = 0;
	if (waits == 0)
		return;
	event_assign(&c->io, c->g->base, c->fd, waits | EV_PERSIST, conn_on_io, c);
	if (event_add(&c->io, NULL) < 0)
		conn_end(c);
	else
		c->waits = waits;
}

/* ---- writing --------------------------------------------------------------------------- */

/* One queue that was emptied is kept for the next connection that needs one: a large one made
 * anew for each turn would cost more than what it carries. */
struct buf *
conn_out(struct conn *c)
{
	if (c->out.p == NULL && !c->out.failed) {
		c->out = c->g->spare;
		c->g->spare = (struct buf){ 0 };
	}
	return &c->out;
}

static void
give_back(struct gateway *g, struct buf *b)
{
	if (g->spare.p != NULL || b->failed || b->cap > SPARE_MAX) {
		buf_finish(b);
		return;
	}
	g->spare = *b;
	g->spare.n = 0;
	*b = (struct buf){ 0 };
}

size_t
conn_queued(const struct conn *c)
{
	return c->out.n - c->out_sent;
}

bool
conn_is_full(const struct conn *c)
{
	return conn_queued(c) >= CONN_HIGH_BYTES;
}

/* A WebSocket's user sees to that itself (on_drained). */
bool
conn_is_behind(const struct conn *c)
{
	return conn_queued(c) >= (c->ws != NULL ? CONN_HIGH_BYTES : BEHIND_BYTES);
}

static ssize_t
write_some(struct conn *c)
{
	const uint8_t *p = c->out.p + c->out_sent;
	size_t n = conn_queued(c);
	ssize_t r;
	bool write_side;

	if (c->tls == NULL) {
		r = write(c->fd, p, n);
		return r < 0 ? -errno : r;
	}
	r = tls_write(c->tls, p, n, &write_side);
	c->tls_write_blocked = r == -EAGAIN && !write_side;
	return r;
}

/* What is taken is given back; a little that is left does not hold what a lot needed. */
static void
shrink_out(struct conn *c)
{
	size_t left = conn_queued(c);
	struct buf rest = { 0 };

	if (left > 0 && c->out_sent < left && c->out.cap < 8 * left)
		return;
	buf_add(&rest, c->out.p + c->out_sent, left);
	if (rest.failed)
		return; /* it stays as it is */
	give_back(c->g, &c->out);
	c->out = rest;
	c->out_sent = 0;
}

/* One write, or with TLS as many as there are records. */
static void
flush(struct conn *c)
{
	ssize_t r = 0;

	while (!c->ended && conn_queued(c) > 0) {
		r = write_some(c);
		if (r <= 0)
			break;
		c->out_sent += (size_t)r;
		c->g->stats.bytes_sent += (size_t)r;
		c->taken_at_ms = clock_ms();
		if (c->tls == NULL)
			break;
	}
	if (r == -EINTR)
		r = -EAGAIN;
	if (r < 0 && r != -EAGAIN)
		conn_end(c);
	c->write_blocked = !c->ended && conn_queued(c) > 0;
	if (!c->write_blocked)
		c->tls_write_blocked = false;
	shrink_out(c);
}

static void
tell_drained(struct conn *c)
{
	if (c->held && !conn_is_behind(c)) {
		c->held = false;
		conn_touch(c);
	}
	if (!c->told_full || conn_queued(c) > CONN_LOW_BYTES || c->ended)
		return;
	c->told_full = false;
	if (c->handler->on_drained != NULL)
		c->handler->on_drained(c);
}

/* ---- reading --------------------------------------------------------------------------- */

static ssize_t
read_some(struct conn *c, uint8_t *p, size_t n)
{
	ssize_t r;
	bool write_side;

	if (c->tls == NULL) {
		r = read(c->fd, p, n);
		return r < 0 ? -errno : r;
	}
	r = tls_read(c->tls, p, n, &write_side);
	c->tls_read_blocked = r == -EAGAIN && write_side;
	return r;
}

/* Returns the number of bytes in `scratch`. */
static size_t
fill_scratch(struct conn *c)
{
	size_t got = 0, most = most_to_read(c);
	ssize_t r = 0;

	c->more = false;
	for (unsigned i = 0; i < READS_PER_TURN && got < most; i++) {
		r = read_some(c, scratch + got, most - got);
		if (r <= 0)
			break;
		got += (size_t)r;
		if (c->tls == NULL)
			break;
	}
	if (r == 0)
		c->eof = true;
	else if (r < 0 && r != -EAGAIN && r != -EINTR)
		conn_end(c);
	c->more = c->tls != NULL && tls_holds(c->tls);
	c->g->stats.bytes_received += got;
	return got;
}

static size_t
take(struct conn *c, uint8_t *p, size_t n)
{
	size_t taken = 0, step;

	/* A handshake turns the one into the other on the way. */
	while (taken < n && !c->ended && !c->paused && !c->closing) {
		step = c->ws != NULL ? conn_take_frames(c, p + taken, n - taken) :
				       conn_take_requests(c, p + taken, n - taken);
		if (step == 0)
			break;
		taken += step;
	}
	return c->ended || c->closing ? n : taken;
}

static void
forget_in(struct conn *c)
{
	c->g->buffered_bytes -= c->in_cap;
	free(c->in);
	c->in = NULL;
	c->in_bytes = c->in_cap = 0;
}

/* Keeps `n` bytes behind what is kept already. */
static bool
keep(struct conn *c, const uint8_t *p, size_t n)
{
	size_t need = c->in_bytes + n, cap = c->in_cap;
	uint8_t *in;

	if (need > cap) {
		/* A request that comes byte by byte grows by steps. */
		cap = need < 512 ? 512 : cap >= 4096 && need < cap * 2 ? cap * 2 : need;
		/* What every request may have is taken by no large ones of others, and what those
		 * who are known may have by no strangers. */
		if (cap > c->g->config.header_bytes &&
		    c->g->buffered_bytes + (cap - c->in_cap) >
			CONNS_BUFFERED_MAX / (c->proven || c->ws != NULL ? 1 : 2))
			return false;
		in = realloc(c->in, cap);
		if (in == NULL)
			return false;
		c->g->buffered_bytes += cap - c->in_cap;
		c->in = in;
		c->in_cap = cap;
	}
	memcpy(c->in + c->in_bytes, p, n);
	c->in_bytes = need;
	return true;
}

/* What lay here, or came in, and is whole now, is taken; the rest is kept. */
static void
take_kept(struct conn *c)
{
	size_t taken;

	if (c->in_bytes == 0)
		return;
	taken = take(c, c->in, c->in_bytes);
	if (taken == c->in_bytes) {
		forget_in(c);
	} else if (taken > 0) {
		memmove(c->in, c->in + taken, c->in_bytes - taken);
		c->in_bytes -= taken;
	}
}

static void
take_new(struct conn *c, size_t n)
{
	size_t taken;

	if (n == 0)
		return;
	c->shook_hands = true;
	taken = c->in_bytes == 0 ? take(c, scratch, n) : 0;
	if (taken == n)
		return;
	if (!keep(c, scratch + taken, n - taken))
		conn_end(c);
	else if (taken == 0 && c->in_bytes > n)
		take_kept(c);
}

static void
read_turn(struct conn *c)
{
	size_t n = fill_scratch(c);

	if (c->drained) {
		if (c->eof)
			conn_end(c);
		return;
	}
	take_new(c, n);
	if (c->eof && c->ws != NULL)
		conn_end(c);
}

/* ---- one connection's turn -------------------------------------------------------------- */

static void
part(struct conn *c)
{
	if (!c->closing || c->drained || c->ended || conn_queued(c) > 0)
		return;
	if (c->tls != NULL)
		tls_shutdown(c->tls);
	/* To close now would throw away the answer with what the client still sends. */
	if (c->eof || shutdown(c->fd, SHUT_WR) < 0)
		conn_end(c);
	c->drained = true;
	forget_in(c);
	conn_expect(c, FINISH_MS);
}

void
conn_free(struct conn *c)
{
	struct gateway *g = c->g;

	if (c->handler->on_close != NULL)
		c->handler->on_close(c, c->code);
	conn_drop_exchange(c);
	conn_drop_ws(c);
	if (c->waits != 0)
		event_del(&c->io);
	if (c->dirty)
		TAILQ_REMOVE(&g->dirty, c, dirty_entry);
	TAILQ_REMOVE(&g->conns, c, entry);
	g->stats.open_connections--;
	tls_close(c->tls);
	close(c->fd);
	forget_in(c);
	buf_finish(&c->out);
	acceptor_on_end(c->acceptor);
	free(c);
}

/* A byte that waits begins the time that the client has for taking it. */
static void
settle(struct conn *c)
{
	if (c->out.failed)
		conn_end(c);
	if (conn_is_full(c))
		c->told_full = true;
	if (conn_queued(c) > 0 && !c->write_blocked) {
		c->taken_at_ms = clock_ms();
		flush(c);
	}
	part(c);
	wait_for(c);
}

void
conns_on_soon(evutil_socket_t fd, short events, void *arg)
{
	struct gateway *g = arg;
	struct conn_list dirty = TAILQ_HEAD_INITIALIZER(dirty);
	struct conn *c;

	(void)fd;
	(void)events;
	TAILQ_CONCAT(&dirty, &g->dirty, dirty_entry);
	while ((c = TAILQ_FIRST(&dirty)) != NULL) {
		TAILQ_REMOVE(&dirty, c, dirty_entry);
		c->dirty = false;
		if (!c->ended && c->more && wants_read(c))
			read_turn(c);
		if (!c->ended && !c->drained)
			take_kept(c);
		/* Who says nothing more while he waits is taken to be gone, as proxies do: his
		 * place is for others.  What is answered already is still sent. */
		if (c->eof && c->exchange != NULL)
			conn_end(c);
		else if (c->eof)
			conn_finish(c);
		if (!c->ended)
			settle(c);
		if (!c->ended)
			tell_drained(c);
		if (c->ended)
			conn_free(c);
		else if (c->more && wants_read(c))
			conn_touch(c);
	}
	gateway_control_settle(g);
}

static void
conn_on_io(evutil_socket_t fd, short events, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	if (events & EV_WRITE)
		c->write_blocked = c->tls_read_blocked = false;
	if (events & EV_READ) {
		if (c->tls_write_blocked)
			c->write_blocked = c->tls_write_blocked = false;
		if (wants_read(c))
			read_turn(c);
	} else if (c->tls != NULL && wants_read(c)) {
		c->more = true; /* what waited for the write side */
	}
	conn_touch(c);
}

/* ---- what its user may do ---------------------------------------------------------------- */

void
conn_set_user(struct conn *c, void *user)
{
	c->user = user;
}

void
conn_set_proven(struct conn *c)
{
	c->proven = true;
}

void *
conn_user(const struct conn *c)
{
	return c->user;
}

struct gateway *
conn_gateway(const struct conn *c)
{
	return c->g;
}

const struct request *
conn_request(const struct conn *c)
{
	return c->exchange != NULL ? &c->exchange->request : NULL;
}

void
conn_abort(struct conn *c)
{
	conn_end(c);
}

void
conn_pause(struct conn *c)
{
	c->paused = true;
	conn_touch(c);
}

void
conn_resume(struct conn *c)
{
	c->paused = false;
	c->more = c->tls != NULL;
	conn_touch(c);
}
