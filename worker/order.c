#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/stop.h"
#include "worker/worker.h"

void
plan_read(int fd, struct plan *ret)
{
	struct stat st;
	void *copy;
	size_t n;

	if (fstat(fd, &st) < 0)
		die(LAYER_PLAN, errno);
	if (st.st_size < (off_t)sizeof(struct plan_header) || st.st_size > PLAN_MAX)
		die(LAYER_PLAN, EINVAL);
	n = (size_t)st.st_size;
	copy = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		die(LAYER_PLAN, errno);
	errno = EINVAL;
	if (pread(fd, copy, n, 0) != (ssize_t)n)
		die(LAYER_PLAN, errno);
	if (plan_check(copy, n, ret) < 0 || ret->h->nsteps > STEPS_MAX)
		die(LAYER_PLAN, EINVAL);
}

void
order_note(const struct plan *p)
{
	if (p->h->flags & PLAN_ROOT)
		layer_applied(LAYER_UID, 1);
	else
		layer_absent(p, LAYER_UID, EPERM);
}

/*
 * Scripts write to /dev/stdout and /dev/fd/N, which opens the pipe anew and asks for its
 * mode.  The pipe is the program's to use already; this lets it do so by name.
 */
void
order_own(const struct order *o)
{
	const struct plan_header *h = o->plan.h;
	struct stat st;

	order_note(&o->plan);
	if ((h->flags & PLAN_ROOT) == 0)
		return;
	for (int i = 0; i < 3; i++)
		if (fstat(o->fds[i], &st) < 0 ||
		    (S_ISFIFO(st.st_mode) && fchown(o->fds[i], h->uid, h->gid) < 0))
			die(LAYER_DESCRIPTORS, errno);
}

/* ---- the message: one byte, and descriptors in this order: plan, program's, init's, trees ---- */

struct message {
	union {
		char buf[CMSG_SPACE(ORDER_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov;
	struct msghdr msg;
};

static void
message_init(struct message *m, size_t nfds)
{
	memset(&m->msg, 0, sizeof(m->msg));
	m->byte = 0;
	m->iov = (struct iovec){ &m->byte, 1 };
	m->msg.msg_iov = &m->iov;
	m->msg.msg_iovlen = 1;
	m->msg.msg_control = m->control.buf;
	m->msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
}

static bool
has_tree(const struct plan_step *s)
{
	return s->op == PLAN_BIND && s->access & PLAN_PRIVATE;
}

unsigned
order_trees(const struct plan *p)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < p->h->nsteps; i++)
		n += has_tree(&p->steps[i]);
	return n;
}

/* How many came; 0: end-of-file. */
static size_t
message_receive(struct message *m, int socket_fd, int *fds)
{
	struct cmsghdr *c;
	ssize_t n;
	size_t bytes;

	message_init(m, ORDER_FDS_MAX);
	n = recvmsg(socket_fd, &m->msg, MSG_CMSG_CLOEXEC);
	if (n < 0 && errno != ECONNRESET)
		die(LAYER_HANDSHAKE, errno);
	if (n <= 0)
		return 0;
	c = CMSG_FIRSTHDR(&m->msg);
	if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    m->msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		die(LAYER_DESCRIPTORS, m->msg.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO);
	bytes = c->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(c), bytes);
	return bytes / sizeof(int);
}

bool
order_receive(int socket_fd, bool with_trees, struct order *ret)
{
	static struct message m;
	static int fds[ORDER_FDS_MAX];
	size_t n = message_receive(&m, socket_fd, fds), at = 1, wanted;
	const struct plan *p = &ret->plan;

	if (n == 0)
		return false;
	plan_read(fds[0], &ret->plan);
	STOP_SET(plan_string(p, p->h->stop));
	wanted = 1 + p->h->nfds + !!(p->h->flags & PLAN_INIT);
	if (with_trees)
		wanted += order_trees(p);
	if (n != wanted || p->h->flags & PLAN_STAND || groups_are_there(p))
		die(LAYER_PLAN, EINVAL);
	memset(ret->trees, -1, sizeof(ret->trees));
	for (uint32_t i = 0; i < p->h->nfds; i++)
		ret->fds[i] = fds[at++];
	ret->status_fd = p->h->flags & PLAN_INIT ? fds[at++] : -1;
	for (uint32_t i = 0; with_trees && i < p->h->nsteps; i++)
		if (has_tree(&p->steps[i]))
			ret->trees[i] = fds[at++];
	ret->plan_fd = fds[0];
	return true;
}

void
order_pass(const struct order *o, int socket_fd)
{
	const struct plan *p = &o->plan;
	static struct message m;
	static int fds[ORDER_FDS_MAX];
	struct cmsghdr *c;
	size_t n = 0;

	if (1 + p->h->nfds + 1 + order_trees(p) > ORDER_FDS_MAX)
		die(LAYER_PLAN, E2BIG);
	fds[n++] = o->plan_fd;
	for (uint32_t i = 0; i < p->h->nfds; i++)
		fds[n++] = o->fds[i];
	if (o->status_fd >= 0)
		fds[n++] = o->status_fd;
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (has_tree(&p->steps[i]))
			fds[n++] = o->trees[i];
	message_init(&m, n);
	c = CMSG_FIRSTHDR(&m.msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	/* If it is gone, the supervisor sees its end. */
	if (sendmsg(socket_fd, &m.msg, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		die(LAYER_DESCRIPTORS, errno);
}
