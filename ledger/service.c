#include "ledger/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/control.h"
#include "common/link.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "ledger/keeper.h"
#include "ledger/verify.h"

#define SLICE_MAX    4096 /* records a loop turn: the heartbeat is answered between them */
#define VERIFY_SLICE 1024 /* the same; each is also compared with its row */
#define FOLLOW_MS    200  /* between two looks at a journal at rest */
#define HEAD_MS	     1000 /* between moves of the head: its syncs compete with the broker's */

struct peer {
	TAILQ_ENTRY(peer) entry; /* service.peers */
	struct service *service;
	struct link *link;
	struct verify *verify; /* the one that runs for it, or NULL */
	uint32_t verify_msgid;
};

struct service {
	struct event_base *base;
	struct ledger *ledger;
	struct keeper *keeper; /* NULL: read-only */
	struct link *broker; /* the last that came; NULL: none */
	int control_fd; /* -1: read-only */
	struct event *on_control;
	struct event *tick;
	struct event *verify;
	TAILQ_HEAD(, peer) peers;
	uint64_t head_at_ms; /* when the head may move again */
	bool failed;	     /* nothing more is read: logged */
};

/* ---- following the journal ---------------------------------------------------------- */

static void
resume_all(struct service *s)
{
	struct peer *p;

	TAILQ_FOREACH(p, &s->peers, entry)
	link_resume(p->link);
}

static void
move_head(struct service *s)
{
	int ret;

	STOP_POINT("ledger.before_head");
	ret = ledger_move_head(s->ledger);
	STOP_POINT("ledger.after_head");

	if (ret < 0)
		log_error("cannot move the head: %s", strerror(-ret));
}

/* A new process may do better; for a single question, the answer is that there is none. */
static void
give_up(struct service *s)
{
	s->failed = true;
	if (s->ledger->readonly)
		return;
	log_error("cannot follow the journal: %s", ledger_problem(s->ledger));
	event_base_loopbreak(s->base);
}

/* One slice.  Returns true if there may be more. */
static bool
follow(struct service *s)
{
	uint64_t before = s->ledger->reader.at.count;
	bool was_caught_up = s->ledger->caught_up;
	int ret;

	if (s->failed)
		return false;
	STOP_POINT("ledger.before_index");
	ret = ledger_follow(s->ledger, SLICE_MAX);
	STOP_POINT("ledger.after_index");
	if (ret < 0) {
		give_up(s);
		return false;
	}
	if (ret == 0 && !was_caught_up)
		resume_all(s);
	if (ret == 0 && before == s->ledger->reader.at.count)
		ledger_settle(s->ledger);
	return ret > 0;
}

static void
follow_to_end(struct service *s)
{
	while (follow(s))
		;
}

static void
service_on_tick(evutil_socket_t fd, short events, void *arg)
{
	struct service *s = arg;
	struct timeval again = { .tv_usec = FOLLOW_MS * 1000 };
	uint64_t now = clock_ms();

	(void)fd;
	(void)events;
	if (follow(s)) {
		again.tv_usec = 0;
	} else if (now >= s->head_at_ms) {
		move_head(s);
		s->head_at_ms = now + HEAD_MS;
	}
	event_add(s->tick, &again);
}

/* ---- requests ----------------------------------------------------------------------- */

static void
handle_state_load(struct peer *p, const struct message *m)
{
	struct msg_state_load_reply reply;
	struct index_state lists;
	struct buf bytes = { 0 };
	const char *why;
	int ret;

	memset(&lists, 0, sizeof(lists));
	STOP_POINT("ledger.state_asked");
	if (m->u.state_load.cursor == 0) {
		follow_to_end(p->service);
		keeper_on_begin(p->service->keeper,
		    m->u.state_load.has_bodies && m->u.state_load.bodies);
	}
	ret = ledger_state(
	    p->service->ledger, m->u.state_load.cursor, &reply, &lists, &bytes, &why);
	if (ret < 0)
		link_refuse(p->link, m->msgid, "failed_precondition", why, false);
	else
		link_reply(p->link, MSG_state_load_reply, m->msgid, &reply);
	if (ret == -EUCLEAN)
		give_up(p->service);
	STOP_POINT("ledger.state_given");
	index_state_finish(&lists);
	buf_finish(&bytes);
}

