/*
 * feed_fixture: an operation in a broker of the least parts, and readers of what it tells.
 */
#ifndef TESTS_UNIT_FEED_FIXTURE_H
#define TESTS_UNIT_FEED_FIXTURE_H

#include <check.h>
#include <signal.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/subscriber.h"
#include "common/util.h"
#include "common/walk.h"

#define KIB 1024u

static struct broker broker;
static struct config config;
static struct feed_list list;
static uint8_t bytes[64 * KIB];

/* A client, with both ends of its link. */
struct reader {
	struct client client;
	struct link *link; /* the client's end */
	uint64_t expected; /* the number of the next event, whatever comes in place of it */
	uint64_t nevents, ngaps, lost; /* numbers that gaps named */
	uint64_t nbytes; /* of output */
	enum event_type last; /* type of the last event */
	char code[32]; /* of a failure */
	char answer[64], refusal[64]; /* to a submission */
	bool existing;
};

static struct reader readers[SUBSCRIBERS_MAX + 1];

static inline void
on_gap(struct reader *r, struct slice body)
{
	struct value from, to;

	ck_assert(value_get(body, "from", &from) && value_get(body, "to", &to));
	ck_assert_uint_eq(from.uint, r->expected);
	ck_assert_uint_ge(to.uint, from.uint);
	r->ngaps++;
	r->lost += to.uint - from.uint + 1;
	r->expected = to.uint;
}

static inline void
on_event(struct reader *r, const struct msg_operation_event *e)
{
	struct value v;

	if (e->type == event_type_gap)
		on_gap(r, e->body);
	ck_assert_uint_eq(e->sequence, r->expected);
	r->expected++;
	r->nevents++;
	r->last = e->type;
	if (e->type == event_type_output) {
		ck_assert_uint_eq(e->data.p[0], e->sequence & 0xff);
		ck_assert_uint_eq(e->data.p[e->data.n - 1], e->sequence & 0xff);
		r->nbytes += e->data.n;
	} else if (e->type == event_type_failed) {
		ck_assert(value_get(e->body, "code", &v));
		snprintf(r->code, sizeof r->code, "%.*s", (int)v.bytes.n,
		    (const char *)v.bytes.p);
	}
}

static inline void
reader_on_message(struct link *l, const struct message *m, void *arg)
{
	struct reader *r = arg;
	const struct msg_operation_submit_reply *reply = &m->u.operation_submit_reply;

	(void)l;
	if (m->type == MSG_operation_event) {
		on_event(r, &m->u.operation_event);
	} else if (m->failed) {
		snprintf(r->refusal, sizeof r->refusal, "%.*s", (int)m->error.code.n,
		    (const char *)m->error.code.p);
	} else {
		ck_assert_int_eq(m->type, MSG_operation_submit_reply);
		ck_assert_uint_eq(r->nevents, 0); /* the answer comes first */
		snprintf(r->answer, sizeof r->answer, "%.*s", (int)reply->operation.n,
		    (const char *)reply->operation.p);
		r->existing = reply->has_existing && reply->existing;
	}
}

static inline void
reader_on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct reader *r = arg;

	(void)l;
	(void)error;
	ck_assert_msg(end != LINK_END_FAULT, "%s", fault != NULL ? fault->rule : "");
	r->link = NULL;
}

static inline void
client_on_message(struct link *l, const struct message *m, void *arg)
{
	(void)l;
	(void)m;
	(void)arg;
}

static inline void
client_on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct client *c = arg;

	(void)l;
	(void)error;
	ck_assert_msg(end != LINK_END_FAULT, "%s", fault != NULL ? fault->rule : "");
	ck_assert_int_ne(end, LINK_END_SLOW);
	subscribers_forget(c);
	c->link = NULL;
}

static inline void
client_on_drained(struct link *l, void *arg)
{
	(void)l;
	subscribers_on_drained(arg);
}

static const struct link_handler reader_handler = {
	.on_message = reader_on_message,
	.on_end = reader_on_end,
};

