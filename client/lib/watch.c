#include <poll.h>

#include <event2/event.h>

#include "client/lib/session.h"

void
session_unwatch(struct caisson_session *s)
{
	if (s->readable != NULL)
		event_free(s->readable);
	if (s->writable != NULL)
		event_free(s->writable);
	s->readable = s->writable = NULL;
	if (s->gone != NULL)
		*s->gone = true;
}

static void
on_ready(evutil_socket_t fd, short events, void *arg)
{
	struct caisson_session *s = arg;
	struct caisson_error error = { .code = "" };
	struct caisson_event event;
	bool gone = false;
	int r = 0;

	(void)fd;
	(void)events;
	s->gone = &gone;
	/* What came before the end is told before it. */
	caisson_session_step(s, &error);
	while (!gone && (r = caisson_session_next(s, &event, &error)) > 0)
		s->fn(s, r == 1 ? &event : NULL, r == 1 ? NULL : &error, false, s->arg);
	if (gone)
		return;
	s->gone = NULL;
	if (r < 0) {
		event_del(s->readable);
		event_del(s->writable);
		s->fn(s, NULL, &error, true, s->arg);
	} else if (caisson_session_poll(s) & POLLOUT) {
		event_add(s->writable, NULL);
	}
}

int
caisson_session_watch(struct caisson_session *s, struct event_base *base, caisson_session_fn *fn,
    void *arg, struct caisson_error *error)
{
	if (s->readable != NULL)
		return error_set(error, "usage", "the session is watched already");
	s->fn = fn;
	s->arg = arg;
	s->readable = event_new(base, caisson_session_fd(s), EV_READ | EV_PERSIST, on_ready, s);
	s->writable = event_new(base, caisson_session_fd(s), EV_WRITE, on_ready, s);
	if (s->readable == NULL || s->writable == NULL || event_add(s->readable, NULL) < 0) {
		session_unwatch(s);
		return error_set(error, "usage", "out of memory");
	}
	/* What was sent before may wait to go, and what came to be told. */
	event_active(s->readable, EV_READ, 0);
	return 0;
}
