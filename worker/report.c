#include "worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int report_fd = -1;
static int16_t layers[LAYER_MAX]; /* children go on with their parent's */

void
report_init(int fd)
{
	report_fd = fd;
}

/* Plain write() where no descriptor goes along: it is all that the filter must allow. */
static ssize_t
report_send(const struct launch_report *r, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)r, .iov_len = sizeof(*r) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (fd < 0)
		return write(report_fd, r, sizeof(*r));
	memset(&control, 0, sizeof(control));
	msg.msg_control = control.buf;
	msg.msg_controllen = sizeof(control.buf);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(report_fd, &msg, MSG_NOSIGNAL);
}

void
report(enum launch_stage stage, int value, int fd)
{
	struct launch_report r = { .stage = stage, .value = value };

	memcpy(r.layers, layers, sizeof(layers));
	if (report_send(&r, fd) != (ssize_t)sizeof(r))
		die(LAYER_DESCRIPTORS, errno); /* ETOOMANYREFS; else nobody listens */
}

void
die(enum layer layer, int error)
{
	struct launch_report r = { .stage = STAGE_ERROR, .layer = layer, .error = error };

	report_send(&r, -1);
	_exit(1);
}

void
layer_applied(enum layer layer, int value)
{
	layers[layer] = (int16_t)value;
}

void
layer_absent(const struct plan *p, enum layer layer, int error)
{
	if ((p->h->optional & 1u << layer) == 0)
		die(layer, error);
	layers[layer] = (int16_t)-error;
}

void
layers_recheck(const struct plan *p)
{
	for (uint32_t i = 0; i < LAYER_MAX; i++)
		if (layers[i] < 0)
			layer_absent(p, i, -layers[i]);
}

int
report_is_hung_up(void)
{
	struct pollfd p = { .fd = report_fd };

	return poll(&p, 1, 0) != 0;
}
