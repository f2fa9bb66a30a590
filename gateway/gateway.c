#include "gateway/gateway.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/child.h"
#include "gateway/accept.h"
#include "gateway/conn_private.h"
#include "gateway/control.h"
#include "gateway/metrics.h"
#include "gateway/monitor.h"

static struct event_base *
make_loop(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config != NULL) {
		/* Single-threaded: no locks, and no wake-up descriptor for them. */
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		base = event_base_new_with_config(config);
		event_config_free(config);
	}
	return base;
}

/* Bytes that wait in a socket before the client's window opens for them: a buffer as large as
 * the kernel makes them would be seconds of a slow client's, during which it seems to read
 * nothing. */
#define UNSENT_BYTES (128 << 10)

/* What is accepted inherits this: a frame is not held back for the next one. */
static void
send_at_once(const struct gateway *g)
{
	for (unsigned i = 0; i < g->config.nlisteners; i++) {
		setsockopt(GATEWAY_FD_LISTEN + (int)i, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 },
		    sizeof(int));
		setsockopt(GATEWAY_FD_LISTEN + (int)i, IPPROTO_TCP, TCP_NOTSENT_LOWAT,
		    &(int){ UNSENT_BYTES }, sizeof(int));
	}
}

int
gateway_begin(struct gateway *g, const struct conn_handler *handler)
{
	int r;

	send_at_once(g);
	metrics_init();
	g->control_fd = -1;
	TAILQ_INIT(&g->dials);
	g->handler = handler;
	g->base = make_loop();
	g->alarms = g->base != NULL ? alarms_create(g->base) : NULL;
	g->monitor = monitor_create(g);
	if (g->alarms == NULL || g->monitor == NULL)
		return -ENOMEM;
	r = conns_init(g);
	if (r == 0)
		r = acceptors_open(g, GATEWAY_FD_LISTEN);
	return r < 0 ? r : gateway_control_open(g, GATEWAY_FD_CONTROL);
}

void
gateway_end(struct gateway *g)
{
	conns_finish(g);
	monitor_stop(g->monitor);
	acceptors_close(g);
	gateway_control_close(g);
	/* Links end in the loop. */
	event_base_loop(g->base, EVLOOP_NONBLOCK);
	monitor_destroy(g->monitor);
	alarms_destroy(g->alarms);
	event_base_free(g->base);
	gateway_config_finish(&g->config);
}
