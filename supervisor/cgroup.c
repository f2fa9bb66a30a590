#include "supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/util.h"
#include "supervisor/cgroup_private.h"

static struct cgroup_host *ours;

/* ---- the host ---- */

int
cgroup_host_open(const char *root, const char *self, struct cgroup_host **ret)
{
	struct cgroup_host *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return -ENOMEM;
	TAILQ_INIT(&h->stuck);
	h->leaf.fd = -1;
	h->status.base = h->status.advice = "";
	cgroup_v2_look(h, root, self);
	if (h->status.backend == CGROUP_NONE)
		cgroup_v1_look(h, root, self);
	for (size_t i = 0; i < CGROUP_PARTS; i++)
		if (h->bases[i] != NULL)
			cgroup_dir_sweep(h->bases[i]);
	if (h->bases[PART_UNIFIED] != NULL)
		h->status.base = h->bases[PART_UNIFIED];
	*ret = h;
	return 0;
}

struct cgroup_host *
cgroup_host(void)
{
	if (ours == NULL && cgroup_host_open("/sys/fs/cgroup", "/proc/self/cgroup", &ours) < 0)
		return NULL;
	return ours;
}

void
cgroup_host_finish(void)
{
	cgroup_host_close(ours);
	ours = NULL;
}

const struct cgroup_status *
cgroup_host_status(const struct cgroup_host *h)
{
	return &h->status;
}

const char *
cgroup_backend_name(enum cgroup_backend backend)
{
	return backend == CGROUP_V2 ? "v2" : backend == CGROUP_V1 ? "v1" : "none";
}

/* ---- making ---- */

static void
group_free(struct cgroup *g)
{
	for (size_t i = 0; i < CGROUP_COUNTERS; i++)
		util_close(&g->counters[i]);
	for (size_t i = 0; i < CGROUP_PARTS; i++) {
		cgroup_dir_forget(&g->dirs[i]);
		free(g->procs_path[i]);
	}
	if (g->on_empty != NULL)
		event_free(g->on_empty);
	util_close(&g->inotify_fd);
	free(g);
}

int
cgroup_part_make(struct cgroup *g, enum cgroup_part part)
{
	int r;

	if (g->host->bases[part] == NULL)
		return -ENOTSUP;
	r = cgroup_dir_make(g->host->bases[part], &g->dirs[part]);
	if (r < 0 || part == PART_UNIFIED)
		return r;
	if (asprintf(&g->procs_path[part], "%s/cgroup.procs", g->dirs[part].path) < 0) {
		g->procs_path[part] = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < CGROUP_PARTS; i++)
		if (g->procs[i] == NULL) {
			g->procs[i] = g->procs_path[part];
			break;
		}
	return 0;
}

int
cgroup_settings_apply(struct cgroup *g, const struct cgroup_setting *s, size_t n)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		if (g->dirs[s[i].part].path == NULL)
			continue;
		r = cgroup_dir_write(g->dirs[s[i].part].fd, s[i].name, s[i].value);
		if (r < 0 && !(s[i].optional && (r == -ENOENT || r == -EACCES)))
			return r;
	}
	return 0;
}

void
cgroup_counter_open(
    struct cgroup *g, enum cgroup_counter c, enum cgroup_part part, const char *name)
{
	if (g->dirs[part].path != NULL && g->counters[c] < 0)
		g->counters[c] = openat(g->dirs[part].fd, name, O_RDONLY | O_CLOEXEC);
}

static void stuck_retry(struct cgroup_host *h);

unsigned
cgroup_bounds(const struct cgroup_host *h, const struct cgroup_limits *l)
{
	const struct {
		unsigned ability;
		uint64_t limit;
	} table[] = { { CGROUP_MEMORY, l->memory_bytes }, { CGROUP_PIDS, l->pids },
		{ CGROUP_CPU, l->cpu_percent } };
	unsigned able = h->status.abilities, bounds = 0;

	if (h->status.backend == CGROUP_NONE)
		return 0;
	if (h->status.backend == CGROUP_V1)
		able &= l->asked;
	for (size_t i = 0; i < countof(table); i++)
		if (table[i].limit != 0 && table[i].limit != UINT64_MAX)
			bounds |= able & table[i].ability;
	return bounds;
}

