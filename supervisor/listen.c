#include "supervisor/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/lockfile.h"

#define BACKLOG		128
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
	int fd, dir_fd, lock_fd;
	char *name, *lock_name; /* beneath dir_fd */
	struct stat made;	/* the socket, as we made it */
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

/* ---- its name ---------------------------------------------------------------------- */

static int
refuse(char err[LISTEN_ERROR_MAX], const char *path, const char *what, int error)
{
	snprintf(err, LISTEN_ERROR_MAX, "--socket %.300s: cannot %s: %s", path, what,
	    strerror(error));
	return -error;
}

/* Opens the directory of `path`, made if it is not there; what others could change is none. */
static int
open_dir(struct listen *l, const char *path, char err[LISTEN_ERROR_MAX])
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir =
	    slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
	mode_t mode = geteuid() == 0 ? 0755 : 0700, mask;
	struct stat st;

	l->name = strdup(slash ? slash + 1 : path);
	if (!dir || !l->name)
		return refuse(err, path, "use it", ENOMEM);
	if (l->name[0] == '\0')
		return refuse(err, path, "use it", EISDIR);
	mask = umask(0); /* not chmod(), which may meet another directory by then */
	(void)mkdir(dir, mode);
	umask(mask);
	l->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir_fd < 0 || fstat(l->dir_fd, &st) < 0)
		return refuse(err, path, "open its directory", errno);
	if ((st.st_uid != geteuid() && st.st_uid != 0) ||
	    ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))) {
		snprintf(err, LISTEN_ERROR_MAX,
		    "--socket %.300s: others could replace it: expected a directory that only "
		    "its owner, you or root, can write",
		    path);
		return -EPERM;
	}
	return 0;
}

/* NAME.sock is locked by NAME.pid. */
static int
take_lock(struct listen *l, const char *path, char err[LISTEN_ERROR_MAX])
{
	size_t n = strlen(l->name);
	char text[LOCKFILE_HOLDER_MAX];
	pid_t holder;

	if (n > 5 && !strcmp(l->name + n - 5, ".sock"))
		n -= 5;
	if (asprintf(&l->lock_name, "%.*s.pid", (int)n, l->name) < 0) {
		l->lock_name = NULL;
		return refuse(err, path, "lock it", ENOMEM);
	}
	l->lock_fd = lockfile_take(l->dir_fd, l->lock_name, 0, &holder);
	if (l->lock_fd == -EWOULDBLOCK) {
		snprintf(err, LISTEN_ERROR_MAX,
		    "--socket %.300s: is served by %s, or name another socket", path,
		    lockfile_holder(holder, text));
		return -EWOULDBLOCK;
	}
	return l->lock_fd < 0 ? refuse(err, path, "lock it by its pid file", -l->lock_fd) : 0;
}

/* With the lock held: a socket of that name is of a daemon that is dead. */
static int
remove_stale(struct listen *l, const char *path, char err[LISTEN_ERROR_MAX])
{
	struct stat st;

	if (fstatat(l->dir_fd, l->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : refuse(err, path, "look at it", errno);
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, LISTEN_ERROR_MAX,
		    "--socket %.300s: something that is no socket is there: remove it, or name "
		    "another",
		    path);
		return -EEXIST;
	}
	return unlinkat(l->dir_fd, l->name, 0) < 0 ? refuse(err, path, "remove it", errno) : 0;
}

static int
bind_name(struct listen *l, const char *path, char err[LISTEN_ERROR_MAX])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t mask;
	int r;

	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return refuse(err, path, "make a socket", errno);
	mask = umask(0111);
	r = bind(l->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	umask(mask);
	if (r)
		return refuse(err, path, "bind it", r);
	if (fstatat(l->dir_fd, l->name, &l->made, AT_SYMLINK_NOFOLLOW) < 0 ||
	    listen(l->fd, BACKLOG) < 0)
		return refuse(err, path, "listen", errno);
	return 0;
}

static int
open_socket(struct listen *l, const char *path, char err[LISTEN_ERROR_MAX])
{
	struct sockaddr_un address;
	int r;

	if (strlen(path) >= sizeof(address.sun_path)) {
		snprintf(err, LISTEN_ERROR_MAX,
		    "--socket %.300s: is %zu bytes long, expected %zu at most", path,
		    strlen(path), sizeof(address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	if ((r = open_dir(l, path, err)) < 0 || (r = take_lock(l, path, err)) < 0 ||
	    (r = remove_stale(l, path, err)) < 0)
		return r;
	return bind_name(l, path, err);
}

int
listen_open(struct event_base *base, const struct listen_options *o, struct listen **ret,
    char err[LISTEN_ERROR_MAX])
{
	struct listen *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return refuse(err, o->path, "listen", ENOMEM);
	l->o = *o;
	l->fd = l->dir_fd = l->lock_fd = -1;
	STAILQ_INIT(&l->offers);
	l->back_off_ms = BACK_OFF_MS;
	r = open_socket(l, o->path, err);
	if (r == 0) {
		l->readable =
		    event_new(base, l->fd, EV_READ | EV_PERSIST, listen_on_readable, l);
		l->again = evtimer_new(base, listen_on_again, l);
		if (!l->readable || !l->again ||
		    event_priority_set(l->readable, LISTEN_PRIORITIES - 1) < 0)
			r = refuse(err, o->path, "listen", ENOMEM);
	}
	if (r < 0) {
		listen_close(l);
		return r;
	}
	*ret = l;
	return 0;
}

/* If it is still ours. */
static void
remove_name(struct listen *l)
{
	struct stat there;

	if (l->made.st_ino && fstatat(l->dir_fd, l->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    there.st_ino == l->made.st_ino && there.st_dev == l->made.st_dev)
		unlinkat(l->dir_fd, l->name, 0);
	l->made.st_ino = 0;
}

void
listen_end(struct listen *l)
{
	listen_pause(l, false);
	remove_name(l);
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
	remove_name(l);
	util_close(&l->fd);
	lockfile_remove(l->dir_fd, l->lock_name, l->lock_fd);
	util_close(&l->dir_fd);
	free(l->name);
	free(l->lock_name);
	free(l);
}
