#include "broker/subscriber.h"

#include <errno.h>
#include <stdlib.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "common/link.h"

static struct subscriber *
find(const struct feed *f, const struct client *c)
{
	struct subscriber *s;

	TAILQ_FOREACH (s, &f->subscribers, of_feed)
		if (s->client == c)
			break;
	return s;
}

int
subscriber_create(struct feed *f, struct client *c, uint64_t after, struct subscriber **ret)
{
	struct subscriber *s = find(f, c);

	if (s != NULL && s->waits)
		return -EALREADY;
	if (s == NULL) {
		if (f->nsubscribers >= SUBSCRIBERS_MAX ||
		    c->nsubscriptions >= SUBSCRIPTIONS_MAX)
			return -ENOSPC;
		s = calloc(1, sizeof *s);
		if (s == NULL)
			return -ENOMEM;
		s->feed = f;
		s->client = c;
		TAILQ_INSERT_TAIL(&f->subscribers, s, of_feed);
		TAILQ_INSERT_TAIL(&c->subscriptions, s, of_client);
		f->nsubscribers++;
		c->nsubscriptions++;
	}
	s->next = after + 1;
	feed_wake(f);
	*ret = s;
	return 0;
}

/* Leaves the feed to its caller. */
static void
unlink_subscriber(struct subscriber *s)
{
	TAILQ_REMOVE(&s->feed->subscribers, s, of_feed);
	TAILQ_REMOVE(&s->client->subscriptions, s, of_client);
	s->feed->nsubscribers--;
	s->client->nsubscriptions--;
	free(s);
}

static void
leave(struct subscriber *s)
{
	struct feed *f = s->feed;

	unlink_subscriber(s);
	feed_wake(f);
	feed_check(f);
}

/* One event.  0 if there is none, or none can be sent: it comes back with its cursor. */
static int
give_one(struct subscriber *s)
{
	struct link *l = s->client->link;
	struct msg_operation_event e;
	uint64_t next;
	int r = feed_read(s->feed, s->next, &e, &next);

	if (r > 0) {
		e.operation = slice_of(s->feed->id);
		r = link_notify(l, MSG_operation_event, &e);
		if (r == -EPIPE)
			return 0; /* it is ending */
		if (r == 0) {
			s->next = next;
			s->client->broker->stats.gaps += e.type == event_type_gap;
			return 1;
		}
	}
	if (r < 0)
		link_close(l);
	return 0;
}

void
subscriber_pump(struct subscriber *s)
{
	struct link *l = s->client->link;

	if (s->waits)
		return;
	feed_wake(s->feed);
	while (link_queued(l) < SUBSCRIBER_WINDOW)
		if (give_one(s) == 0) {
			if (feed_has_ended(s->feed) && s->next > feed_last(s->feed))
				leave(s);
			return;
		}
	pace_fill(&s->client->pace, s->client->broker->now_ms);
	link_watch(l, SUBSCRIBER_ROOM);
}

/* What its link says of it. */
static void
look(struct client *c)
{
	struct subscriber *s;

	if (pace_look(&c->pace, link_reads(c->link), c->broker->now_ms))
		TAILQ_FOREACH (s, &c->subscriptions, of_client)
			s->feed->credit = (struct pace_credit){ 0 };
}

void
subscriber_wait(struct subscriber *s, uint32_t msgid, bool existing)
{
	s->waits = true;
	s->msgid = msgid;
	s->existing = existing;
	if (s->feed->admitted)
		subscribers_answer(s->feed);
}

/* ---- those of a feed ------------------------------------------------------------------ */

void
subscribers_ahead(struct feed *f, struct ahead *ret)
{
	uint64_t now_ms = f->all->broker->now_ms, until_ms;
	struct subscriber *s;

	*ret = (struct ahead){ .least = f->log.next };
	TAILQ_FOREACH (s, &f->subscribers, of_feed) {
		if (s->waits)
			continue;
		if (link_queued(s->client->link) < SUBSCRIBER_WINDOW) { /* or it is ending */
			ret->has_room |= s->next == f->log.next;
			continue;
		}
		look(s->client);
		pace_fill(&s->client->pace, now_ms);
		link_watch(s->client->link, SUBSCRIBER_ROOM);
		until_ms = pace_until(&s->client->pace, &f->credit, now_ms);
		if (until_ms <= now_ms)
			continue;
		if (ret->until_ms == 0 || until_ms < ret->until_ms)
			ret->until_ms = until_ms;
		if (s->next > ret->next)
			ret->next = s->next;
		if (s->next < ret->least)
			ret->least = s->next;
	}
}

void
subscribers_pump(struct feed *f)
{
	struct subscriber *s, *next;

	TAILQ_FOREACH_SAFE (s, &f->subscribers, of_feed, next)
		subscriber_pump(s);
}

void
subscribers_answer(struct feed *f)
{
	struct msg_operation_submit_reply reply = { .operation = slice_of(f->id) };
	struct subscriber *s, *next;

	TAILQ_FOREACH_SAFE (s, &f->subscribers, of_feed, next) {
		if (!s->waits)
			continue;
		s->waits = false;
		reply.has_existing = reply.existing = s->existing;
		link_reply(s->client->link, MSG_operation_submit_reply, s->msgid, &reply);
		subscriber_pump(s);
	}
}

void
subscribers_refuse(struct feed *f, const char *code, const char *message)
{
	struct subscriber *s, *next;

	TAILQ_FOREACH_SAFE (s, &f->subscribers, of_feed, next) {
		if (s->waits)
			link_refuse(s->client->link, s->msgid, code, message, true);
		unlink_subscriber(s);
	}
}

void
subscribers_finish(struct feed *f)
{
	struct subscriber *s, *next;

	TAILQ_FOREACH_SAFE (s, &f->subscribers, of_feed, next) {
		while (feed_has_ended(f) && give_one(s) > 0)
			;
		unlink_subscriber(s);
	}
}

/* ---- those of a client ---------------------------------------------------------------- */

void
subscribers_on_drained(struct client *c)
{
	struct subscriber *s;

	broker_tick(c->broker);
	look(c);
	if (link_queued(c->link) < SUBSCRIBER_WINDOW)
		pace_empty(&c->pace);
	else if (c->nsubscriptions > 0) /* it was watched for another mark */
		link_watch(c->link, SUBSCRIBER_ROOM);
	/* Who is given something goes last, so that each has its turn before it has another. */
	for (unsigned n = c->nsubscriptions;
	    n > 0 && link_queued(c->link) < SUBSCRIBER_WINDOW; n--) {
		s = TAILQ_FIRST(&c->subscriptions);
		TAILQ_REMOVE(&c->subscriptions, s, of_client);
		TAILQ_INSERT_TAIL(&c->subscriptions, s, of_client);
		subscriber_pump(s);
	}
}

void
subscribers_forget(struct client *c)
{
	struct subscriber *s;

	while ((s = TAILQ_FIRST(&c->subscriptions)) != NULL)
		leave(s);
}
