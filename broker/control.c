#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker/client.h"
#include "broker/operation.h"
#include "broker/sandbox.h"
#include "broker/session.h"
#include "broker/shared.h"
#include "broker/state.h"
#include "common/log.h"
#include "common/util.h"

/* What waits while the supervisor is busy; more than this means that it is gone. */
#define CONTROL_QUEUE_MAX 4096

struct queued {
	struct control control;
	STAILQ_ENTRY(queued) link; /* control_link.queue */
};

struct control_link {
	struct broker *broker;
	int fd;
	struct event *readable, *writable;
	STAILQ_HEAD(, queued) queue;
	unsigned nqueued;
	bool lost; /* an order was: nothing that is told from here on is heard */
};

static void
handle_segment(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	if (n == 1)
		state_segment(b, steal_fd(&fds[0]), c->index, c->count);
	else
		state_no_segment(b, EMFILE);
}

static void
handle_ledger(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)c;
	if (n == 1) {
		state_ledger(b, steal_fd(&fds[0]));
		return;
	}
	log_error("cannot reach the ledger: too few descriptors: raise ulimit -n");
	b->control->lost = true; /* nothing would bring another: who comes next has room */
}

static void
handle_client(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	client_create(b, n == 1 ? steal_fd(&fds[0]) : -1, c);
}

static void
handle_started(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)fds;
	(void)n;
	session_on_started(b, c);
}

static void
handle_refused(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)fds;
	(void)n;
	session_on_refused(b, c);
}

static void
handle_exit(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)fds;
	(void)n;
	session_on_exit(b, c);
}

static void
handle_ping(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	struct control pong = { .verb = CONTROL_PONG, .count = c->count };

	(void)fds;
	(void)n;
	control_tell(b, &pong);
}

static void
handle_no_segment(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)fds;
	(void)n;
	state_no_segment(b, c->error);
}

static void
handle_processes(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	process_on_list(b, n == 1 ? steal_fd(&fds[0]) : -1, c->error);
}

static void
handle_config(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	reload_on_config(b, c, n == 1 ? steal_fd(&fds[0]) : -1);
}

/* Ends every open operation; sessions that are in their grace keep it. */
static void
broker_shutdown(struct broker *b, enum ending ending)
{
	struct session *s;

	if (b->shutting_down)
		return;
	b->shutting_down = true;
	sandboxes_end_rest(b);
	TAILQ_FOREACH (s, &b->sessions, link) {
		if (!s->operation->ended)
			operation_end(s->operation, ending);
		else if (s->operation->ending == ENDING_completed)
			session_close(s, 0);
	}
	broker_check_settled(b);
}

static void
handle_shutdown(struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)c;
	(void)fds;
	(void)n;
	broker_shutdown(b, ENDING_shutdown);
}

static void
handle_workspace(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	(void)fds;
	(void)n;
	sandbox_on_workspace(b, c);
}

static const struct {
	enum control_verb verb;
	void (*handle)(struct broker *, const struct control *, int[CONTROL_FDS_MAX], unsigned);
} handlers[] = {
	{ CONTROL_SEGMENT, handle_segment },
	{ CONTROL_LEDGER, handle_ledger },
	{ CONTROL_CLIENT, handle_client },
	{ CONTROL_LINK, session_on_link },
	{ CONTROL_STARTED, handle_started },
	{ CONTROL_REFUSED, handle_refused },
	{ CONTROL_EXIT, handle_exit },
	{ CONTROL_PING, handle_ping },
	{ CONTROL_SHUTDOWN, handle_shutdown },
	{ CONTROL_NO_SEGMENT, handle_no_segment },
	{ CONTROL_PROCESSES, handle_processes },
	{ CONTROL_CONFIG, handle_config },
	{ CONTROL_WORKSPACE_MADE, handle_workspace },
	{ CONTROL_WORKSPACE_GONE, handle_workspace },
	{ CONTROL_WORKSPACE_FOUND, handle_workspace },
};

static void
control_dispatch(
    struct broker *b, const struct control *c, int fds[CONTROL_FDS_MAX], unsigned n)
{
	size_t i;

