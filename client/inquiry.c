#include "client/inquiry.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "client/confine.h"
#include "client/dial.h"
#include "client/loop.h"
#include "client/private.h"
#include "client/render.h"
#include "client/text.h"
#include "common/util.h"

#define ANSWER_S 30 /* for a broker that is being replaced, too */
#define START_S	 120 /* for one that is started over a record of any length */

static const char *
whom(const struct inquiry *q)
{
	return q->path != NULL ? q->path : "the broker";
}

static void
settle(struct inquiry *q)
{
	if (q->ended && q->link == NULL && (q->private == NULL || q->gone))
		event_base_loopbreak(q->base);
}

void
inquiry_end(struct inquiry *q, int status)
{
	if (q->ended)
		return;
	q->ended = true;
	q->status = status;
	link_close(q->link);
	if (q->private != NULL)
		private_end(q->private);
	settle(q);
}

void
inquiry_fail(struct inquiry *q, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	if (q->ended)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_say("%s: %s", q->command, text);
	inquiry_end(q, EXIT_CANNOT);
}

void
inquiry_ask(struct inquiry *q, enum msg_type type, const void *m)
{
	int r = link_request(q->link, type, m, NULL);

	if (r < 0)
		inquiry_fail(q, "cannot ask: %s",
		    r == -ERANGE ? "more than a message holds" : strerror(-r));
}

bool
inquiry_print(const struct inquiry *q, struct buf *out)
{
	int error = 0;

	if (out->failed)
		error = ENOMEM;
	else if ((out->n > 0 && fwrite(out->p, 1, out->n, stdout) != out->n) ||
		 fflush(stdout) != 0)
		error = errno;
	buf_finish(out);
	*out = (struct buf){ 0 };
	if (error == 0 || error == EPIPE)
		return true;
	text_say("%s: cannot write: %s", q->command, strerror(error));
	return false;
}

/* ---- the link ---------------------------------------------------------------------- */

static void
inquiry_on_message(struct link *l, const struct message *m, void *arg)
{
	struct inquiry *q = arg;

	(void)l;
	if (q->ended)
		return;
	if (m->kind == MSG_RESPONSE && m->failed) {
		inquiry_fail(q, "refused: %.*s: %.*s", (int)m->error.code.n,
		    (const char *)m->error.code.p, (int)m->error.message.n,
		    (const char *)m->error.message.p);
	} else if (m->type == MSG_hello_reply) {
		q->greeted = true;
		q->on_ready(q);
	} else {
		q->on_message(q, m);
	}
}

static void
inquiry_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct inquiry *q = arg;

	(void)l;
	q->link = NULL;
	if (end == LINK_END_FAULT)
		inquiry_fail(q, "the broker broke the protocol: %s", fault->rule);
	else if (end == LINK_END_ERROR)
		inquiry_fail(q, "cannot talk to the broker: %s", strerror(error));
	else
		inquiry_fail(q, "%s closed the connection: %s", whom(q),
		    q->greeted ? q->lost : "it has too many, or is ending; ask again");
	settle(q);
}

static const struct link_handler link_handler = {
	.on_message = inquiry_on_message,
	.on_end = inquiry_on_end,
};

static void
open_link(struct inquiry *q, int fd)
{
	q->link = link_open(q->base, fd, ROLE_CLIENT, ROLE_BROKER, &link_handler, q);
	if (q->link == NULL || link_hello(q->link, "caisson") < 0)
		inquiry_fail(q, "cannot talk to the broker: out of memory");
}

static void
inquiry_on_late(evutil_socket_t fd, short events, void *arg)
{
	struct inquiry *q = arg;

	(void)fd;
	(void)events;
	inquiry_fail(q, "no answer from %s in %d s", whom(q),
	    q->path != NULL ? ANSWER_S : START_S);
}

/* ---- a caissond of ours ------------------------------------------------------------ */

static void
inquiry_on_broker(int fd, void *arg)
{
	struct inquiry *q = arg;

	if (q->ended || q->link != NULL)
		close(fd);
	else
		open_link(q, fd);
}

/* It has said why. */
static void
inquiry_on_failed(void *arg)
{
	inquiry_end(arg, EXIT_CANNOT);
}

static void
inquiry_on_gone(int status, void *arg)
{
	struct inquiry *q = arg;

	q->gone = true;
	if (WIFSIGNALED(status))
		inquiry_fail(q, "caissond was killed by signal %d%s%s", WTERMSIG(status),
		    q->greeted ? ": " : "", q->greeted ? q->lost : "");
	else
		inquiry_end(q, EXIT_CANNOT);
	settle(q);
}

static const struct private_handler private_handler = {
	.on_broker = inquiry_on_broker,
	.on_failed = inquiry_on_failed,
	.on_gone = inquiry_on_gone,
};

/* ---- all of it --------------------------------------------------------------------- */

static int
begin(struct inquiry *q, const char *path)
{
	const struct timeval late = { path != NULL ? ANSWER_S : START_S, 0 };

	closefrom(STDERR_FILENO + 1); /* whatever a caller forgot: it is none of ours */
	q->path = path;
	q->base = loop_create();
	q->late = q->base != NULL ? evtimer_new(q->base, inquiry_on_late, q) : NULL;
	return q->late != NULL && event_add(q->late, &late) == 0 ? 0 : -ENOMEM;
}

static int
finish(struct inquiry *q, int r)
{
	if (r == 0)
		r = client_confine();
	if (r < 0)
		inquiry_fail(q, "cannot start: %s", strerror(-r));
	if (q->base != NULL && (!q->ended || q->link != NULL ||
				   (q->private != NULL && !q->gone)))
		event_base_dispatch(q->base);
	private_destroy(q->private);
	if (q->late != NULL)
		event_free(q->late);
	if (q->base != NULL)
		event_base_free(q->base);
	return q->status;
}

int
inquiry_dial(struct inquiry *q, const char *path)
{
	int fd, r;

	r = begin(q, path);
	fd = r == 0 ? dial_connect(path) : -1;
	if (r == 0 && fd < 0) {
		dial_explain(q->command, path, -fd);
		q->ended = true;
		q->status = EXIT_CANNOT;
	} else if (r == 0) {
		open_link(q, fd);
	}
	return finish(q, r);
}

int
inquiry_start(struct inquiry *q, int argc, char **argv)
{
	int r = begin(q, NULL);

	if (r == 0)
		r = private_start(q->base, argc, argv, -1, &private_handler, q, &q->private);
	return finish(q, r);
}
