#include "supervisor/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/util.h"

#define QUEUE_MAX 65536 /* structs: more than all children of a broker could cause */
#define BURST	  64   /* structs read per loop turn */

struct parcel {
	struct control control;
	int fds[CONTROL_FDS_MAX];
	unsigned nfds;
	STAILQ_ENTRY(parcel) link; /* peer.queue */
};

struct peer {
	int fd;
	bool ended;  /* on_end was called */
	bool closed; /* peer_close() from within on_control() */
	bool reading;
	struct event *readable, *writable;
	STAILQ_HEAD(, parcel) queue;
	unsigned nqueued;
	const struct peer_handler *handler;
	void *arg;
};

static void
close_fds(int *fds, unsigned nfds)
{
	unsigned i;

	for (i = 0; i < nfds; i++)
		close(fds[i]);
}

static void
drop_queue(struct peer *p)
{
	struct parcel *q;

	while ((q = STAILQ_FIRST(&p->queue))) {
		STAILQ_REMOVE_HEAD(&p->queue, link);
		close_fds(q->fds, q->nfds);
		free(q);
	}
	p->nqueued = 0;
}

static void
end_peer(struct peer *p, int error)
{
	if (p->ended || p->closed)
		return;
	p->ended = true;
	event_del(p->readable);
	event_del(p->writable);
	drop_queue(p);
	p->handler->on_end(error, p->arg);
}

static void
destroy_peer(struct peer *p)
{
	drop_queue(p);
	if (p->readable)
		event_free(p->readable);
	if (p->writable)
		event_free(p->writable);
	close(p->fd);
	free(p);
}

/* At most `burst` structs.  May free `p`. */
static void
read_some(struct peer *p, unsigned burst)
{
	int fds[CONTROL_FDS_MAX], r;
	struct control c;
	unsigned nfds, i;

	p->reading = true;
	for (i = 0; i < burst && !p->closed && !p->ended; i++) {
		r = control_recv(p->fd, &c, fds, &nfds);
		if (r == -EAGAIN)
			break;
		if (r <= 0) {
			end_peer(p, r);
			break;
		}
		close_fds(fds, nfds);
		p->handler->on_control(&c, p->arg);
	}
	p->reading = false;
	if (p->closed)
		destroy_peer(p);
}

static void
peer_on_readable(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	read_some(arg, BURST);
}

void
peer_drain(struct peer *p)
{
	if (p && !p->reading)
		read_some(p, UINT_MAX);
}

/* False: the socket is full, try later. */
static bool
send_first(struct peer *p)
{
	struct parcel *q = STAILQ_FIRST(&p->queue);
	int r = control_send(p->fd, &q->control, q->fds, q->nfds);

	if (r == -EAGAIN)
		return false;
	/* A broken link is learned of where it is read, which also reads what came before. */
	STAILQ_REMOVE_HEAD(&p->queue, link);
	p->nqueued--;
	close_fds(q->fds, q->nfds);
	free(q);
	return true;
}

static void
flush(struct peer *p)
{
	while (!STAILQ_EMPTY(&p->queue))
		if (!send_first(p)) {
			event_add(p->writable, NULL);
			return;
		}
	event_del(p->writable);
}

static void
peer_on_writable(evutil_socket_t fd, short events, void *arg)
{
	struct peer *p = arg;

	(void)fd;
	(void)events;
	flush(p);
}

struct peer *
peer_open(struct event_base *base, int fd, const struct peer_handler *handler, void *arg)
{
	struct peer *p = calloc(1, sizeof(*p));
	int flags = fcntl(fd, F_GETFL);

	if (!p) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	p->fd = fd;
	p->handler = handler;
	p->arg = arg;
	STAILQ_INIT(&p->queue);
	p->readable = event_new(base, fd, EV_READ | EV_PERSIST, peer_on_readable, p);
	p->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, peer_on_writable, p);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || !p->readable ||
	    !p->writable || event_add(p->readable, NULL) < 0) {
		destroy_peer(p);
		errno = ENOMEM;
		return NULL;
	}
	return p;
}

void
peer_close(struct peer *p)
{
	if (!p)
		return;
	p->closed = true;
	if (!p->reading)
		destroy_peer(p);
}

void
peer_send(struct peer *p, const struct control *c, int *fds, unsigned nfds)
{
	struct parcel *q;

	if (!p || p->ended || p->closed) {
		close_fds(fds, nfds);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q || p->nqueued >= QUEUE_MAX) {
		free(q);
		close_fds(fds, nfds);
		end_peer(p, -ENOBUFS);
		return;
	}
	q->control = *c;
	q->nfds = nfds;
	if (nfds)
		memcpy(q->fds, fds, nfds * sizeof(*fds));
	STAILQ_INSERT_TAIL(&p->queue, q, link);
	p->nqueued++;
	if (p->nqueued == 1)
		flush(p);
}

unsigned
peer_waiting(const struct peer *p)
{
	return p ? p->nqueued : 0;
}

int
peer_pair(int type, bool nonblock_ours, bool nonblock_theirs, int *ret_ours, int *ret_theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	if ((nonblock_ours && fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0) ||
	    (nonblock_theirs && fcntl(pair[1], F_SETFL, O_NONBLOCK) < 0)) {
		close_fds(pair, 2);
		return -EIO;
	}
	/* Links are read with read(2), which drops them, in any case. */
	for (int i = 0; i < 2 && type == SOCK_STREAM; i++)
		if (setsockopt(pair[i], SOL_SOCKET, PEER_SO_PASSRIGHTS, &(int){ 0 },
			sizeof(int)) < 0 && errno != ENOPROTOOPT) {
			close_fds(pair, 2);
			return -EIO;
		}
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}
