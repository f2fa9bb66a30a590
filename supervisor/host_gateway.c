/* The gateway: started, watched, linked with the broker as it asks, replaced, ended. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/front.h"
#include "supervisor/host_private.h"

#define DEATHS_MS      10000 /* more than DEATHS_MAX deaths in it, and it starts slowly */
#define AGAIN_FIRST_MS 100
#define AGAIN_LAST_MS  5000
#define AGAIN_SLOW_MS  30000
#define DIALS_WAIT_MAX 64   /* that one side has not taken yet */
#define DIALS_BURST    4096 /* and one more each millisecond */

/* ---- starting it ------------------------------------------------------------------- */

bool
gateway_is_wanted(const struct host *h)
{
	return h->o.ngateway_fds > 0;
}

/* Whoever waited for its first word waits no more. */
static void
note_word(struct host *h)
{
	h->gateway.spoken = true;
	host_serve_when_ready(h);
}

static void
start_later(struct host *h)
{
	struct gateway *g = &h->gateway;
	unsigned ms = g->again_ms;
	struct timeval tv;

	if (deaths_note(&g->deaths, clock_ms(), DEATHS_MS)) {
		ms = AGAIN_SLOW_MS;
		log_error("the gateway died %d times in %d s: it starts again in %d s; nothing else "
			  "is touched",
		    DEATHS_MAX + 1, DEATHS_MS / 1000, AGAIN_SLOW_MS / 1000);
	}
	tv = (struct timeval){ ms / 1000, ms % 1000 * 1000 };
	event_add(g->again, &tv);
	g->again_ms = g->again_ms == 0 ? AGAIN_FIRST_MS : 2 * g->again_ms;
	if (g->again_ms > AGAIN_LAST_MS)
		g->again_ms = AGAIN_LAST_MS;
}

void
host_start_gateway(struct host *h)
{
	struct gateway *g = &h->gateway;
	struct service *s = &h->services[GATEWAY];
	int fds[SOCKETS_MAX + 1], r;
	enum layer layer = LAYER_PLAN;

	if (!gateway_is_wanted(h) || h->stage != STAGE_RUNNING || s->launch)
		return;
	g->ready = false;
	g->started_with = g->generation;
	memcpy(fds, h->o.gateway_fds, h->o.ngateway_fds * sizeof(*fds));
	r = pack_memfd(g->offered.n > 0 ? &g->offered : &g->config);
	if (r >= 0) {
		fds[h->o.ngateway_fds] = r;
		r = service_start(s, NULL, 0, fds, h->o.ngateway_fds + 1, &layer);
		close(fds[h->o.ngateway_fds]);
	}
	STOP_POINT("supervisor.after_gateway");
	if (r < 0) {
		service_explain(s, layer, -r);
		gateway_gone(h);
	}
}

static void
gateway_on_again(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	host_start_gateway(arg);
}

void
gateway_gone(struct host *h)
{
	struct gateway *g = &h->gateway;

	/* A new configuration that it could not even speak about is not tried again. */
	if (!g->ready && g->offered.n > 0 && g->begun && g->started_with == g->generation) {
		front_forget(&g->offered);
		h->o.on_gateway_config(-EPIPE, 0, h->o.arg);
	}
	g->ready = false;
	note_word(h);
	if (h->stage == STAGE_RUNNING)
		start_later(h);
}

int
gateway_init(struct host *h)
{
	struct gateway *g = &h->gateway;

	g->dials = DIALS_BURST;
	g->dials_at_ms = clock_ms();
	buf_add(&g->config, h->o.gateway_config.p, h->o.gateway_config.n);
	g->again = evtimer_new(h->base, gateway_on_again, h);
	return g->again && !g->config.failed ? 0 : -ENOMEM;
}

void
gateway_finish(struct host *h)
{
	if (h->gateway.again)
		event_free(h->gateway.again);
	front_forget(&h->gateway.config);
	front_forget(&h->gateway.offered);
}

void
gateway_shutdown(struct host *h)
{
	struct control m = { .verb = CONTROL_SHUTDOWN,
		.count = (uint64_t)h->config->limits.shutdown_grace };

	event_del(h->gateway.again);
	peer_send(h->services[GATEWAY].peer, &m, NULL, 0);
}

/* ---- its configuration ------------------------------------------------------------- */

static void
offer(struct host *h)
{
	struct gateway *g = &h->gateway;
	struct control m = { .verb = CONTROL_CONFIG, .generation = g->generation };
	int fd = pack_memfd(&g->offered);

	if (fd < 0) {
		front_forget(&g->offered);
		h->o.on_gateway_config(fd, 0, h->o.arg);
		return;
	}
	peer_send(h->services[GATEWAY].peer, &m, &fd, 1);
}

int
host_gateway_config(struct host *h, const struct buf *config)
{
	struct gateway *g = &h->gateway;
	struct buf copy = { 0 };

	if (!gateway_is_wanted(h) || h->stage != STAGE_RUNNING)
		return 0;
	buf_add(&copy, config->p, config->n);
	if (copy.failed)
		return -ENOMEM;
	front_forget(&g->offered);
	g->offered = copy;
	g->generation++;
	/* One that is not ready, or not there, is followed by one that begins with it, or has
	 * it once it is. */
	if (g->ready)
		offer(h);
	return 0;
}

