#include "gateway/control.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/control.h"
#include "common/log.h"
#include "gateway/accept.h"
#include "gateway/conn_private.h"

/* Wishes that the supervisor has not answered; it kills who asks for more at once. */
#define DIALS_MAX 32
/* How long clients may take to part at a shutdown, once the broker has said its last. */
#define PART_MS 2000

static void
lose(struct gateway *g)
{
	g->lost = true;
	event_base_loopbreak(g->base);
}

static int
tell(struct gateway *g, const struct control *c)
{
	int r = control_send(g->control_fd, c, NULL, 0);

	if (r < 0 && r != -EAGAIN)
		lose(g);
	return r;
}

/* ---- dialing --------------------------------------------------------------------------- */

static void
send_dials(struct gateway *g)
{
	struct dial *d;

	TAILQ_FOREACH (d, &g->dials, entry) {
		struct control c = { .verb = CONTROL_DIAL, .index = d->number };

		if (g->dials_sent == DIALS_MAX)
			return;
		if (d->sent)
			continue;
		if (tell(g, &c) < 0)
			return; /* its next word, at the latest, brings us here again */
		d->sent = true;
		g->dials_sent++;
	}
}

void
gateway_dial(struct gateway *g, struct dial *d)
{
	gateway_dial_cancel(g, d);
	d->number = ++g->last_dial;
	d->set = true;
	d->sent = false;
	TAILQ_INSERT_TAIL(&g->dials, d, entry);
	send_dials(g);
}

void
gateway_dial_cancel(struct gateway *g, struct dial *d)
{
	if (!d->set)
		return;
	d->set = false;
	TAILQ_REMOVE(&g->dials, d, entry);
}

static void
handle_dialed(struct gateway *g, const struct control *c, int fd)
{
	struct dial *d;

	if (g->dials_sent > 0)
		g->dials_sent--;
	TAILQ_FOREACH (d, &g->dials, entry)
		if (d->sent && d->number == c->index)
			break;
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	gateway_dial_cancel(g, d);
	d->fn(d, fd, fd >= 0 ? 0 : c->error != 0 ? c->error : ECONNREFUSED);
}

/* ---- another configuration -------------------------------------------------------------- */

static int
take_config(struct gateway *g, int fd, struct gateway_config_fault *fault)
{
	struct gateway_config next;
	int r = gateway_config_read(fd, &next, fault);

	if (r < 0)
		return r;
	r = next.nlisteners == g->config.nlisteners ? 0 : -EINVAL;
	for (unsigned i = 0; r == 0 && i < next.nlisteners; i++)
		if (next.listeners[i].kind != g->config.listeners[i].kind)
			r = -EINVAL;
	if (r == 0 && strcmp(next.namespace, g->config.namespace) != 0)
		r = -EINVAL;
	if (r < 0) {
		*fault = (struct gateway_config_fault){ .text = "listeners and namespace "
								"need a restart" };
		gateway_config_finish(&next);
		return r;
	}
	gateway_config_finish(&g->config);
	g->config = next;
	return 0;
}

static void
handle_config(struct gateway *g, const struct control *c, int fd)
{
	struct control taken = { .verb = CONTROL_CONFIG_TAKEN, .generation = c->generation };
	struct gateway_config_fault fault = { 0 };
	int r = fd < 0 ? -EINVAL : take_config(g, fd, &fault);

	if (r < 0) {
		log_error("configuration: %s; what was in force stays",
		    r == -EINVAL ? fault.text : strerror(-r));
		taken.error = -r;
		taken.index = fault.listener;
	}
	tell(g, &taken);
}

/* ---- the end --------------------------------------------------------------------------- */

static void
say_settled(struct gateway *g)
{
	struct control c = { .verb = CONTROL_SETTLED };

	if (g->settled)
		return;
	g->settled = true;
	alarm_clear(&g->leave);
	tell(g, &c);
}

static void
on_leave_timeout(void *arg)
{
	say_settled(arg);
}

/* Nothing later than this; a time that was set before may be earlier. */
static void
leave_by(struct gateway *g, uint64_t at_ms)
{
	if (!g->settled && (g->leave.at_ms == 0 || at_ms < g->leave.at_ms))
		alarm_set(g->alarms, &g->leave, at_ms);
}

void
gateway_control_settle(struct gateway *g)
{
	if (!g->leaving)
		return;
	if (TAILQ_EMPTY(&g->conns)) {
		say_settled(g);
	} else if (!g->parting && g->uplinks == 0) {
		g->parting = true;
		leave_by(g, clock_ms() + PART_MS);
	}
}

/* The broker has until then to settle what clients wait for. */
static void
handle_shutdown(struct gateway *g, const struct control *c)
{
	uint64_t grace_ms = c->count < UINT32_MAX ? c->count : UINT32_MAX;

	if (g->leaving)
		return;
	g->leaving = true;
	g->leave = (struct alarm){ .fn = on_leave_timeout, .arg = g };
	leave_by(g, clock_ms() + grace_ms + PART_MS);
	acceptors_stop(g);
	conns_leave(g);
	gateway_control_settle(g);
}

/* ---- what it says ----------------------------------------------------------------------- */

static void
handle_control(struct gateway *g, const struct control *c, int fd)
{
	struct control pong = { .verb = CONTROL_PONG };

	switch (c->verb) {
	case CONTROL_PING:
		tell(g, &pong);
		break;
	case CONTROL_SHUTDOWN:
		handle_shutdown(g, c);
		break;
	case CONTROL_CONFIG:
		handle_config(g, c, fd);
		break;
	case CONTROL_DIALED:
		handle_dialed(g, c, fd);
		fd = -1;
		break;
	default:
		log_warn("an order of the supervisor's that no gateway knows: %u", c->verb);
	}
	if (fd >= 0)
		close(fd);
	send_dials(g);
}

static void
on_control(evutil_socket_t fd, short events, void *arg)
{
	struct gateway *g = arg;
	int fds[CONTROL_FDS_MAX];
	struct control c;
	unsigned nfds;
	int r;

	(void)events;
	while (!g->lost) {
		r = control_recv(fd, &c, fds, &nfds);
		if (r == -EAGAIN)
			return;
		if (r <= 0) {
			lose(g);
			return;
		}
		for (unsigned i = 1; i < nfds; i++)
			close(fds[i]);
		handle_control(g, &c, nfds > 0 ? fds[0] : -1);
	}
}

int
gateway_control_open(struct gateway *g, int fd)
{
	g->control_fd = fd;
	g->control = event_new(g->base, fd, EV_READ | EV_PERSIST, on_control, g);
	if (g->control == NULL || event_add(g->control, NULL) < 0)
		return -ENOMEM;
	return evutil_make_socket_nonblocking(fd) < 0 ? -errno : 0;
}

void
gateway_control_close(struct gateway *g)
{
	struct dial *d;

	while ((d = TAILQ_FIRST(&g->dials)) != NULL)
		gateway_dial_cancel(g, d);
	alarm_clear(&g->leave);
	if (g->control != NULL)
		event_free(g->control);
	if (g->control_fd >= 0)
		close(g->control_fd);
	g->control = NULL;
	g->control_fd = -1;
}

void
gateway_control_ready(struct gateway *g)
{
	struct control c = { .verb = CONTROL_READY };

	tell(g, &c);
}
