#include "gateway/monitor.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/link.h"
#include "common/util.h"
#include "gateway/accept.h"
#include "gateway/fields.h"
#include "gateway/metrics.h"

#define ANSWER_MS 2000 /* that the broker has */

struct monitor {
	struct gateway *g;
	struct dial dial;
	struct link *link; /* NULL: none yet */
	bool greeted; /* hello is answered */
	bool asked; /* stats.read is on its way */
	struct alarm late;
	struct conn *waiting[MONITOR_CONNECTIONS_MAX];
};

static bool
is_at(const struct request *r, const char *name)
{
	return r->nsegments == 1 && slice_is(r->segments[0], name);
}

/* ---- answers --------------------------------------------------------------------------- */

static void
answer_text(struct conn *c, unsigned status, const char *type, struct slice text)
{
	const struct response r = { .status = status, .type = type, .body = text };

	conn_respond(c, &r);
}

static void
answer(struct conn *c, const struct slice *stats)
{
	struct buf out = { 0 };

	if (is_at(conn_request(c), "readyz")) {
		answer_text(c, stats != NULL ? 200 : 503, "text/plain",
		    slice_of(stats != NULL ? "ready\n" : "the broker does not answer\n"));
		return;
	}
	metrics_write(&out, conn_gateway(c), stats);
	if (out.failed)
		conn_abort(c);
	else
		answer_text(
		    c, 200, "text/plain; version=0.0.4; charset=utf-8", buf_slice(&out));
	buf_finish(&out);
}

static void
answer_all(struct monitor *m, const struct slice *stats)
{
	alarm_clear(&m->late);
	m->asked = false;
	for (size_t i = 0; i < countof(m->waiting); i++) {
		struct conn *c = m->waiting[i];

		m->waiting[i] = NULL;
		if (c != NULL)
			answer(c, stats);
	}
}

/* ---- the broker ------------------------------------------------------------------------- */

static void
ask(struct monitor *m)
{
	const struct msg_stats_read stats = { 0 };
	uint32_t msgid;

	if (!m->greeted || m->asked)
		return;
	m->asked = link_request(m->link, MSG_stats_read, &stats, &msgid) == 0;
	if (!m->asked)
		answer_all(m, NULL);
}

static void
monitor_on_message(struct link *l, const struct message *message, void *arg)
{
	struct monitor *m = arg;

	(void)l;
	if (message->type == MSG_hello_reply && !message->failed) {
		m->greeted = true;
		ask(m);
	} else if (message->type == MSG_stats_read_reply) {
		answer_all(m, message->failed ? NULL : &message->u.stats_read_reply.stats);
	}
}

static void
monitor_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct monitor *m = arg;

	(void)end;
	(void)fault;
	(void)error;
	if (m->link != l)
		return; /* one that was late, and is replaced */
	m->link = NULL;
	m->greeted = false;
	answer_all(m, NULL);
}

static const struct link_handler link_handler = {
	.on_message = monitor_on_message,
	.on_end = monitor_on_end,
};

static void
on_dialed(struct dial *d, int fd, int error)
{
	struct monitor *m = d->arg;

	(void)error;
	m->link = NULL;
	if (fd >= 0)
		m->link = link_open(m->g->base, fd, ROLE_CLIENT, ROLE_BROKER, &link_handler, m);
	if (m->link == NULL || link_hello(m->link, "monitor") < 0)
		answer_all(m, NULL);
}

static void
on_late(void *arg)
{
	struct monitor *m = arg;
	struct link *l = m->link;

	/* A broker that hangs gets another link to prove that it lives. */
	m->link = NULL;
	m->greeted = false;
	gateway_dial_cancel(m->g, &m->dial);
	link_close(l);
	answer_all(m, NULL);
}

/* ---- requests -------------------------------------------------------------------------- */

static void
await_stats(struct monitor *m, struct conn *c)
{
	size_t i = 0;

	while (i < countof(m->waiting) && m->waiting[i] != NULL)
		i++;
	if (i == countof(m->waiting)) {
		conn_refuse(c, 503, "unavailable", slice_of("too many ask at once"));
		return;
	}
	m->waiting[i] = c;
	if (m->late.at_ms == 0)
		alarm_set(m->g->alarms, &m->late, clock_ms() + ANSWER_MS);
	if (m->link == NULL && !m->dial.set)
		gateway_dial(m->g, &m->dial);
	else
		ask(m);
}

static void
monitor_on_request(struct conn *c, const struct request *r)
{
	bool health = is_at(r, "healthz");

	if (!fields_host_is_bound(r) || !fields_origin_is_ours(r))
		conn_refuse(c, 403, "permission_denied",
		    slice_of("a page may not ask: others say localhost or an address as Host"));
	else if (!health && !is_at(r, "readyz") && !is_at(r, "metrics"))
		conn_refuse(c, 404, "not_found", slice_of("there is nothing at this path"));
	else if (r->method != HTTP_GET && r->method != HTTP_HEAD)
		conn_refuse_method(c, "GET, HEAD");
	else if (health)
		answer_text(c, 200, "text/plain", slice_of("alive\n"));
	else
		await_stats(conn_gateway(c)->monitor, c);
}

static void
monitor_on_close(struct conn *c, unsigned code)
{
	struct monitor *m = conn_gateway(c)->monitor;

	(void)code;
	for (size_t i = 0; i < countof(m->waiting); i++)
		if (m->waiting[i] == c)
			m->waiting[i] = NULL;
}

const struct conn_handler monitor_handler = {
	.body_bytes = 0,
	.on_request = monitor_on_request,
	.on_close = monitor_on_close,
};

struct monitor *
monitor_create(struct gateway *g)
{
	struct monitor *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->g = g;
	m->dial = (struct dial){ .fn = on_dialed, .arg = m };
	m->late = (struct alarm){ .fn = on_late, .arg = m };
	return m;
}

void
monitor_stop(struct monitor *m)
{
	gateway_dial_cancel(m->g, &m->dial);
	alarm_clear(&m->late);
	link_close(m->link);
	m->link = NULL;
}

void
monitor_destroy(struct monitor *m)
{
	free(m);
}