int
cgroup_kind(const struct cgroup_host *h, const struct cgroup_limits *l, unsigned *ret)
{
	*ret = 0;
	if (l->cpu_percent != 0 && (h->status.abilities & CGROUP_CPU) == 0)
		return -ENOTSUP;
	/* In v2 one directory has all controllers, and also kills. */
	*ret = h->status.backend == CGROUP_V2 ? CGROUP_KILL : cgroup_bounds(h, l);
	return 0;
}

int
cgroup_make(struct cgroup_host *h, struct event_base *base, unsigned kind, struct cgroup **ret)
{
	struct cgroup *g;
	int r;

	*ret = NULL;
	if (kind == 0)
		return 0;
	stuck_retry(h);
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	g->host = h;
	g->base = base;
	g->inotify_fd = -1;
	for (size_t i = 0; i < CGROUP_PARTS; i++)
		g->dirs[i].fd = -1;
	for (size_t i = 0; i < CGROUP_COUNTERS; i++)
		g->counters[i] = -1;
	r = h->status.backend == CGROUP_V2 ? cgroup_v2_make(g) : cgroup_v1_make(g, kind);
	if (r < 0) {
		cgroup_destroy(g);
		return r;
	}
	*ret = g;
	return 0;
}

int
cgroup_limit(struct cgroup *g, const struct cgroup_limits *limits)
{
	if (g == NULL)
		return 0;
	g->bounds = cgroup_bounds(g->host, limits);
	return g->host->status.backend == CGROUP_V2 ? cgroup_v2_limit(g, limits)
						    : cgroup_v1_limit(g, limits);
}

int
cgroup_create(struct cgroup_host *h, struct event_base *base,
    const struct cgroup_limits *limits, struct cgroup **ret)
{
	unsigned kind;
	int r = cgroup_kind(h, limits, &kind);

	*ret = NULL;
	if (r == 0)
		r = cgroup_make(h, base, kind, ret);
	if (r == 0)
		r = cgroup_limit(*ret, limits);
	if (r < 0) {
		cgroup_destroy(*ret);
		*ret = NULL;
	}
	return r;
}

struct cgroup_entry
cgroup_entry(const struct cgroup *g)
{
	struct cgroup_entry e = { 0 };

	if (g == NULL)
		return e;
	e.procs = g->procs[0] != NULL ? g->procs : NULL;
	e.into = g->dirs[PART_UNIFIED].path;
	e.bounds = g->bounds;
	return e;
}

/* ---- removing ---- */

/* True if nothing of it is left.  The one that can tell when it is empty goes last. */
static bool
group_remove(struct cgroup *g)
{
	bool gone = true;

	for (size_t i = 0; i < PART_UNIFIED; i++)
		gone = cgroup_dir_remove(&g->dirs[i]) == 0 && gone;
	return gone && cgroup_dir_remove(&g->dirs[PART_UNIFIED]) == 0;
}

static void
stuck_retry(struct cgroup_host *h)
{
	struct cgroup *g, *next;

	for (g = TAILQ_FIRST(&h->stuck); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		if (!group_remove(g))
			continue;
		TAILQ_REMOVE(&h->stuck, g, link);
		group_free(g);
	}
}

static void
group_on_empty(evutil_socket_t fd, short events, void *arg)
{
	struct cgroup *g = arg;
	char unread[4096];

	(void)events;
	while (read(fd, unread, sizeof(unread)) > 0)
		;
	stuck_retry(g->host); /* frees `g`, if all goes well */
}

