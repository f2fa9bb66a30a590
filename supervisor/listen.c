#include "supervisor/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/socket_name.h"

#define BURST		16 /* accepted per loop turn */
#define BACK_OFF_MS	50 /* after an accept() that failed for want of something; doubles */
#define BACK_OFF_MAX_MS 2000

/* How many connections a uid has; a slot without any is free. */
struct guest {
	uid_t uid;
	unsigned n;
};

/* Handed on, and not taken yet. */
struct offer {
	int fd; /* ours; -1: there was no descriptor for it */
	struct ucred peer;
	STAILQ_ENTRY(offer) link; /* listen.offers */
};

struct listen {
	struct listen_options o;
	int fd;
	struct socket_name name;
	struct event *readable, *again;
	unsigned back_off_ms;
	bool running, crowded; /* a refusal was logged, and none has gone since */
	struct guest guests[LISTEN_MAX];
	unsigned count, others;
	STAILQ_HEAD(, offer) offers;
};

/* ---- who is there ------------------------------------------------------------------ */

static bool
is_operator(const struct listen *l, uid_t uid)
{
	return uid == 0 || uid == l->o.operator_uid;
}

static struct guest *
find_guest(struct listen *l, uid_t uid)
{
	struct guest *g, *spare = NULL;

	for (g = l->guests; g < l->guests + LISTEN_MAX; g++) {
		if (g->n > 0 && g->uid == uid)
			return g;
		if (g->n == 0 && !spare)
			spare = g;
	}
	return spare;
}

/* Counts one in; false: there is no place for it. */
static bool
admit(struct listen *l, uid_t uid)
{
	struct guest *g = find_guest(l, uid);
	bool other = !is_operator(l, uid);

	if (!g || l->count >= LISTEN_MAX)
		return false;
	if (other && (l->others >= LISTEN_OTHERS_MAX || g->n >= LISTEN_UID_MAX))
		return false;
	g->uid = uid;
	g->n++;
	l->count++;
	l->others += other;
	return true;
}

int
listen_gone(struct listen *l, uid_t uid)
{
	struct guest *g = find_guest(l, uid);

	if (!g || g->n == 0)
		return -EPROTO;
	g->n--;
	l->count--;
	l->others -= !is_operator(l, uid);
	l->crowded = false;
	return 0;
}

/* ---- handing on -------------------------------------------------------------------- */

static void
drop_offer(struct listen *l)
{
	struct offer *f = STAILQ_FIRST(&l->offers);

	STAILQ_REMOVE_HEAD(&l->offers, link);
	util_close(&f->fd);
	free(f);
}

static void
hand_on(struct listen *l, int fd, const struct ucred *peer)
{
	struct offer *f = malloc(sizeof(*f));

	if (!f) {
		close(fd);
		listen_gone(l, peer->uid);
		return;
	}
	*f = (struct offer){ .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .peer = *peer };
	STAILQ_INSERT_TAIL(&l->offers, f, link);
	l->o.on_client(fd, peer, l->o.arg);
}

int
listen_taken(struct listen *l)
{
	if (STAILQ_EMPTY(&l->offers))
		return -EPROTO;
	drop_offer(l);
	return 0;
}

/* A broker that died has not read a byte of them: they never were with it. */
static void
hand_on_again(struct listen *l)
{
	STAILQ_HEAD(, offer) old = STAILQ_HEAD_INITIALIZER(old);
	struct offer *f;

	STAILQ_CONCAT(&old, &l->offers);
	while ((f = STAILQ_FIRST(&old))) {
		STAILQ_REMOVE_HEAD(&old, link);
		if (f->fd >= 0 && admit(l, f->peer.uid))
			hand_on(l, steal_fd(&f->fd), &f->peer);
		util_close(&f->fd);
		free(f);
	}
}

/* ---- accepting --------------------------------------------------------------------- */