/* What was offered is what it goes by. */
static void
settle(struct host *h)
{
	struct gateway *g = &h->gateway;

	if (g->offered.n == 0)
		return;
	front_forget(&g->config);
	g->config = g->offered;
	g->offered = (struct buf){ 0 };
	h->o.on_gateway_config(0, 0, h->o.arg);
}

static void
refuse(struct host *h, const struct control *c)
{
	front_forget(&h->gateway.offered);
	h->o.on_gateway_config(-c->error, c->index, h->o.arg);
}

/* One that cannot begin with the first configuration of all ends the start: nobody has seen it
 * work.  Later the next one begins with what worked. */
static int
handle_unready(struct host *h, const struct control *c)
{
	if (c->error <= 0)
		return -EPROTO;
	if (h->gateway.offered.n > 0 && h->gateway.begun) {
		refuse(h, c);
	} else if (!h->gateway.begun) {
		h->o.on_gateway_config(-c->error, c->index, h->o.arg);
		host_fail(h, LAYER_NONE, c->error);
	}
	return 0;
}

static int
handle_config_taken(struct host *h, const struct control *c)
{
	struct gateway *g = &h->gateway;

	if (!g->ready)
		return handle_unready(h, c);
	if (c->error < 0 || c->generation > g->generation || c->generation <= g->answered)
		return -EPROTO;
	g->answered = c->generation;
	if (c->generation < g->generation) /* another one has followed it meanwhile */
		return 0;
	if (c->error > 0)
		refuse(h, c);
	else
		settle(h);
	return 0;
}

/* ---- what it asks for -------------------------------------------------------------- */

static int
handle_ready(struct host *h, const struct control *c)
{
	struct gateway *g = &h->gateway;
	bool late;

	(void)c;
	if (g->ready)
		return -EPROTO;
	g->ready = g->begun = true;
	/* Was there another one since it was started? */
	late = g->offered.n > 0 && g->started_with != g->generation;
	g->answered = g->started_with;
	if (late)
		offer(h);
	else
		settle(h);
	note_word(h);
	return 0;
}

static bool
may_dial(struct host *h)
{
	struct gateway *g = &h->gateway;
	uint64_t now_ms = clock_ms();

	g->dials += now_ms - g->dials_at_ms;
	if (g->dials > DIALS_BURST)
		g->dials = DIALS_BURST;
	g->dials_at_ms = now_ms;
	if (h->stage != STAGE_RUNNING || !h->serving || g->dials == 0 ||
	    peer_waiting(h->services[BROKER].peer) >= DIALS_WAIT_MAX ||
	    peer_waiting(h->services[GATEWAY].peer) >= DIALS_WAIT_MAX)
		return false;
	g->dials--;
	return true;
}

/* A link, one end to the broker, who learns from its client what it is: nobody's yet. */
static int
handle_dial(struct host *h, const struct control *c)
{
	struct control to_broker = { .verb = CONTROL_CLIENT,
		.flags = CONTROL_FROM_GATEWAY,
		.uid = UINT32_MAX,
		.gid = UINT32_MAX,
		.pid = UINT32_MAX };
	struct control to_gateway = { .verb = CONTROL_DIALED, .index = c->index };
	int broker_fd, gateway_fd, r = -EAGAIN;

	if (!h->gateway.ready)
		return -EPROTO;
	if (may_dial(h))
		r = peer_pair(SOCK_STREAM, true, true, &broker_fd, &gateway_fd);
	if (r < 0) {
		to_gateway.error = -r;
		peer_send(h->services[GATEWAY].peer, &to_gateway, NULL, 0);
		return 0;
	}
	peer_send(h->services[BROKER].peer, &to_broker, &broker_fd, 1);
	peer_send(h->services[GATEWAY].peer, &to_gateway, &gateway_fd, 1);
	return 0;
}

static int
handle_settled(struct host *h, const struct control *c)
{
	(void)c;
	if (h->stage == STAGE_RUNNING)
		return -EPROTO;
	/* End-of-file is what ends it. */
	service_drop_peer(&h->services[GATEWAY]);
	return 0;
}

static int
handle_pong(struct host *h, const struct control *c)
{
	(void)c;
	h->services[GATEWAY].unanswered = 0;
	/* It has lived: its next death is a first one. */
	if (h->gateway.ready && !deaths_recent(&h->gateway.deaths, clock_ms(), DEATHS_MS))
		h->gateway.again_ms = 0;
	return 0;
}

static const struct {
	enum control_verb verb;
	int (*handle)(struct host *h, const struct control *c); /* 0, or -EPROTO: not sound */
} handlers[] = {
	{ CONTROL_PONG, handle_pong },
	{ CONTROL_READY, handle_ready },
	{ CONTROL_DIAL, handle_dial },
	{ CONTROL_CONFIG_TAKEN, handle_config_taken },
	{ CONTROL_SETTLED, handle_settled },
};

void
gateway_on_control(const struct control *c, void *arg)
{
	struct service *s = arg;
	size_t i;
	int r = -EPROTO;

	for (i = 0; i < countof(handlers); i++)
		if (handlers[i].verb == c->verb)
			r = handlers[i].handle(s->host, c);
	service_check_order(s, c, r);
}
