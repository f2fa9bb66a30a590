#include "client/ps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include "client/confine.h"
#include "client/dial.h"
#include "client/loop.h"
#include "client/ps_render.h"
#include "client/render.h"
#include "client/text.h"
#include "common/link.h"
#include "common/util.h"

#define ANSWER_MS 30000 /* for a broker that is being replaced, too */

struct ps {
	const struct options *o;
	const char *path;
	struct event_base *base;
	struct link *link; /* NULL: ended */
	struct event *late;
	struct ps_table table;
	struct buf out;
	bool greeted, said; /* why it failed was said */
	int status;
};

static void
fail(struct ps *ps)
{
	ps->said = true;
	ps->status = EXIT_CANNOT;
	link_close(ps->link);
}

static void
ps_on_message(struct link *l, const struct message *m, void *arg)
{
	struct msg_process_list ask = { 0 };
	struct ps *ps = arg;

	if (m->kind == MSG_RESPONSE && m->failed) {
		text_say("ps: refused: %.*s: %.*s", (int)m->error.code.n,
		    (const char *)m->error.code.p, (int)m->error.message.n,
		    (const char *)m->error.message.p);
		fail(ps);
	} else if (m->type == MSG_hello_reply) {
		ps->greeted = true;
		if (link_request(l, MSG_process_list, &ask, NULL) < 0) {
			text_say("ps: cannot ask: out of memory");
			fail(ps);
		}
	} else if (m->type == MSG_process_row && ps->o->output == OUTPUT_JSONL) {
		ps_render_jsonl(&m->u.process_row, &ps->out);
	} else if (m->type == MSG_process_row) {
		ps_table_add(&ps->table, &m->u.process_row);
	} else if (m->type == MSG_process_list_reply) {
		ps->status = 0;
		link_close(l);
	}
}

static void
ps_on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct ps *ps = arg;

	(void)l;
	ps->link = NULL;
	event_base_loopbreak(ps->base);
	if (ps->said || end == LINK_END_CLOSED)
		return;
	if (end == LINK_END_FAULT)
		text_say("ps: the broker broke the protocol: %s", fault->rule);
	else if (end == LINK_END_ERROR)
		text_say("ps: cannot talk to the broker: %s", strerror(error));
	else
		text_say("ps: %s closed the connection: %s", ps->path,
		    ps->greeted ? "its broker died; ask again"
				: "it has too many, or is ending");
}

static const struct link_handler handler = { ps_on_message, ps_on_end, NULL };

static void
ps_on_late(evutil_socket_t fd, short events, void *arg)
{
	struct ps *ps = arg;

	(void)fd;
	(void)events;
	text_say("ps: no answer from %s in %d s", ps->path, ANSWER_MS / 1000);
	fail(ps);
}

static int
ask(struct ps *ps, int fd)
{
	const struct timeval late = { ANSWER_MS / 1000, 0 };
	int r;

	ps->base = loop_create();
	if (ps->base == NULL) {
		close(fd);
		return -ENOMEM;
	}
	ps->link = link_open(ps->base, fd, ROLE_CLIENT, ROLE_BROKER, &handler, ps);
	ps->late = evtimer_new(ps->base, ps_on_late, ps);
	if (ps->link == NULL || ps->late == NULL || event_add(ps->late, &late) < 0)
		return -ENOMEM;
	r = client_confine();
	if (r == 0)
		r = link_hello(ps->link, "caisson ps");
	if (r == 0)
		event_base_dispatch(ps->base);
	return r;
}

static void
finish(struct ps *ps)
{
	link_close(ps->link);
	while (ps->link != NULL && event_base_loop(ps->base, EVLOOP_ONCE) == 0)
		;
	if (ps->late != NULL)
		event_free(ps->late);
	if (ps->base != NULL)
		event_base_free(ps->base);
	ps_table_finish(&ps->table);
	buf_finish(&ps->out);
}

static int
print(struct ps *ps)
{
	if (ps->o->output != OUTPUT_JSONL)
		ps_table_render(&ps->table, ps->o->verbose, &ps->out);
	if (ps->out.failed)
		return -ENOMEM;
	if (fwrite(ps->out.p, 1, ps->out.n, stdout) != ps->out.n || fflush(stdout) != 0)
		return errno == EPIPE ? 0 : -errno;
	return 0;
}

int
ps_main(const struct options *o, int argc, char **argv)
{
	cleanup_free char *path = dial_path(o, "ps");
	struct ps ps = { .o = o, .path = path, .status = EXIT_CANNOT };
	int fd, r;

	(void)argc;
	(void)argv;
	if (path == NULL)
		return EXIT_CANNOT;
	fd = dial_connect(path);
	if (fd < 0) {
		dial_explain("ps", path, -fd);
		return EXIT_CANNOT;
	}
	r = ask(&ps, fd);
	if (r == 0 && ps.status == 0)
		r = print(&ps);
	if (r < 0) {
		text_say("ps: %s", strerror(-r));
		ps.status = EXIT_CANNOT;
	}
	finish(&ps);
	return ps.status;
}