/* v2 says in cgroup.events when the last process has gone. */
static void
group_watch(struct cgroup *g)
{
	cleanup_free char *path = NULL;

	if (g->dirs[PART_UNIFIED].path == NULL ||
	    asprintf(&path, "%s/cgroup.events", g->dirs[PART_UNIFIED].path) < 0) {
		path = NULL;
		return;
	}
	g->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (g->inotify_fd < 0 || inotify_add_watch(g->inotify_fd, path, IN_MODIFY) < 0)
		return;
	g->on_empty =
	    event_new(g->base, g->inotify_fd, EV_READ | EV_PERSIST, group_on_empty, g);
	if (g->on_empty != NULL)
		event_add(g->on_empty, NULL);
}

void
cgroup_destroy(struct cgroup *g)
{
	struct cgroup_host *h;

	if (g == NULL)
		return;
	h = g->host;
	if (group_remove(g)) {
		group_free(g);
	} else {
		TAILQ_INSERT_TAIL(&h->stuck, g, link);
		group_watch(g);
	}
	stuck_retry(h); /* it may have become empty before it was watched */
}

void
cgroup_host_close(struct cgroup_host *h)
{
	struct cgroup *g;

	if (h == NULL)
		return;
	stuck_retry(h);
	while ((g = TAILQ_FIRST(&h->stuck)) != NULL) {
		TAILQ_REMOVE(&h->stuck, g, link);
		group_free(g);
	}
	cgroup_v2_leave(h);
	for (size_t i = 0; i < CGROUP_PARTS; i++)
		free(h->bases[i]);
	free(h);
}

/* ---- killing and counting ---- */

void
cgroup_kill(const struct cgroup *g)
{
	if (g != NULL && g->dirs[PART_UNIFIED].path != NULL)
		cgroup_dir_write(g->dirs[PART_UNIFIED].fd, "cgroup.kill", "1");
}

/* The number behind each `key`, added up; with "" the one that the file begins with. */
static uint64_t
number_of(const char *text, const char *key)
{
	uint64_t sum = 0;
	size_t n = strlen(key);
	bool found = n == 0 && *text >= '0' && *text <= '9';

	if (found)
		return strtoull(text, NULL, 10);
	for (const char *at = text; n > 0 && (at = strstr(at, key)) != NULL; at += n) {
		if (at > text && at[-1] != ' ' && at[-1] != '\n')
			continue;
		found = true;
		sum += strtoull(at + n, NULL, 10);
	}
	return found ? sum : CGROUP_UNTOLD;
}

void
cgroup_usage(const struct cgroup *g, struct cgroup_usage *ret)
{
	const struct {
		enum cgroup_counter counter;
		const char *key;
		uint64_t *number;
	} table[] = {
		{ COUNTER_OOM, "oom_kill ", &ret->oom_kills },
		{ COUNTER_PIDS, "max ", &ret->pids_refused },
		{ COUNTER_PEAK, "", &ret->peak_bytes },
		{ COUNTER_PROCESSES, "", &ret->processes },
		{ COUNTER_CPU, "usage_usec ", &ret->cpu_us },
		{ COUNTER_IO, "rbytes=", &ret->read_bytes },
		{ COUNTER_IO, "wbytes=", &ret->written_bytes },
	};
	char text[4096];
	ssize_t n;

	ret->backend = g != NULL ? g->host->status.backend : CGROUP_NONE;
	for (size_t i = 0; i < countof(table); i++) {
		int fd = g != NULL ? g->counters[table[i].counter] : -1;

		n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		*table[i].number = n > 0 ? number_of(text, table[i].key) : CGROUP_UNTOLD;
	}
	/* A file of devices without a device: nothing was read or written. */
	if (g != NULL && g->counters[COUNTER_IO] >= 0) {
		if (ret->read_bytes == CGROUP_UNTOLD)
			ret->read_bytes = 0;
		if (ret->written_bytes == CGROUP_UNTOLD)
			ret->written_bytes = 0;
	}
}