static void
greet(struct listen *l, int fd)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0) {
		close(fd);
		return;
	}
	if (!admit(l, peer.uid)) {
		if (!l->crowded)
			log_warn("a connection of uid %u is refused: there are %u",
			    (unsigned)peer.uid, l->count);
		l->crowded = true;
		close(fd);
		return;
	}
	hand_on(l, fd, &peer);
}

/* Descriptors or memory are out: they come back when something else ends. */
static void
back_off(struct listen *l, int error)
{
	struct timeval tv = { l->back_off_ms / 1000, l->back_off_ms % 1000 * 1000 };

	if (l->back_off_ms == BACK_OFF_MS)
		log_warn("cannot accept a connection: %s: trying again", strerror(error));
	event_del(l->readable);
	event_add(l->again, &tv);
	l->back_off_ms *= 2;
	if (l->back_off_ms > BACK_OFF_MAX_MS)
		l->back_off_ms = BACK_OFF_MAX_MS;
}

static void
listen_on_readable(evutil_socket_t listener, short events, void *arg)
{
	struct listen *l = arg;
	int fd, i;

	(void)events;
	for (i = 0; i < BURST && l->running; i++) {
		fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			l->back_off_ms = BACK_OFF_MS;
			greet(l, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			back_off(l, errno);
			return;
		}
	}
}

static void
listen_on_again(evutil_socket_t fd, short events, void *arg)
{
	struct listen *l = arg;

	(void)fd;
	(void)events;
	if (l->running)
		event_add(l->readable, NULL);
}

void
listen_resume(struct listen *l)
{
	if (l->fd < 0)
		return;
	l->running = true;
	event_add(l->readable, NULL);
	hand_on_again(l);
}

void
listen_pause(struct listen *l, bool gone)
{
	l->running = false;
	event_del(l->readable);
	event_del(l->again);
	if (!gone)
		return;
	memset(l->guests, 0, sizeof(l->guests));
	l->count = l->others = 0;
	l->crowded = false;
}

static int
refuse_memory(const struct listen_options *o, char err[LISTEN_ERROR_MAX])
{
	snprintf(err, LISTEN_ERROR_MAX, "--socket %.300s: out of memory", o->path);
	return -ENOMEM;
}

int
listen_open(struct event_base *base, const struct listen_options *o, struct listen **ret,
    char err[LISTEN_ERROR_MAX])
{
	struct listen *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l) {
		if (o->inherited)
			close(o->fd);
		return refuse_memory(o, err);
	}
	l->o = *o;
	l->name = SOCKET_NAME_NONE;
	l->fd = o->inherited ? o->fd : -1;
	STAILQ_INIT(&l->offers);
	l->back_off_ms = BACK_OFF_MS;
	if (o->inherited) /* again: whoever connects is told our pid, not systemd's */
		(void)listen(o->fd, SOMAXCONN);
	else
		r = socket_name_bind(&l->name, "--socket", o->path, 0666, &l->fd, err);
	if (r == 0) {
		l->readable =
		    event_new(base, l->fd, EV_READ | EV_PERSIST, listen_on_readable, l);
		l->again = evtimer_new(base, listen_on_again, l);
		if (!l->readable || !l->again ||
		    event_priority_set(l->readable, LISTEN_PRIORITIES - 1) < 0)
			r = refuse_memory(o, err);
	}
	if (r < 0) {
		listen_close(l);
		return r;
	}
	*ret = l;
	return 0;
}

void
listen_end(struct listen *l)
{
	listen_pause(l, false);
	socket_name_remove(&l->name);
	util_close(&l->fd); /* and so those that wait */
	l->fd = -1;
}

void
listen_close(struct listen *l)
{
	if (!l)
		return;
	if (l->readable)
		event_free(l->readable);
	if (l->again)
		event_free(l->again);
	while (!STAILQ_EMPTY(&l->offers))
		drop_offer(l);
	util_close(&l->fd);
	socket_name_finish(&l->name);
	free(l);
}