static const struct link_handler client_handler = {
	.on_message = client_on_message,
	.on_end = client_on_end,
	.on_drained = client_on_drained,
};

/* Lets everything happen that can. */
static inline void
run(void)
{
	for (unsigned i = 0; i < 400; i++)
		event_base_loop(broker.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static inline struct reader *
reader_open(unsigned i)
{
	struct reader *r = &readers[i];
	int fds[2];

	memset(r, 0, sizeof *r);
	r->expected = 1;
	TAILQ_INIT(&r->client.subscriptions);
	r->client.broker = &broker;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	r->client.link = link_open(
	    broker.base, fds[0], ROLE_BROKER, ROLE_CLIENT, &client_handler, &r->client);
	r->link =
	    link_open(broker.base, fds[1], ROLE_CLIENT, ROLE_BROKER, &reader_handler, r);
	ck_assert(r->client.link != NULL && r->link != NULL);
	link_set_state(r->client.link, LINK_READY);
	link_set_state(r->link, LINK_READY);
	return r;
}

static inline void
setup(void)
{
	signal(SIGPIPE, SIG_IGN);
	memset(&broker, 0, sizeof broker);
	config = (struct config){ .retention = retention_memory,
		.retained = { 1u << 20, 64u << 20, 60000 } };
	broker.config = &config;
	broker.base = event_base_new();
	broker.alarms = alarms_create(broker.base);
	broker.feeds = feeds_create(&broker);
	ck_assert_ptr_nonnull(broker.feeds);
	feed_list_init(&list, "s-1", "human:alice");
	broker_tick(&broker);
}

static inline void
teardown(void)
{
	for (unsigned i = 0; i < countof(readers); i++) {
		link_close(readers[i].link);
		link_close(readers[i].client.link);
	}
	run();
	feed_list_finish(&list);
	ck_assert_uint_eq(broker.feeds->store.bytes, 0);
	ck_assert_uint_eq(broker.feeds->by_id.n, broker.feeds->loose.nended);
	feeds_destroy(broker.feeds);
	alarms_destroy(broker.alarms);
	event_base_free(broker.base);
}

/* ---- an operation --------------------------------------------------------------------- */

static inline void
output(struct feed *f, size_t n)
{
	struct msg_operation_event e = { .sequence = f->log.next, .type = event_type_output,
		.has_stream = true, .has_data = true, .data = { bytes, n } };

	memset(bytes, (int)(f->log.next & 0xff), n);
	feed_append(f, &e);
}

static inline void
accepted(struct feed *f)
{
	static const uint8_t packed[] = { 0x81, 0xa1, 'a', 0x01 };
	struct msg_operation_event e = { .sequence = 1, .type = event_type_accepted,
		.has_body = true, .body = { packed, sizeof packed } };

	feed_admit(f);
	feed_append(f, &e);
}

static inline void
completed(struct feed *f)
{
	static const uint8_t packed[] = { 0x80 };
	struct past past = { .kind = operation_kind_command, .ending = ENDING_completed };
	struct msg_operation_event e = { .sequence = f->log.next, .type = event_type_completed,
		.has_body = true, .body = { packed, sizeof packed } };

	feed_end(f, &past, &e);
}

static inline struct feed *
submitted(const char *id)
{
	struct feed *f = feed_create(broker.feeds, &list, id, operation_kind_command);

	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of(id)), f);
	return f;
}

static inline struct feed *
begun(const char *id)
{
	struct feed *f = submitted(id);

	accepted(f);
	return f;
}

static inline void
attach(struct reader *r, struct feed *f, uint64_t after)
{
	struct subscriber *s;

	r->expected = after + 1;
	ck_assert_int_eq(subscriber_create(f, &r->client, after, &s), 0);
	subscriber_pump(s);
}

/* It was told everything, to the end, and follows nothing any more. */
static inline void
check_done(const struct reader *r, const struct feed *f)
{
	ck_assert_uint_eq(r->expected, feed_last(f) + 1);
	ck_assert_uint_eq(r->client.nsubscriptions, 0);
}

#endif /* TESTS_UNIT_FEED_FIXTURE_H */
