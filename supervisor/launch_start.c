/* Births: of a launch that is wanted now, of one that stands by, and how that gets its
 * order. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/util.h"
#include "supervisor/ground.h"
#include "supervisor/launch_layers.h"
#include "supervisor/launch_limits.h"
#include "supervisor/launch_plan.h"
#include "supervisor/launch_private.h"
#include "supervisor/launch_spawn.h"
#include "supervisor/profiles.h"

/* What a launch is made from. */
struct draft {
	const struct chamber *chamber;
	struct launch_group group;
	int plan_fd;
	struct plan_header *page;
	size_t page_size;
	int ground_fds[GROUND_FDS_MAX]; /* ground.c's */
	unsigned nground;
	struct ground_root *root; /* that the launcher would make */
};

static void
draft_drop(struct draft *d)
{
	if (d->page != NULL)
		munmap(d->page, d->page_size);
	util_close(&d->plan_fd);
	ground_root_drop(d->root);
	d->page = NULL;
	d->plan_fd = -1;
	d->root = NULL;
}

/* The plan, with what is held of what it wants. */
static int
draft_plan(struct draft *d, const struct cgroup_entry *entry, enum layer *ret_layer)
{
	draft_drop(d);
	d->plan_fd = launch_plan_create(
	    d->chamber, entry, &d->page, &d->page_size, ret_layer);
	if (d->plan_fd < 0) {
		d->page = NULL;
		return d->plan_fd;
	}
	d->nground = ground_find(d->page, d->ground_fds, &d->root);
	return 0;
}

static struct launch_kind
draft_kind(const struct draft *d)
{
	return (struct launch_kind){ .flags = d->page->flags & PLAN_KIND,
		.root_id = d->page->root_id, .group = d->group.kind };
}

static struct launch *
launch_create(struct event_base *base, const struct launch_handler *handler, void *arg)
{
	struct launch *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->base = base;
	l->handler = *handler;
	l->arg = arg;
	l->launcher.pidfd = l->init.pidfd = l->runtime_fd = -1;
	l->socket_fd = l->status_fd = l->listener_number = -1;
	return l;
}

/* What a program is to the one who follows it. */
static void
take_program(struct launch *l, const struct chamber *c)
{
	l->runtime_is_init = !c->init;
	l->recurs = c->init;
	l->learn = c->learn;
	l->evidence.cpu_limit_us = launch_limits_cpu_us(c);
}

static int
watch(struct launch *l, struct event **ev, int fd, event_callback_fn fn)
{
	*ev = event_new(l->base, fd, EV_READ | EV_PERSIST, fn, l);
	return *ev == NULL || event_add(*ev, NULL) < 0 ? -ENOMEM : 0;
}

/* Starts the launcher with those descriptors, and follows it. */
static int
bear(struct launch *l, int plan_fd, const int *fds, size_t nfds)
{
	cleanup_fd int theirs = -1;
	int pair[2], ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	l->socket_fd = pair[0];
	theirs = pair[1];
	ret = watch(l, &l->on_socket, l->socket_fd, launch_on_socket);
	if (ret < 0)
		return ret;
	l->launcher.pidfd = launch_spawn(theirs, plan_fd, fds, nfds);
	if (l->launcher.pidfd < 0)
		return l->launcher.pidfd;
	ret = watch(l, &l->on_launcher, l->launcher.pidfd, launch_on_launcher);
	if (ret < 0)
		launch_end_now(l); /* unwatched, it must not outlive this call */
	return ret;
}

/* The program's descriptors, and init's pipe in `*ret_status`, of which the launch keeps the
 * other end; the number of all in `fds`, or a negative errno. */
static int
program_fds(struct launch *l, const struct chamber *c, int null_fd, int *fds, int *ret_status)
{
	size_t n = launch_spawn_fds(c->fds, c->nfds, null_fd, fds);
	int pair[2];

	if (n == 0)
		return -EINVAL;
	if (!c->init)
		return (int)n;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	l->status_fd = pair[0];
	*ret_status = fds[n++] = pair[1];
	return (int)n;
}

/* ---- wanted now ---- */

static int
start_launcher(struct launch *l, struct draft *d)
{
	cleanup_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), status = -1;
	int fds[LAUNCH_FDS_MAX], n;

	if (null_fd < 0)
		return -errno;
	n = program_fds(l, d->chamber, null_fd, fds, &status);
	if (n < 0)
		return n;
	memcpy(fds + n, d->ground_fds, d->nground * sizeof(*fds));
	return bear(l, d->plan_fd, fds, (size_t)n + d->nground);
}

/* The launch is the page's owner from here on, as of the root to come. */
static void
take_draft(struct launch *l, struct draft *d)
{
	l->kind = draft_kind(d);
	l->page = d->page;
	l->page_size = d->page_size;
	l->root = d->root;
	d->page = NULL;
	d->root = NULL;
}

static int
start_cold(struct launch *l, struct draft *d, enum layer *ret_layer)
{
	struct cgroup_entry entry;
	int r;

	*ret_layer = LAYER_CGROUP;
	r = cgroup_make(d->group.host, l->base, d->group.kind, &l->cgroup);
	if (r == 0)
		r = cgroup_limit(l->cgroup, &d->group.limits);
	if (r < 0)
		return r;
	entry = cgroup_entry(l->cgroup);
	/* One that was made for who stands by is as good, if no group has to be entered. */
	if (d->page == NULL || l->cgroup != NULL)
		r = draft_plan(d, &entry, ret_layer);
	if (r == 0)
		r = launch_layers_own(d->chamber, &l->layers, ret_layer);
	if (r < 0)
		return r;
	*ret_layer = LAYER_HANDSHAKE;
	take_program(l, d->chamber);
	take_draft(l, d);
	return start_launcher(l, d);
}

