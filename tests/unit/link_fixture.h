/*
 * link_fixture: a link of the broker's, and its peer, a plain descriptor: what that does is bytes.
 */
#ifndef TESTS_UNIT_LINK_FIXTURE_H
#define TESTS_UNIT_LINK_FIXTURE_H

#include <check.h>
#include <fcntl.h>

#include <event2/event.h>

#include "common/link.h"
#include "common/util.h"

#define TURNS_MAX 200000 /* a test that needs more hangs */

/* The broker's end of a link to a worker, and the bare other end. */
struct host {
	struct event_base *base;
	struct link *link;
	int peer;
	unsigned messages, ended, drained, depth;
	enum msg_type last;
	uint32_t last_msgid;
	uint64_t sum; /* of the bytes of output.write */
	enum link_end end;
	char rule[64];
	int error;
	void (*then)(struct host *h, const struct message *m);
	struct host *other;
};

static inline void
on_message(struct link *l, const struct message *m, void *arg)
{
	struct host *h = arg;
	size_t i;

	ck_assert_ptr_eq(l, h->link);
	ck_assert_uint_eq(h->ended, 0);
	ck_assert_uint_eq(h->depth++, 0);
	h->messages++;
	h->last = m->type;
	h->last_msgid = m->msgid;
	if (m->type == MSG_output_write)
		for (i = 0; i < m->u.output_write.data.n; i++)
			h->sum += m->u.output_write.data.p[i];
	if (h->then != NULL)
		h->then(h, m);
	h->depth--;
}

static inline void
on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct host *h = arg;

	ck_assert_ptr_eq(h->link, l);
	ck_assert_int_eq(fault != NULL, end == LINK_END_FAULT);
	h->ended++;
	h->end = end;
	h->error = error;
	if (fault != NULL)
		snprintf(h->rule, sizeof h->rule, "%s", fault->rule);
	/* Nothing may bring it back. */
	link_close(l);
	link_resume(l);
	link_watch(l, 0);
	ck_assert_int_eq(link_notify(l, MSG_operation_drain, NULL), -EPIPE);
	h->link = NULL;
}

static inline void
on_drained(struct link *l, void *arg)
{
	(void)l;
	((struct host *)arg)->drained++;
}

static const struct link_handler handler = {
	.on_message = on_message,
	.on_end = on_end,
	.on_drained = on_drained,
};

static inline void
open_on(struct host *h, struct event_base *base, enum role self, enum role peer)
{
	int fds[2];

	*h = (struct host) { .base = base };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	h->peer = fds[1];
	h->link = link_open(base, fds[0], self, peer, &handler, h);
	ck_assert_ptr_nonnull(h->link);
}

static inline void
host_open(struct host *h)
{
	open_on(h, event_base_new(), ROLE_BROKER, ROLE_WORKER);
}

static inline void
host_open_ready(struct host *h)
{
	host_open(h);
	link_set_state(h->link, LINK_READY);
}

/* One turn of the loop; waits for nothing. */
static inline void
turn(struct host *h)
{
	event_base_loop(h->base, EVLOOP_NONBLOCK);
}

static inline void
turn_until(struct host *h, const unsigned *counter, unsigned value)
{
	unsigned turns = 0;

	while (*counter < value) {
		ck_assert_uint_lt(turns++, TURNS_MAX);
		event_base_loop(h->base, EVLOOP_ONCE);
	}
	ck_assert_uint_eq(*counter, value);
}

static inline void
host_finish(struct host *h)
{
	if (h->link != NULL) {
		link_close(h->link);
		turn_until(h, &h->ended, 1);
	}
	ck_assert_uint_eq(h->ended, 1);
	if (h->peer >= 0)
		close(h->peer);
	event_base_free(h->base);
}

static inline void
peer_write(struct host *h, const void *p, size_t n)
{
	ck_assert_int_eq(write(h->peer, p, n), (ssize_t)n);
}

/* Reads all that is there. */
static inline size_t
peer_read(struct host *h, struct buf *b)
{
	uint8_t bytes[65536];
	size_t total = 0;
	ssize_t n;

	while ((n = read(h->peer, bytes, sizeof bytes)) > 0) {
		if (b != NULL)
			buf_add(b, bytes, (size_t)n);
		total += (size_t)n;
	}
	return total;
}

static inline void
add_output(struct buf *b, const void *p, size_t n)
{
	struct msg_output_write m = { .operation = slice_of("op"), .data = { p, n } };

	ck_assert_int_eq(protocol_notify(b, MSG_output_write, &m), 0);
}

static inline void
add_outputs(struct buf *b, unsigned n)
{
	while (n-- > 0)
		add_output(b, "\x01", 1);
}

static inline int
drain(struct link *l)
{
	struct msg_operation_drain m = { .operation = slice_of("op"), .graceMs = 5 };

	return link_notify(l, MSG_operation_drain, &m);
}

/* ---- the end ----------------------------------------------------------------------------- */

static inline void
fill_queue(struct host *h, size_t bytes)
{
	while (link_queued(h->link) < bytes)
		ck_assert_int_eq(drain(h->link), 0);
	turn(h);
	ck_assert_uint_gt(link_queued(h->link), 0);
}

/* ---- flow -------------------------------------------------------------------------------- */

static unsigned writes;

static inline ssize_t
counting_write(int fd, const void *p, size_t n)
{
	writes++;
	return send(fd, p, n, MSG_NOSIGNAL);
}

#endif /* TESTS_UNIT_LINK_FIXTURE_H */
