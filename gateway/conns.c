#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include <event2/event.h>

#include "common/clock.h"
#include "gateway/accept.h"
#include "gateway/conn_private.h"

#define SWEEP_MS_MAX 1000 /* how late a time that has passed may be noticed */
#define CROWD_LEFT 32 /* connections that have gone, whose memory is worth giving back */
#define MUTE_MS 1000 /* without a whole request: from then on its place is for who waits */
#define STRANGER_MS 1000 /* without a proof that was taken: likewise */

/* ---- time ------------------------------------------------------------------------------- */

static unsigned
least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Often enough for the shortest of the times. */
static unsigned
sweep_ms(const struct gateway *g)
{
	const struct gateway_config *c = &g->config;
	unsigned ms = least(least(c->header_timeout_ms, c->idle_timeout_ms),
	    least(c->write_timeout_ms, c->ping_interval_ms));

	ms /= 8;
	return ms < 10 ? 10 : least(ms, SWEEP_MS_MAX);
}

static void
on_due(struct conn *c)
{
	c->due_at_ms = 0;
	if (c->drained || (c->tls != NULL && !c->shook_hands))
		conn_end(c);
	else if (c->ws != NULL)
		conn_late_frame(c);
	else
		conn_late_request(c);
}

/* Its request has been awaited for some time: no proof is in it yet. */
static bool
is_mute(const struct conn *c, uint64_t now_ms)
{
	return c->begun && c->ws == NULL && c->exchange == NULL && !c->ended && !c->closing &&
	    c->due_at_ms != 0 &&
	    c->due_at_ms + MUTE_MS <= now_ms + c->g->config.header_timeout_ms;
}

/*
 * Nobody knows who it is: that it takes no answers, or asks again and again for what is refused,
 * must not keep out those who could say it.
 */
static bool
is_stranger(const struct conn *c, uint64_t now_ms)
{
	return !c->proven && c->ws == NULL && c->exchange == NULL && !c->ended &&
	    c->opened_at_ms + STRANGER_MS <= now_ms;
}

/*
 * Nothing of what waits for it has gone to its kernel for a time; and of a TCP client, whose
 * kernel takes much at once, it has not acknowledged a byte in that time either.
 */
static bool
takes_nothing(struct conn *c, uint64_t now_ms)
{
	struct tcp_info info = { .tcpi_bytes_acked = 0 };
	socklen_t n = sizeof(info);

	if (conn_queued(c) == 0 || !c->write_blocked ||
	    now_ms - c->taken_at_ms < c->g->config.write_timeout_ms)
		return false;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0 ||
	    info.tcpi_bytes_acked == c->acknowledged_bytes)
		return true;
	c->acknowledged_bytes = info.tcpi_bytes_acked;
	c->taken_at_ms = now_ms;
	return false;
}

/* What a crowd used goes back to the kernel when half of it has left: malloc keeps all that
 * lies below a block in use, and of a TLS connection that is 16 KB. */
static void
give_memory_back(struct gateway *g)
{
	uint64_t open = g->stats.open_connections;

	if (open > g->crowd / 2 || g->crowd - open < CROWD_LEFT)
		return;
	g->crowd = open;
	malloc_trim(0);
}

static void
on_sweep(void *arg)
{
	struct gateway *g = arg;
	uint64_t now_ms = clock_ms();
	struct acceptor *gives = NULL;
	struct conn *c;

	TAILQ_FOREACH (c, &g->conns, entry) {
		if (c->ended)
			continue;
		if (takes_nothing(c, now_ms)) {
			conn_cut_off(c);
		} else if (c->due_at_ms != 0 && c->due_at_ms <= now_ms) {
			on_due(c);
		}
		if (is_mute(c, now_ms) || is_stranger(c, now_ms))
			gives = c->acceptor;
	}
	if (gives != NULL)
		acceptor_on_rest(gives);
	give_memory_back(g);
	if (!TAILQ_EMPTY(&g->conns))
		alarm_set(g->alarms, &g->sweep, now_ms + sweep_ms(g));
}

/* ---- all of them ------------------------------------------------------------------------ */

int
conn_open(struct gateway *g, struct acceptor *a, int fd, struct ssl_ctx_st *tls)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL)
		goto fail;
	if (tls != NULL) {
		c->tls = tls_open(tls, fd);
		if (c->tls == NULL)
			goto fail;
	}
	c->g = g;
	c->acceptor = a;
	c->handler = acceptor_handler(a);
	c->fd = fd;
	c->begun = true; /* the first request is awaited as one that has begun */
	TAILQ_INSERT_TAIL(&g->conns, c, entry);
	g->stats.open_connections++;
	if (g->stats.open_connections > g->crowd)
		g->crowd = g->stats.open_connections;
	g->stats.connections++;
	c->opened_at_ms = clock_ms();
	conn_expect(c, g->config.header_timeout_ms);
	if (g->sweep.at_ms == 0)
		alarm_set(g->alarms, &g->sweep, clock_ms() + sweep_ms(g));
	conn_touch(c);
	return 0;
fail:
	free(c);
	close(fd);
	return -ENOMEM;
}

int
conns_init(struct gateway *g)
{
	TAILQ_INIT(&g->conns);
	TAILQ_INIT(&g->dirty);
	g->sweep = (struct alarm){ .fn = on_sweep, .arg = g };
	g->soon = event_new(g->base, -1, 0, conns_on_soon, g);
	return g->soon != NULL ? 0 : -ENOMEM;
}

void
conns_finish(struct gateway *g)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&g->conns)) != NULL)
		conn_free(c);
	alarm_clear(&g->sweep);
	buf_finish(&g->spare);
	if (g->soon != NULL)
		event_free(g->soon);
}

void
conns_leave(struct gateway *g)
{
	struct conn *c;

	TAILQ_FOREACH (c, &g->conns, entry) {
		if (c->ws != NULL)
			conn_leave_ws(c);
		else if (c->exchange == NULL)
			conn_finish(c);
		/* One in service is answered, and closed with the answer. */
	}
}

static bool
rests(const struct conn *c)
{
	return c->ws == NULL && c->exchange == NULL && !c->begun && !c->ended &&
	    !c->closing && conn_queued(c) == 0;
}

bool
conns_make_room(struct gateway *g, const struct acceptor *a)
{
	struct conn *c, *oldest = NULL, *mute = NULL, *stranger = NULL;
	uint64_t now_ms = clock_ms();

	TAILQ_FOREACH (c, &g->conns, entry) {
		if (!acceptor_may_give(c->acceptor, a))
			continue;
		if (stranger == NULL && is_stranger(c, now_ms))
			stranger = c; /* they are in the order in which they came */
		if (rests(c) && (oldest == NULL || c->due_at_ms < oldest->due_at_ms))
			oldest = c;
		if (is_mute(c, now_ms) && (mute == NULL || c->due_at_ms < mute->due_at_ms))
			mute = c;
	}
	/* Who asks for nothing has less to lose than who has asked before. */
	if (mute != NULL)
		oldest = mute;
	if (stranger != NULL)
		oldest = stranger;
	if (oldest == NULL)
		return false;
	if (conn_queued(oldest) > 0)
		conn_cut_off(oldest);
	else
		conn_end(oldest);
	return true;
}