static void
handle_audit_read(struct peer *p, const struct message *m)
{
	struct msg_audit_read_reply reply = { 0 };
	struct buf bytes = { 0 };
	const char *why;

	if (m->u.audit_read.cursor == 0)
		follow_to_end(p->service);
	reply.problem = slice_of(ledger_problem(p->service->ledger));
	reply.has_problem = reply.problem.n > 0;
	if (m->u.audit_read.limit == 0)
		link_refuse(p->link, m->msgid, "invalid_argument", "limit is 0", false);
	else if (p->service->failed)
		link_refuse(p->link, m->msgid, "internal", ledger_problem(p->service->ledger),
		    false);
	else if (ledger_read(p->service->ledger, &m->u.audit_read, &reply, &bytes, &why) < 0)
		link_refuse(p->link, m->msgid, "internal", why, false);
	else
		link_reply(p->link, MSG_audit_read_reply, m->msgid, &reply);
	buf_finish(&bytes);
}

static void
handle_audit_verify(struct peer *p, const struct message *m)
{
	struct ledger *l = p->service->ledger;
	int ret;

	if (p->verify) {
		link_refuse(p->link, m->msgid, "failed_precondition", "one at a time", true);
		return;
	}
	if (!l->readonly)
		follow_to_end(p->service);
	p->verify = calloc(1, sizeof(*p->verify));
	p->verify_msgid = m->msgid;
	ret = p->verify ? verify_start(p->verify, l->journal_fd, l->index_fd,
			      l->readonly ? NULL : l->index,
			      m->u.audit_verify.has_expect ? m->u.audit_verify.expect.p : NULL)
			: -ENOMEM;
	if (ret < 0) {
		link_refuse(p->link, m->msgid, "internal", strerror(-ret), false);
		free(p->verify);
		p->verify = NULL;
		return;
	}
	event_active(p->service->verify, EV_TIMEOUT, 1);
}

static void
verify_over(struct peer *p, int error)
{
	struct verify *v = p->verify;
	struct msg_audit_verify_reply reply = {
		.valid = v->valid,
		.count = v->reader.at.count,
		.segments = v->reader.at.segment,
		.torn = v->reader.torn_before + v->reader.torn,
		.hash = { v->reader.at.hash, JOURNAL_HASH },
		.has_problem = verify_text(v)[0] != '\0',
		.problem = slice_of(verify_text(v)),
	};

	if (error < 0)
		link_refuse(p->link, p->verify_msgid, "internal",
		    v->reader.problem[0] != '\0' ? v->reader.problem : strerror(-error), false);
	else
		link_reply(p->link, MSG_audit_verify_reply, p->verify_msgid, &reply);
	verify_finish(v);
	free(v);
	p->verify = NULL;
}

static void
service_on_verify(evutil_socket_t fd, short events, void *arg)
{
	struct service *s = arg;
	struct timeval now = { 0 };
	struct peer *p;
	bool more = false;
	int ret;

	(void)fd;
	(void)events;
	TAILQ_FOREACH(p, &s->peers, entry)
	{
		if (!p->verify)
			continue;
		ret = verify_step(p->verify, VERIFY_SLICE);
		if (ret != 0)
			verify_over(p, ret);
		else
			more = true;
	}
	if (more)
		event_add(s->verify, &now);
}

static void
handle_body(struct peer *p, const struct message *m)
{
	keeper_handle(p->service->keeper, p->link, m);
}

static const struct {
	enum msg_type type;
	void (*handle)(struct peer *p, const struct message *m);
} handlers[] = {
	{ MSG_state_load, handle_state_load },
	{ MSG_audit_read, handle_audit_read },
	{ MSG_audit_verify, handle_audit_verify },
	{ MSG_body_bounds, handle_body },
	{ MSG_body_keep, handle_body },
	{ MSG_body_drop, handle_body },
	{ MSG_body_read, handle_body },
};

static void
peer_on_message(struct link *link, const struct message *m, void *arg)
{
	struct peer *p = arg;
	size_t i;

	for (i = 0; i < countof(handlers); i++)
		if (handlers[i].type == m->type)
			handlers[i].handle(p, m);
	(void)link;
}

static void
peer_on_end(
    struct link *link, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct peer *p = arg;
	struct service *s = p->service;

	(void)link;
	if (end == LINK_END_FAULT)
		log_warn("a peer broke the protocol: %s", fault->rule);
	else if (end == LINK_END_ERROR)
		log_warn("a link failed: %s", strerror(error));
	TAILQ_REMOVE(&s->peers, p, entry);
	if (p->link == s->broker) {
		s->broker = NULL;
		keeper_set_link(s->keeper, NULL);
	}
	if (p->verify) {
		verify_finish(p->verify);
		free(p->verify);
	}
	free(p);
	if (s->control_fd < 0)
		event_base_loopbreak(s->base);
}

static const struct link_handler peer_handler = {
	.on_message = peer_on_message,
	.on_end = peer_on_end,
};