	for (i = 0; i < countof(handlers); i++)
		if (handlers[i].verb == c->verb)
			break;
	if (i < countof(handlers))
		handlers[i].handle(b, c, fds, n);
	else
		log_warn("control: verb %u from the supervisor is not known here", c->verb);
	for (i = 0; i < CONTROL_FDS_MAX; i++)
		util_close(&fds[i]);
}

/* The supervisor is gone, or as good as: with it goes every child.  Settle, then end. */
static void
control_lost(struct broker *b)
{
	struct session *s;

	event_del(b->control->readable);
	broker_shutdown(b, ENDING_host_lost);
	TAILQ_FOREACH (s, &b->sessions, link)
		session_orphan(s);
	shared_orphan_all(b);
	sandboxes_orphan_all(b);
	broker_check_settled(b);
}

static void
control_on_readable(evutil_socket_t fd, short events, void *arg)
{
	struct broker *b = arg;
	struct control c;
	int fds[CONTROL_FDS_MAX];
	unsigned n;
	int r;

	(void)events;
	broker_tick(b);
	for (int i = 0; i < 64; i++) {
		if (b->control->lost) {
			control_lost(b);
			return;
		}
		r = control_recv(fd, &c, fds, &n);
		if (r == -EAGAIN)
			return;
		if (r <= 0) {
			if (r < 0)
				log_error("cannot read the control link: %s", strerror(-r));
			control_lost(b);
			return;
		}
		control_dispatch(b, &c, fds, n);
	}
}

static void
control_on_writable(evutil_socket_t fd, short events, void *arg)
{
	struct broker *b = arg;
	struct control_link *l = b->control;
	struct queued *q;

	(void)events;
	while ((q = STAILQ_FIRST(&l->queue)) != NULL) {
		if (control_send(fd, &q->control, NULL, 0) == -EAGAIN)
			return;
		STAILQ_REMOVE_HEAD(&l->queue, link);
		l->nqueued--;
		free(q);
	}
	event_del(l->writable);
}

int
control_open(struct broker *b, int fd)
{
	struct control_link *l = calloc(1, sizeof *l);

	if (l == NULL)
		return -ENOMEM;
	l->broker = b;
	l->fd = fd;
	STAILQ_INIT(&l->queue);
	l->readable = event_new(b->base, fd, EV_READ | EV_PERSIST, control_on_readable, b);
	l->writable = event_new(b->base, fd, EV_WRITE | EV_PERSIST, control_on_writable, b);
	b->control = l;
	if (l->readable == NULL || l->writable == NULL || event_add(l->readable, NULL) < 0)
		return -ENOMEM;
	return 0;
}

void
control_close(struct broker *b)
{
	struct control_link *l = b->control;
	struct queued *q;

	if (l == NULL)
		return;
	while ((q = STAILQ_FIRST(&l->queue)) != NULL) {
		STAILQ_REMOVE_HEAD(&l->queue, link);
		free(q);
	}
	if (l->readable != NULL)
		event_free(l->readable);
	if (l->writable != NULL)
		event_free(l->writable);
	util_close(&l->fd);
	free(l);
	b->control = NULL;
}

bool
control_is_lost(const struct broker *b)
{
	return b->control->lost;
}

void
control_tell(struct broker *b, const struct control *c)
{
	struct control_link *l = b->control;
	struct queued *q;

	if (STAILQ_EMPTY(&l->queue) && control_send(l->fd, c, NULL, 0) != -EAGAIN)
		return;
	if (l->lost)
		return;
	if (l->nqueued == CONTROL_QUEUE_MAX || (q = malloc(sizeof *q)) == NULL) {
		/* Whoever told it may not be ended from below itself: the loop does it. */
		log_error("the supervisor does not read, and verb %u is lost: the broker ends",
		    c->verb);
		l->lost = true;
		event_active(l->readable, EV_READ, 1);
		return;
	}
	q->control = *c;
	STAILQ_INSERT_TAIL(&l->queue, q, link);
	l->nqueued++;
	event_add(l->writable, NULL);
}