/* ---- stood by ---- */

int
launch_stand(struct event_base *base, const struct launch_kind *kind,
    const struct launch_handler *handler, void *arg, struct launch **ret)
{
	struct launch *l = launch_create(base, handler, arg);
	int ground[GROUND_FDS_MAX], r;
	struct cgroup_entry entry;
	cleanup_fd int plan_fd = -1;
	unsigned n = 0;

	*ret = NULL;
	if (l == NULL)
		return -ENOMEM;
	l->kind = *kind;
	l->stood_by = true;
	r = kind->group != 0 && cgroup_host() == NULL
		? -ENOMEM
		: cgroup_make(cgroup_host(), base, kind->group, &l->cgroup);
	if (r == 0) {
		entry = cgroup_entry(l->cgroup);
		plan_fd = launch_plan_stand(kind->flags, &entry, &l->page, &l->page_size);
		r = plan_fd < 0 ? plan_fd : 0;
	}
	if (r == 0 && (n = ground_again(l->page, kind->root_id, ground)) == 0)
		r = -ENOENT;
	if (r == 0)
		r = bear(l, plan_fd, ground, n);
	if (r < 0) {
		launch_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

/* One message; whether it is read, the launcher's end tells. */
static int
send_order(const struct launch *l, int plan_fd, const int *fds, size_t n)
{
	union {
		char buf[CMSG_SPACE((LAUNCH_FDS_MAX + 1) * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (char[]){ 0 }, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = CMSG_SPACE((n + 1) * sizeof(int)) };
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((n + 1) * sizeof(int));
	memcpy(CMSG_DATA(c), &plan_fd, sizeof(int));
	memcpy(CMSG_DATA(c) + sizeof(int), fds, n * sizeof(int));
	return sendmsg(l->socket_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

/* Everything but the last word. */
static int
give_order(struct launch *l, struct draft *d, enum layer *ret_layer)
{
	cleanup_fd int null_fd = -1, status = -1;
	int fds[LAUNCH_FDS_MAX], n;

	n = launch_layers_own(d->chamber, &l->layers, ret_layer);
	if (n == 0) {
		*ret_layer = LAYER_CGROUP;
		n = cgroup_limit(l->cgroup, &d->group.limits);
	}
	if (n < 0)
		return n;
	*ret_layer = LAYER_HANDSHAKE;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return -errno;
	n = program_fds(l, d->chamber, null_fd, fds, &status);
	return n < 0 ? n : send_order(l, d->plan_fd, fds, (size_t)n);
}

/* All in one message, with a tree for each private source. */
static bool
fits_order(const struct draft *d)
{
	return 2 + d->page->nfds + d->chamber->nmounts <= ORDER_FDS_MAX;
}

/* Pid 1 may be born, and known, already. */
static void
take_over(struct launch *l, const struct launch_handler *handler, void *arg,
    const struct chamber *c)
{
	standby_gave(l);
	l->ordered = true;
	l->handler = *handler;
	l->arg = arg;
	take_program(l, c);
	if (l->runtime_is_init)
		l->runtime_fd = l->init.pidfd;
}

/*
 * 1 if there was one, which has its order now; 0: there is none; or a negative errno.  One that
 * cannot be given it has died since, which is no failure of this launch's.
 */
static int
start_standing(struct draft *d, const struct launch_handler *handler, void *arg,
    struct launch **ret, enum layer *ret_layer)
{
	const struct cgroup_entry entry = { .bounds = d->group.bounds };
	struct launch_kind kind;
	struct launch *l;
	int r;

	if (d->chamber->cold || !standby_may_have(d->group.kind))
		return 0;
	r = draft_plan(d, &entry, ret_layer);
	if (r < 0)
		return r;
	kind = draft_kind(d);
	l = fits_order(d) ? standby_take(&kind) : NULL;
	if (l == NULL)
		return 0;
	r = give_order(l, d, ret_layer);
	if (r < 0) {
		launch_kill(l, ENDING_shutdown);
		return r == -EPIPE || r == -ECONNRESET ? 0 : r;
	}
	take_over(l, handler, arg, d->chamber);
	*ret = l;
	return 1;
}

int
launch_start(struct event_base *base, const struct chamber *c,
    const struct launch_handler *handler, void *arg, struct launch **ret,
    enum layer *ret_layer)
{
	struct draft d = { .chamber = c, .plan_fd = -1 };
	struct launch *l;
	int r;

	*ret_layer = LAYER_CGROUP;
	r = launch_limits_find(c, &d.group);
	if (r == 0)
		r = start_standing(&d, handler, arg, ret, ret_layer);
	if (r == 0) {
		*ret_layer = LAYER_HANDSHAKE;
		l = launch_create(base, handler, arg);
		r = l == NULL ? -ENOMEM : start_cold(l, &d, ret_layer);
		if (r == 0)
			*ret = l;
		else if (l != NULL)
			launch_free(l);
	}
	draft_drop(&d);
	if (r < 0)
		return r;
	*ret_layer = LAYER_NONE;
	return 0;
}
