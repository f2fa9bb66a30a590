#include "gateway/accept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "gateway/conn_private.h"
#include "gateway/monitor.h"

#define BATCH	   64 /* connections that one wake-up of a listener takes at most */
#define BACKOFF_MS 100 /* without a descriptor left */
#define SAY_MS	   10000 /* without that, before it is said again */

struct acceptor {
	struct gateway *g;
	unsigned index;
	int fd;
	struct event *readable;
	struct alarm again;
	unsigned open; /* connections */
	bool listening;
	uint64_t said_at_ms; /* that descriptors are short; 0: never */
};

static unsigned
public_listeners(const struct gateway *g)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g->config.nlisteners; i++)
		n += g->config.listeners[i].kind == listener_kind_public;
	return n;
}

static unsigned
reserve(const struct gateway *g)
{
	return g->config.connections / 4 / public_listeners(g);
}

bool
acceptor_is_monitor(const struct acceptor *a)
{
	return a->g->config.listeners[a->index].kind == listener_kind_monitor;
}

/* May one more come to it? */
static bool
has_room(const struct acceptor *a)
{
	const struct gateway *g = a->g;
	unsigned kept, shared = 0;

	if (acceptor_is_monitor(a))
		return a->open < MONITOR_CONNECTIONS_MAX;
	kept = reserve(g);
	if (a->open < kept)
		return true;
	for (unsigned i = 0; i < g->config.nlisteners; i++) {
		const struct acceptor *other = &g->acceptors[i];

		if (!acceptor_is_monitor(other) && other->open > kept)
			shared += other->open - kept;
	}
	return shared + kept * public_listeners(g) < g->config.connections;
}

bool
acceptor_may_give(const struct acceptor *from, const struct acceptor *to)
{
	return from == to ||
	    (!acceptor_is_monitor(from) && !acceptor_is_monitor(to) &&
		from->open > reserve(from->g));
}

static void
listen_again(struct acceptor *a)
{
	if (a->listening || a->readable == NULL || a->again.at_ms != 0)
		return;
	a->listening = event_add(a->readable, NULL) == 0;
}

static void
listen_no_more(struct acceptor *a)
{
	if (a->listening)
		event_del(a->readable);
	a->listening = false;
}

static void
on_again(void *arg)
{
	listen_again(arg);
}

/* The connections that wait stay in the kernel's queue. */
static void
back_off(struct acceptor *a, int error)
{
	uint64_t now_ms = clock_ms();

	if (a->said_at_ms == 0 || now_ms - a->said_at_ms >= SAY_MS) {
		log_warn("cannot take a connection: %s; trying again", strerror(error));
		a->said_at_ms = now_ms;
	}
	listen_no_more(a);
	alarm_set(a->g->alarms, &a->again, now_ms + BACKOFF_MS);
}

/* Returns false if there is nothing more to take now. */
static bool
take_one(struct acceptor *a)
{
	const struct gateway_listener *l = &a->g->config.listeners[a->index];
	int fd;

	fd = accept4(a->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			back_off(a, errno);
		else if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
			return true;
		return false;
	}
	a->open++;
	if (conn_open(a->g, a, fd, l->tls) < 0)
		acceptor_on_end(a);
	return true;
}

static void
on_acceptable(evutil_socket_t fd, short events, void *arg)
{
	struct acceptor *a = arg;

	(void)fd;
	(void)events;
	/* Somebody waits: who rests makes room, or he waits until one rests or ends. */
	if (!has_room(a) && !conns_make_room(a->g, a))
		listen_no_more(a);
	for (unsigned i = 0; i < BATCH && has_room(a) && take_one(a); i++)
		;
}

void
acceptor_on_rest(struct acceptor *a)
{
	for (unsigned i = 0; i < a->g->config.nlisteners; i++)
		listen_again(&a->g->acceptors[i]);
}

void
acceptor_on_end(struct acceptor *a)
{
	a->open--;
	acceptor_on_rest(a);
}

const struct conn_handler *
acceptor_handler(const struct acceptor *a)
{
	return acceptor_is_monitor(a) ? &monitor_handler : a->g->handler;
}

unsigned
acceptor_index(const struct acceptor *a)
{
	return a->index;
}

int
acceptors_open(struct gateway *g, int first_fd)
{
	g->acceptors = calloc(g->config.nlisteners + 1, sizeof(*g->acceptors));
	if (g->acceptors == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < g->config.nlisteners; i++) {
		struct acceptor *a = &g->acceptors[i];

		*a = (struct acceptor){ .g = g, .index = i, .fd = first_fd + (int)i };
		a->again = (struct alarm){ .fn = on_again, .arg = a };
		if (evutil_make_socket_nonblocking(a->fd) < 0)
			return -errno;
		a->readable =
		    event_new(g->base, a->fd, EV_READ | EV_PERSIST, on_acceptable, a);
		if (a->readable == NULL)
			return -ENOMEM;
		listen_again(a);
	}
	return 0;
}

void
acceptors_stop(struct gateway *g)
{
	for (unsigned i = 0; g->acceptors != NULL && i < g->config.nlisteners; i++) {
		struct acceptor *a = &g->acceptors[i];

		alarm_clear(&a->again);
		if (a->readable == NULL)
			continue;
		event_free(a->readable);
		a->readable = NULL;
		a->listening = false;
		close(a->fd);
	}
}

void
acceptors_close(struct gateway *g)
{
	acceptors_stop(g);
	free(g->acceptors);
	g->acceptors = NULL;
}
