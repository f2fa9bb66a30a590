#include "supervisor/workspace.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/quota.h"
#include "supervisor/workspace_empty.h"

#define NAME_DIGITS	16
#define BUCKETS		4096
#define REMOVALS_MAX	4    /* at once: each is a chamber */
#define SOME		256  /* over the limit, made while others are on their way out */
#define LEAVING_MAX	1024 /* on their way out, or left: more, and none is made */

enum workspace_state {
	WORKSPACE_THERE,
	WORKSPACE_WAITS, /* to be removed */
	WORKSPACE_GOES,	 /* is being emptied */
	WORKSPACE_LEFT,	 /* could not be removed: for the next start */
};

struct workspace {
	struct workspaces *owner;
	uint64_t number;
	enum workspace_state state;
	uint32_t project; /* QUOTA_PROJECT_NONE: nothing bounds it */
	unsigned holds;	 /* children that show it */
	bool made;	 /* counts for the limit; false: it was found */
	bool asked;	 /* who waits to hear that it is gone is still there */
	struct empty *empty; /* while it goes */
	LIST_ENTRY(workspace) link; /* workspaces.buckets */
	TAILQ_ENTRY(workspace) turn; /* workspaces.waiting */
};

struct workspaces {
	struct event_base *base;
	int dir_fd;
	const char *path;
	struct workspaces_bounds bounds;
	uint64_t made, leaving;
	unsigned removals;
	bool ended;
	const struct workspaces_handler *handler;
	void *arg;
	LIST_HEAD(, workspace) buckets[BUCKETS];
	TAILQ_HEAD(, workspace) waiting;
};

/* ---- which there are --------------------------------------------------------------- */

static void
name_of(uint64_t number, char ret[NAME_DIGITS + 1])
{
	snprintf(ret, NAME_DIGITS + 1, "%016jx", (uintmax_t)number);
}

/* 0: no name of ours. */
static uint64_t
number_of(const char *name)
{
	if (strlen(name) != NAME_DIGITS || strspn(name, "0123456789abcdef") != NAME_DIGITS)
		return 0;
	return strtoull(name, NULL, 16);
}

static struct workspace *
find(const struct workspaces *w, uint64_t number)
{
	struct workspace *s;

	LIST_FOREACH (s, &w->buckets[number % BUCKETS], link)
		if (s->number == number)
			return s;
	return NULL;
}

static struct workspace *
add(struct workspaces *w, uint64_t number, bool made)
{
	struct workspace *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct workspace){ .owner = w, .number = number, .made = made };
	w->made += made;
	LIST_INSERT_HEAD(&w->buckets[number % BUCKETS], s, link);
	return s;
}

static void
forget(struct workspace *s)
{
	if (s->state == WORKSPACE_WAITS)
		TAILQ_REMOVE(&s->owner->waiting, s, turn);
	if (s->state == WORKSPACE_THERE)
		s->owner->made -= s->made;
	else
		s->owner->leaving--;
	LIST_REMOVE(s, link);
	free(s);
}

