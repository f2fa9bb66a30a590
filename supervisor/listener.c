#include "supervisor/listener.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "supervisor/learn.h"

struct listener {
	int fd;
	struct event *event;
	struct learn *learn; /* NULL: nothing is answered */
	listener_call_fn *on_call;
	void *arg;
};

/* A caller that is gone by now, or that a signal took out of its call, is no news. */
static bool
listener_answer(struct listener *l, const struct seccomp_notif *n)
{
	struct seccomp_notif_resp answer = { .id = n->id };

	if (l->learn == NULL ||
	    !learn_answer(l->learn, (uint32_t)n->data.nr, n->data.arch, &answer.flags,
		&answer.error))
		return false;
	ioctl(l->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return true;
}

/*
 * NOTIF_RECV waits where there is nothing, so it is asked only after poll said that there is;
 * between the two the target may have gone, which the kernel says with ENOENT.
 */
static void
listener_on_readable(evutil_socket_t fd, short events, void *arg)
{
	struct listener *l = arg;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct seccomp_notif n;

	(void)events;
	if (poll(&p, 1, 0) < 0)
		return;
	if ((p.revents & POLLIN) == 0) {
		if (p.revents != 0)
			event_del(l->event); /* nobody is left under the filter */
		return;
	}
	memset(&n, 0, sizeof(n));
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return; /* ENOENT, EINTR: it is gone, or comes again */
	if (!listener_answer(l, &n))
		l->on_call((uint32_t)n.data.nr, n.data.arch, l->arg);
}

int
listener_fetch(int pidfd, int number)
{
	int fd = pidfd_getfd(pidfd, number, 0);

	return fd < 0 ? -errno : fd;
}

int
listener_open(struct event_base *base, int fd, struct learn *learn, listener_call_fn *on_call,
    void *arg, struct listener **ret)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		close(fd);
		return -ENOMEM;
	}
	l->fd = fd;
	l->learn = learn;
	l->on_call = on_call;
	l->arg = arg;
	l->event = event_new(base, fd, EV_READ | EV_PERSIST, listener_on_readable, l);
	if (l->event == NULL || event_add(l->event, NULL) < 0) {
		listener_close(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void
listener_close(struct listener *l)
{
	if (l == NULL)
		return;
	if (l->event != NULL)
		event_free(l->event);
	close(l->fd);
	free(l);
}
