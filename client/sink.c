#include "client/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

enum sink_way {
	SINK_OWN,    /* a description of our own, non-blocking */
	SINK_SOCKET, /* MSG_DONTWAIT */
	SINK_FILE,   /* never waits for a reader */
	SINK_SMALL,  /* shared and blocking: only when ready, PIPE_BUF bytes at once */
};

struct sink {
	int fd; /* ours with SINK_OWN, else the caller's */
	enum sink_way way;
	struct event *writable;
	sink_fn *on_progress;
	void *arg;
	uint8_t *queue;
	size_t start, end, cap; /* queue[start, end) is to be written */
	int error;
};

static void
sink_choose_way(struct sink *s, int fd)
{
	char path[32];
	struct stat st;

	s->fd = fd;
	s->way = SINK_SMALL;
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISREG(st.st_mode))
		s->way = SINK_FILE;
	if (S_ISSOCK(st.st_mode))
		s->way = SINK_SOCKET;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0) {
		s->fd = fd;
		s->way = SINK_OWN;
	}
}

static void
sink_fail(struct sink *s, int error)
{
	s->error = error;
	free(s->queue);
	s->queue = NULL;
	s->start = s->end = s->cap = 0;
	event_del(s->writable);
}

/* Writes as much as goes without waiting.  Returns the bytes, or a negative errno. */
static ssize_t
sink_put(struct sink *s, const uint8_t *p, size_t n)
{
	ssize_t r;

	if (s->way == SINK_SMALL && n > PIPE_BUF)
		n = PIPE_BUF;
	r = s->way == SINK_SOCKET ? send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL)
				  : write(s->fd, p, n);
	if (r >= 0)
		return r;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static void
sink_on_writable(evutil_socket_t fd, short events, void *arg)
{
	struct sink *s = arg;
	ssize_t r = sink_put(s, s->queue + s->start, s->end - s->start);

	(void)fd;
	(void)events;
	if (r < 0)
		sink_fail(s, (int)-r);
	else
		s->start += (size_t)r;
	if (s->start == s->end) {
		s->start = s->end = 0;
		event_del(s->writable);
	}
	if (s->end - s->start <= SINK_LOW)
		s->on_progress(s, s->arg);
}

static int
sink_grow(struct sink *s, size_t n)
{
	size_t have = s->end - s->start, cap = s->cap;
	uint8_t *queue;

	if (n <= s->cap - s->end)
		return 0;
	if (s->start > 0)
		memmove(s->queue, s->queue + s->start, have);
	s->start = 0;
	s->end = have;
	while (cap - have < n)
		cap = cap == 0 ? 64 << 10 : cap * 2;
	if (cap == s->cap)
		return 0;
	queue = realloc(s->queue, cap);
	if (queue == NULL)
		return -ENOMEM;
	s->queue = queue;
	s->cap = cap;
	return 0;
}

void
sink_write(struct sink *s, const void *p, size_t n)
{
	const uint8_t *bytes = p;
	ssize_t r;

	if (s->error != 0)
		return;
	while (s->start == s->end && n > 0 && s->way != SINK_SMALL) {
		r = sink_put(s, bytes, n);
		if (r < 0) {
			sink_fail(s, (int)-r);
			return;
		}
		if (r == 0)
			break;
		bytes += r;
		n -= (size_t)r;
	}
	if (n == 0)
		return;
	if (sink_grow(s, n) < 0 || event_add(s->writable, NULL) < 0) {
		sink_fail(s, ENOMEM);
		return;
	}
	memcpy(s->queue + s->end, bytes, n);
	s->end += n;
}

size_t
sink_queued(const struct sink *s)
{
	return s->end - s->start;
}

int
sink_error(const struct sink *s)
{
	return s->error;
}

struct sink *
sink_create(struct event_base *base, int fd, sink_fn *on_progress, void *arg)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	sink_choose_way(s, fd);
	s->on_progress = on_progress;
	s->arg = arg;
	s->writable = event_new(base, s->fd, EV_WRITE | EV_PERSIST, sink_on_writable, s);
	if (s->writable == NULL) {
		sink_destroy(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void
sink_destroy(struct sink *s)
{
	if (s == NULL)
		return;
	if (s->writable != NULL)
		event_free(s->writable);
	if (s->way == SINK_OWN)
		close(s->fd);
	free(s->queue);
	free(s);
}