static bool
is_directory(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int
open_directory(const struct workspaces *w, uint64_t number)
{
	char name[NAME_DIGITS + 1];
	int fd;

	name_of(number, name);
	fd = openat(w->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What a daemon bounded has the project that it was given.  Only root bounds any, to whom no
 * mode that a program gave its workspace says no. */
static int
take(struct workspaces *w, uint64_t number)
{
	cleanup_fd int fd = open_directory(w, number);
	struct workspace *s = add(w, number, false);

	if (!s)
		return -ENOMEM;
	s->project = fd < 0 ? QUOTA_PROJECT_NONE : quota_project(fd);
	return 0;
}

/* Names that a daemon gave. */
static int
look(struct workspaces *w)
{
	struct dirent **names = NULL;
	int i, n = scandirat(w->dir_fd, ".", &names, NULL, NULL), r = n < 0 ? -errno : 0;
	uint64_t number;

	for (i = 0; i < n; i++) {
		number = number_of(names[i]->d_name);
		if (r == 0 && number != 0 && is_directory(w->dir_fd, names[i]->d_name))
			r = take(w, number);
		free(names[i]);
	}
	free(names);
	return r;
}

/* ---- what they may hold ------------------------------------------------------------ */

/* What lies in one that was made without a project was never counted, and nobody reads its
 * names to have that done now. */
static void
set_bounds(const struct workspaces *w)
{
	const struct workspace *s;
	uintmax_t without = 0, as_before = 0;
	int r, error = 0;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH (s, &w->buckets[i], link) {
			if (s->project == QUOTA_PROJECT_NONE) {
				without += s->state == WORKSPACE_THERE;
				continue;
			}
			r = quota_bound(w->dir_fd, s->project, w->bounds.bytes);
			as_before += r < 0;
			error = r < 0 ? -r : error;
		}
	if (w->bounds.bytes && without)
		log_warn("sessions.workspace_size: %ju workspaces were made while there was none, and "
			 "stay without until their sessions are released",
		    without);
	/* Where quotas are off by now there is nothing to take away. */
	if (as_before && (w->bounds.bytes || error != ESRCH))
		log_warn("sessions.workspace_size: %ju workspaces stay bounded as they were: %s",
		    as_before, strerror(error));
}

/* ---- what the broker is told ------------------------------------------------------- */

static void
tell(const struct workspaces *w, enum control_verb verb, uint64_t number, int error)
{
	struct control m = { .verb = verb, .workspace = number, .error = error };

	w->handler->tell(&m, w->arg);
}

void
workspaces_on_ready(struct workspaces *w)
{
	const struct workspace *s;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH (s, &w->buckets[i], link)
			if (s->state == WORKSPACE_THERE)
				tell(w, CONTROL_WORKSPACE_FOUND, s->number, 0);
}

void
workspaces_on_gone(struct workspaces *w)
{
	struct workspace *s;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH (s, &w->buckets[i], link)
			s->asked = false;
}

/* ---- one comes --------------------------------------------------------------------- */

/* Before anybody can write into it. */
static int
claim(struct workspace *s)
{
	const struct workspaces *w = s->owner;
	cleanup_fd int fd = -1;
	int r;

	if (w->bounds.bytes == 0)
		return 0;
	fd = open_directory(w, s->number);
	if (fd < 0)
		return fd;
	r = quota_claim(fd, s->number, w->bounds.bytes, &s->project);
	STOP_POINT("supervisor.workspace_bound");
	return r;
}

static int
make(struct workspaces *w, uint64_t number)
{
	char name[NAME_DIGITS + 1];
	struct workspace *s;
	int error;

	if (w->leaving >= LEAVING_MAX)
		return -EBUSY;
	if (find(w, number))
		return -EEXIST;
	name_of(number, name);
	STOP_POINT("supervisor.workspace_making");
	if (mkdirat(w->dir_fd, name, 0700) < 0)
		return -errno;
	STOP_POINT("supervisor.workspace_made");
	s = add(w, number, true);
	error = s ? claim(s) : -ENOMEM;
	if (error == 0)
		return 0;
	if (s)
		forget(s);
	(void)!unlinkat(w->dir_fd, name, AT_REMOVEDIR);
	return error;
}

int
workspaces_make(struct workspaces *w, uint64_t number)
{
	const struct workspace *s = find(w, number);
	int r;

	if (number == 0 || (s && s->state == WORKSPACE_THERE) ||
	    w->made >= w->bounds.count + SOME)
		return -EPROTO;
	r = make(w, number);
	if (r < 0)
		log_warn("cannot make the workspace %s/%016jx: %s", w->path, (uintmax_t)number,
		    r == -EBUSY	 ? "too many are on their way out" :
		    r == -EAGAIN ? "no project id of ours is free on its file system" :
				   strerror(-r));
	tell(w, CONTROL_WORKSPACE_MADE, number, -r);
	return 0;
}

/* ---- one goes ---------------------------------------------------------------------- */

static void remove_next(struct workspaces *w);

/* It is no more, or stays as it is. */
static void
settle(struct workspace *s, int error, const char *why)
{
	struct workspaces *w = s->owner;

	if (error)
		log_warn("cannot remove the workspace %s/%016jx: %s: what is left of it stays "
			 "until the next start, which tries again",
		    w->path, (uintmax_t)s->number, why);
	if (s->asked)
		tell(w, CONTROL_WORKSPACE_GONE, s->number, error);
	if (error)
		s->state = WORKSPACE_LEFT;
	else
		forget(s);
}

/* Empty: an errno, or 0 and it is gone. */
static int
remove_empty(const struct workspace *s)
{
	const struct workspaces *w = s->owner;
	/* As long as it is open nobody else can have its project, whose bound goes. */
	cleanup_fd int fd = s->project ? open_directory(w, s->number) : -1;
	char name[NAME_DIGITS + 1];

	name_of(s->number, name);
	STOP_POINT("supervisor.workspace_empty");
	if (unlinkat(w->dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return errno;
	STOP_POINT("supervisor.workspace_removed");
	/* Of one that stays the next who has the id sets his own. */
	if (fd >= 0)
		(void)quota_bound(fd, s->project, 0);
	return 0;
}

static void
workspace_on_emptied(int error, const char *why, void *arg)
{
	struct workspace *s = arg;
	struct workspaces *w = s->owner;

	s->empty = NULL;
	w->removals--;
	if (error == ECANCELED) {
		s->state = WORKSPACE_LEFT;
	} else {
		if (error == 0) {
			error = remove_empty(s);
			why = strerror(error);
		}
		settle(s, error, why);
	}
	remove_next(w);
	if (w->removals == 0)
		w->handler->on_idle(w->arg);
}

/* Most sessions leave something; what is empty needs no chamber to be removed. */
static void
start_removal(struct workspace *s)
{
	struct workspaces *w = s->owner;
	char path[WORKSPACE_PATH_MAX], why[EMPTY_WHY_MAX];
	int r = remove_empty(s);

	TAILQ_REMOVE(&w->waiting, s, turn);
	s->state = WORKSPACE_GOES;
	if (r != ENOTEMPTY && r != EEXIST) {
		settle(s, r, strerror(r));
		return;
	}
	snprintf(why, sizeof(why), "%s", strerror(ENAMETOOLONG));
	r = workspaces_path(w, s->number, path);
	if (r == 0)
		r = empty_start(w->base, path, workspace_on_emptied, s, &s->empty, why);
	if (r < 0) {
		settle(s, -r, why);
		return;
	}
	w->removals++;
	STOP_POINT("supervisor.workspace_goes");
}

static void
remove_next(struct workspaces *w)
{
	while (!w->ended && w->removals < REMOVALS_MAX && !TAILQ_EMPTY(&w->waiting))
		start_removal(TAILQ_FIRST(&w->waiting));
}

int
workspaces_drop(struct workspaces *w, uint64_t number)
{
	struct workspace *s = find(w, number);

	if (!s || s->state != WORKSPACE_THERE || s->holds > 0)
		return -EPROTO;
	w->made -= s->made;
	w->leaving++;
	s->state = WORKSPACE_WAITS;
	s->asked = true;
	TAILQ_INSERT_TAIL(&w->waiting, s, turn);
	STOP_POINT("supervisor.workspace_dropped");
	remove_next(w);
	return 0;
}

/* ---- who shows one ----------------------------------------------------------------- */

bool
workspaces_hold(struct workspaces *w, uint64_t number)
{
	struct workspace *s = find(w, number);

	if (!s || s->state != WORKSPACE_THERE)
		return false;
	s->holds++;
	return true;
}

void
workspaces_release(struct workspaces *w, uint64_t number)
{
	struct workspace *s = find(w, number);

	assert(s && s->holds > 0);
	s->holds--;
}

int
workspaces_path(const struct workspaces *w, uint64_t number, char ret[WORKSPACE_PATH_MAX])
{
	char name[NAME_DIGITS + 1];
	int n;

	name_of(number, name);
	n = snprintf(ret, WORKSPACE_PATH_MAX, "%s/%s", w->path, name);
	return n >= WORKSPACE_PATH_MAX ? -ENAMETOOLONG : 0;
}

/* ---- all of them ------------------------------------------------------------------- */

struct workspaces *
workspaces_create(struct event_base *base, int dir_fd, const char *path,
    const struct workspaces_bounds *bounds, const struct workspaces_handler *handler, void *arg)
{
	struct workspaces *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return NULL;
	w->base = base;
	w->dir_fd = dir_fd;
	w->path = path;
	w->bounds = *bounds;
	w->handler = handler;
	w->arg = arg;
	TAILQ_INIT(&w->waiting);
	r = look(w);
	if (r == 0) {
		set_bounds(w);
		return w;
	}
	workspaces_destroy(w);
	errno = -r;
	return NULL;
}

void
workspaces_destroy(struct workspaces *w)
{
	struct workspace *s;
	size_t i;

	if (!w)
		return;
	assert(w->removals == 0);
	for (i = 0; i < BUCKETS; i++)
		while ((s = LIST_FIRST(&w->buckets[i])))
			forget(s);
	free(w);
}

void
workspaces_limit(struct workspaces *w, const struct workspaces_bounds *bounds)
{
	if (bounds->count > w->bounds.count)
		w->bounds.count = bounds->count;
	if (bounds->bytes == w->bounds.bytes)
		return;
	w->bounds.bytes = bounds->bytes;
	set_bounds(w);
}

void
workspaces_end(struct workspaces *w)
{
	struct workspace *s;
	size_t i;

	w->ended = true;
	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH (s, &w->buckets[i], link)
			if (s->empty)
				empty_cancel(s->empty);
}

bool
workspaces_idle(const struct workspaces *w)
{
	return w->removals == 0;
}
