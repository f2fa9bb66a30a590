#include "broker/session_private.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/shared.h"
#include "common/log.h"
#include "common/util.h"

/*
 * The supervisor knows what lives here, and answers with a sealed file of frames, as it wrote
 * the configuration: read within bounds, decoded, and passed on row by row.
 */

#define BYTES_MAX (4u << 20) /* over 1024 children with every field there is */
#define ROWS_MAX  4096

/* One process.list that waits. */
struct listing {
	struct client *client; /* NULL: it is gone */
	uint32_t msgid;
	STAILQ_ENTRY(listing) link; /* broker.listings */
};

void
process_list(struct client *c, uint32_t msgid)
{
	struct control ask = { .verb = CONTROL_LIST };
	struct listing *l;

	if (c->listing) {
		link_refuse(c->link, msgid, "resource_exhausted",
		    "a list was asked for and has not come yet: one at a time", true);
		return;
	}
	l = calloc(1, sizeof *l);
	if (l == NULL) {
		link_refuse(c->link, msgid, "resource_exhausted", "out of memory", true);
		return;
	}
	*l = (struct listing){ .client = c, .msgid = msgid };
	c->listing = true;
	STAILQ_INSERT_TAIL(&c->broker->listings, l, link);
	control_tell(c->broker, &ask);
}

static int
read_all(int fd, struct buf *b)
{
	uint8_t chunk[16384];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof chunk)) != 0) {
		if (n < 0)
			return -errno;
		buf_add(b, chunk, (size_t)n);
		if (b->failed || b->n > BYTES_MAX)
			return -E2BIG;
	}
	return 0;
}

/* The provider that a row tells of; NULL: none, or one that serves nobody yet. */
static const struct child *
provider_of_row(struct broker *b, const struct msg_process_row *row)
{
	const struct session *s;
	size_t i;

	if (row->role != process_role_provider || !row->has_session)
		return NULL;
	s = session_find(b, row->session);
	for (i = 0; s != NULL && i < s->operation->config->nproviders; i++)
		if (slice_is(row->id, child_provider(&s->providers[i])->id))
			return &s->providers[i];
	return shared_find_named(b, row->session, row->id);
}

/* What the supervisor cannot know: who uses a provider's places. */
static void
pass_row(struct broker *broker, struct link *to, struct msg_process_row row)
{
	const struct child *p = provider_of_row(broker, &row);

	row.has_calls = row.has_lost = row.has_waiting = p != NULL;
	if (p != NULL) {
		row.has_session = p->session != NULL; /* else it is a number of its own */
		row.calls = p->running;
		row.lost = p->lost;
		row.waiting = p->nwaiting;
	}
	link_notify(to, MSG_process_row, &row);
}

/* The frames, row by row; with a link they are passed on.  How many, or -EPROTO. */
static int
pass_rows(struct broker *broker, const struct buf *b, struct link *to)
{
	const uint8_t *p = b->p, *end = b->p + b->n;
	struct fault fault = { 0 };
	struct message m;
	int rows = 0;
	uint32_t n;

	for (; p < end; p += n, rows++) {
		if (end - p < 4 || rows == ROWS_MAX)
			return -EPROTO;
		n = protocol_length(p);
		p += 4;
		if (n > FRAME_MAX || n > (size_t)(end - p) ||
		    protocol_decode(p, n, ROLE_SUPERVISOR, ROLE_BROKER, LINK_NEW, NULL, NULL,
			&m, &fault) < 0 ||
		    m.type != MSG_process_row)
			return -EPROTO;
		if (to != NULL)
			pass_row(broker, to, m.u.process_row);
	}
	return rows;
}

/* All of it is checked before any of it is passed on. */
static int
pass_on(struct broker *broker, int fd, struct link *to)
{
	struct buf b = { 0 };
	int r = read_all(fd, &b);

	if (r == 0)
		r = pass_rows(broker, &b, NULL);
	if (r >= 0)
		/* The broker lives there, at least. */
		r = r > 0 ? pass_rows(broker, &b, to) : -EPROTO;
	buf_finish(&b);
	return r;
}

void
process_on_list(struct broker *b, int fd, int error)
{
	struct listing *l = STAILQ_FIRST(&b->listings);
	struct msg_process_list_reply reply = { 0 };
	struct client *c;
	int r = -error;

	if (l == NULL) { /* nobody asked */
		util_close(&fd);
		return;
	}
	STAILQ_REMOVE_HEAD(&b->listings, link);
	c = l->client;
	if (c != NULL) {
		c->listing = false;
		if (fd >= 0)
			r = pass_on(b, fd, c->link);
		reply.count = r > 0 ? (uint64_t)r : 0;
		if (r > 0) {
			link_reply(c->link, MSG_process_list_reply, l->msgid, &reply);
		} else {
			log_error("the supervisor's list of processes cannot be read: %s",
			    strerror(-r));
			link_refuse(c->link, l->msgid, "internal",
			    "the list of processes cannot be had; see the log", true);
		}
	}
	free(l);
	util_close(&fd);
}

void
process_forget(struct client *c)
{
	struct listing *l;

	STAILQ_FOREACH (l, &c->broker->listings, link)
		if (l->client == c)
			l->client = NULL;
}

void
process_finish(struct broker *b)
{
	struct listing *l;

	while ((l = STAILQ_FIRST(&b->listings)) != NULL) {
		STAILQ_REMOVE_HEAD(&b->listings, link);
		free(l);
	}
}