/* What is still to be read of the one before was never told to be kept. */
static void
broker_set(struct service *s, struct link *l)
{
	link_close(s->broker);
	s->broker = l;
	keeper_set_link(s->keeper, l);
}

/* Takes `fd`. */
static int
peer_add(struct service *s, int fd, enum role role)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	p->service = s;
	p->link = link_open(s->base, fd, ROLE_LEDGER, role, &peer_handler, p);
	if (!p->link) {
		free(p);
		return -errno;
	}
	/* The broker was given to us by the supervisor, and says no hello. */
	if (role == ROLE_BROKER) {
		link_set_state(p->link, LINK_READY);
		broker_set(s, p->link);
	}
	TAILQ_INSERT_TAIL(&s->peers, p, entry);
	/* Nobody is answered before the record has been read to its end once; a read-only
	 * ledger reads it when a question needs the index. */
	if (!s->ledger->caught_up && !s->ledger->readonly)
		link_pause(p->link);
	return 0;
}

/* ---- the supervisor ----------------------------------------------------------------- */

static void
end(struct service *s)
{
	follow_to_end(s);
	move_head(s);
	ledger_settle(s->ledger);
	event_base_loopbreak(s->base);
}

static void
handle_control(struct service *s, const struct control *c, int fds[CONTROL_FDS_MAX])
{
	struct control pong = { .verb = CONTROL_PONG };
	int ret;

	switch (c->verb) {
	case CONTROL_CLIENT:
		if (fds[0] < 0)
			break;
		ret = peer_add(s, steal_fd(&fds[0]),
		    c->flags & CONTROL_FROM_BROKER ? ROLE_BROKER : ROLE_CLIENT);
		if (ret < 0)
			log_error("cannot serve a link: %s", strerror(-ret));
		break;
	case CONTROL_PING:
		ret = control_send(s->control_fd, &pong, NULL, 0);
		if (ret < 0)
			log_error("cannot answer the supervisor: %s", strerror(-ret));
		break;
	case CONTROL_SHUTDOWN: end(s); break;
	default: log_warn("the supervisor said something unknown: %u", c->verb);
	}
}

static void
service_on_control(evutil_socket_t fd, short events, void *arg)
{
	struct service *s = arg;
	int fds[CONTROL_FDS_MAX];
	struct control c;
	unsigned nfds, i;
	int ret;

	(void)events;
	while ((ret = control_recv(fd, &c, fds, &nfds)) > 0) {
		handle_control(s, &c, fds);
		for (i = 0; i < CONTROL_FDS_MAX; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
	if (ret == -EAGAIN)
		return;
	/* End-of-file: the supervisor is gone.  What the broker still writes is not lost. */
	if (ret < 0)
		log_error("the control link failed: %s", strerror(-ret));
	event_del(s->on_control);
	end(s);
}

struct service *
service_create(struct event_base *base, struct ledger *l, int control_fd)
{
	struct service *s = calloc(1, sizeof(*s));
	struct timeval now = { 0 };
	int ret = 0;

	if (!s)
		return NULL;
	s->base = base;
	s->ledger = l;
	s->control_fd = l->readonly ? -1 : control_fd;
	TAILQ_INIT(&s->peers);
	s->tick = evtimer_new(base, service_on_tick, s);
	s->verify = evtimer_new(base, service_on_verify, s);
	if (!l->readonly)
		s->keeper = keeper_create(base, l->index_fd);
	if (!s->tick || !s->verify || (!l->readonly && !s->keeper) ||
	    (!l->readonly && event_add(s->tick, &now) < 0))
		ret = -ENOMEM;
	if (ret == 0 && l->readonly)
		ret = peer_add(s, control_fd, ROLE_CLIENT);
	if (ret == 0 && !l->readonly) {
		s->on_control =
		    event_new(base, control_fd, EV_READ | EV_PERSIST, service_on_control, s);
		if (evutil_make_socket_nonblocking(control_fd) < 0 || !s->on_control ||
		    event_add(s->on_control, NULL) < 0)
			ret = -ENOMEM;
	}
	if (ret < 0) {
		service_destroy(s);
		errno = -ret;
		return NULL;
	}
	return s;
}

void
service_destroy(struct service *s)
{
	struct peer *p;

	if (!s)
		return;
	/* Links end on the loop: once round it, so that they are released. */
	TAILQ_FOREACH(p, &s->peers, entry)
	link_close(p->link);
	event_free(s->tick);
	event_free(s->verify);
	if (s->on_control)
		event_free(s->on_control);
	if (!TAILQ_EMPTY(&s->peers))
		event_base_loop(s->base, EVLOOP_NONBLOCK);
	keeper_destroy(s->keeper);
	free(s);
}
