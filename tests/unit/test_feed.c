/*
 * What clients read of an operation: each event once and in order, whoever reads how fast, and
 * a gap for what is gone.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/config.h"
#include "broker/feed.h"
#include "broker/operation.h"
#include "broker/subscriber.h"
#include "common/link.h"
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

static void
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

static void
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

static void
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

static void
reader_on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct reader *r = arg;

	(void)l;
	(void)error;
	ck_assert_msg(end != LINK_END_FAULT, "%s", fault != NULL ? fault->rule : "");
	r->link = NULL;
}

static void
client_on_message(struct link *l, const struct message *m, void *arg)
{
	(void)l;
	(void)m;
	(void)arg;
}

static void
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

static void
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
static void
run(void)
{
	for (unsigned i = 0; i < 400; i++)
		event_base_loop(broker.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static struct reader *
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

static void
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

static void
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

static void
output(struct feed *f, size_t n)
{
	struct msg_operation_event e = { .sequence = f->log.next, .type = event_type_output,
		.has_stream = true, .has_data = true, .data = { bytes, n } };

	memset(bytes, (int)(f->log.next & 0xff), n);
	feed_append(f, &e);
}

static void
accepted(struct feed *f)
{
	static const uint8_t packed[] = { 0x81, 0xa1, 'a', 0x01 };
	struct msg_operation_event e = { .sequence = 1, .type = event_type_accepted,
		.has_body = true, .body = { packed, sizeof packed } };

	feed_admit(f);
	feed_append(f, &e);
}

static void
completed(struct feed *f)
{
	static const uint8_t packed[] = { 0x80 };
	struct past past = { .kind = operation_kind_command, .ending = ENDING_completed };
	struct msg_operation_event e = { .sequence = f->log.next, .type = event_type_completed,
		.has_body = true, .body = { packed, sizeof packed } };

	feed_end(f, &past, &e);
}

static struct feed *
submitted(const char *id)
{
	struct feed *f = feed_create(broker.feeds, &list, id, operation_kind_command);

	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of(id)), f);
	return f;
}

static struct feed *
begun(const char *id)
{
	struct feed *f = submitted(id);

	accepted(f);
	return f;
}

static void
attach(struct reader *r, struct feed *f, uint64_t after)
{
	struct subscriber *s;

	r->expected = after + 1;
	ck_assert_int_eq(subscriber_create(f, &r->client, after, &s), 0);
	subscriber_pump(s);
}

/* It was told everything, to the end, and follows nothing any more. */
static void
check_done(const struct reader *r, const struct feed *f)
{
	ck_assert_uint_eq(r->expected, feed_last(f) + 1);
	ck_assert_uint_eq(r->client.nsubscriptions, 0);
}

/* ---- the tests ------------------------------------------------------------------------ */

START_TEST(everybody_is_told_each_event_once_and_in_order) /* OP-13, OP-39 */
{
	struct reader *first = reader_open(0), *late = reader_open(1);
	struct feed *f = begun("op-1");

	attach(first, f, 0);
	for (unsigned i = 0; i < 100; i++) {
		output(f, 1 + i * 7);
		if (i == 50)
			attach(late, f, 0);
		if (i % 10 == 0)
			run();
	}
	completed(f);
	run();
	check_done(first, f);
	check_done(late, f);
	ck_assert_uint_eq(first->nevents, 102);
	ck_assert_uint_eq(late->nevents, 102);
	ck_assert_uint_eq(first->nbytes, late->nbytes);
	ck_assert_int_eq(first->last, event_type_completed);
}
END_TEST

START_TEST(from_every_event_on_the_rest_is_the_same) /* OP-39 */
{
	struct feed *f = begun("op-1");
	struct reader *r;

	for (unsigned i = 0; i < 40; i++)
		output(f, 100);
	for (unsigned ended = 0; ended < 2; ended++) {
		for (uint64_t after = 0; after <= feed_last(f); after++) {
			r = reader_open(0);
			attach(r, f, after);
			run();
			ck_assert_uint_eq(r->ngaps, 0);
			ck_assert_uint_eq(r->nevents, feed_last(f) - after);
			ck_assert_uint_eq(r->expected, feed_last(f) + 1);
			link_close(r->link); /* OP-26: it detaches, and nothing else */
			run();
			ck_assert_uint_eq(f->nsubscribers, 0);
		}
		if (!ended)
			completed(f);
	}
}
END_TEST

START_TEST(a_slow_one_loses_its_own_events_only) /* OP-17, OP-40 */
{
	struct reader *fast = reader_open(0), *slow = reader_open(1);
	struct feed *f = begun("op-1");

	attach(fast, f, 0);
	attach(slow, f, 0);
	run();
	link_pause(slow->link);
	for (unsigned i = 0; i < 200; i++) { /* 12.5 MiB, of which 1 MiB is kept */
		output(f, sizeof bytes);
		run();
		ck_assert_uint_le(link_queued(slow->client.link),
		    SUBSCRIBER_WINDOW + sizeof bytes + 1000);
		ck_assert_uint_le(broker.feeds->store.bytes, config.retained.operation_bytes);
	}
	completed(f);
	run();
	check_done(fast, f);
	ck_assert_uint_eq(fast->ngaps, 0);
	ck_assert_uint_eq(fast->nbytes, 200 * sizeof bytes);
	link_resume(slow->link);
	run();
	check_done(slow, f);
	ck_assert_uint_eq(slow->ngaps, 1);
	ck_assert_uint_gt(slow->lost, 100);
	ck_assert_uint_eq(slow->nbytes, (200 - slow->lost) * sizeof bytes);
	ck_assert_int_eq(slow->last, event_type_completed);
}
END_TEST

START_TEST(what_is_gone_is_named_and_what_it_began_with_is_known)
{
	struct feed *f = begun("op-1");
	struct reader *r = reader_open(0), *later = reader_open(1);

	for (unsigned i = 0; i < 40; i++)
		output(f, sizeof bytes);
	attach(r, f, 0);
	attach(later, f, 5);
	run();
	ck_assert_uint_eq(r->ngaps, 1);
	ck_assert_uint_eq(r->lost, f->log.first - 2); /* but for the first, `accepted` */
	ck_assert_uint_eq(later->lost, f->log.first - 6);
	ck_assert_uint_eq(r->expected, feed_last(f) + 1);
	completed(f);
	run();
	check_done(r, f);
	check_done(later, f);
}
END_TEST

START_TEST(an_ending_that_is_not_kept_is_told_as_the_record_has_it) /* D-16 */
{
	struct feed *f = begun("op-1");
	struct reader *r = reader_open(0), *behind = reader_open(1), *up = reader_open(2);
	struct past past = { .kind = operation_kind_command, .ending = ENDING_oom };
	struct msg_operation_event e = { .type = event_type_failed, .has_body = true };
	struct buf body = { 0 };

	output(f, 10);
	pack_map(&body, 1);
	pack_str(&body, "code");
	pack_str(&body, "as it was");
	e.sequence = f->log.next;
	e.body = buf_slice(&body);
	feed_end(f, &past, &e);
	attach(r, f, 0);
	run();
	ck_assert_str_eq(r->code, "as it was");
	event_store_expire(&broker.feeds->store, UINT64_MAX / 2);
	ck_assert_uint_eq(broker.feeds->store.bytes, 0);
	attach(behind, f, 0);
	attach(up, f, 2);
	run();
	check_done(behind, f);
	check_done(up, f);
	ck_assert_uint_eq(behind->lost, 1);
	ck_assert_uint_eq(behind->nevents, 3); /* accepted, gap, ending */
	ck_assert_uint_eq(up->ngaps, 0);
	ck_assert_str_eq(behind->code, "resource_exhausted");
	ck_assert_str_eq(up->code, "resource_exhausted");
	buf_finish(&body);
}
END_TEST

START_TEST(without_retention_who_keeps_up_reads_all_and_who_comes_late_the_ending)
{
	struct reader *r = reader_open(0), *slow = reader_open(1), *late = reader_open(2);
	struct feed *f;

	config.retention = retention_none;
	config.retained.operation_bytes = 0;
	feeds_on_config(broker.feeds);
	f = begun("op-1");
	attach(r, f, 0);
	attach(slow, f, 0);
	run();
	link_pause(slow->link);
	for (unsigned i = 0; i < 40; i++) {
		output(f, sizeof bytes);
		/* no more than what is on its way to the slow one */
		ck_assert_uint_le(broker.feeds->store.bytes, FEED_FLIGHT_BYTES);
		run();
	}
	completed(f);
	run();
	check_done(r, f);
	ck_assert_uint_eq(r->ngaps, 0);
	ck_assert_uint_gt(broker.feeds->store.bytes, 0); /* the ending, for the slow one */
	link_resume(slow->link);
	run();
	check_done(slow, f);
	ck_assert_uint_eq(slow->ngaps, 1);
	ck_assert_uint_eq(broker.feeds->store.bytes, 0);
	attach(late, f, 0);
	run();
	check_done(late, f);
	ck_assert_uint_eq(late->nevents, 3);
}
END_TEST

/* ---- who is waited for ---------------------------------------------------------------- */

static void
on_room(void *arg)
{
	(*(unsigned *)arg)++;
}

/* Output until it has to wait: how much that is. */
static size_t
fill(struct feed *f)
{
	size_t n = 0;

	for (; n < 1000 && feed_may_append(f); n++) {
		output(f, sizeof bytes);
		run();
	}
	return n;
}

/* As if so much time had passed since anything was seen of it, or its alarm was set. */
static void
grow_old(struct reader *r, struct feed *f, uint64_t ms)
{
	r->client.pace.since_ms -= ms;
	if (f->credit.until_ms != 0)
		f->credit.until_ms -= ms;
	alarm_set(broker.alarms, &f->alarm, broker.now_ms);
	run();
}

static struct feed *
waiting(uint64_t operation_bytes, unsigned *rooms)
{
	struct feed *f;

	config.retained.operation_bytes = operation_bytes;
	feeds_on_config(broker.feeds);
	f = begun("op-1");
	f->on_room = on_room;
	f->arg = rooms;
	*rooms = 0;
	return f;
}

START_TEST(it_waits_for_who_reads_whatever_is_kept) /* OP-17, OP-40 */
{
	static const uint64_t kept[] = { 0, 4096, 1u << 20, 4u << 20 };
	struct reader *r = reader_open(0);
	unsigned rooms;
	struct feed *f = waiting(kept[_i], &rooms);

	ck_assert_uint_eq(fill(f), 1000); /* nobody follows it */
	attach(r, f, feed_last(f));
	run();
	for (unsigned i = 0; i < 5; i++) {
		link_pause(r->link);
		ck_assert_uint_lt(fill(f), 80);
		ck_assert_uint_eq(rooms, i);
		link_resume(r->link);
		run();
		ck_assert_uint_eq(rooms, i + 1);
	}
	completed(f);
	run();
	check_done(r, f);
	ck_assert_uint_eq(r->ngaps, 0);
}
END_TEST

START_TEST(who_reads_no_more_is_waited_for_no_longer_until_it_does) /* OP-17, OP-40 */
{
	struct reader *r = reader_open(0);
	unsigned rooms;
	struct feed *f = waiting(4096, &rooms);

	attach(r, f, 0);
	link_pause(r->link);
	ck_assert_uint_lt(fill(f), 80);
	grow_old(r, f, PACE_MS / 2);
	ck_assert_uint_eq(rooms, 0);
	grow_old(r, f, PACE_MS / 2);
	ck_assert_uint_eq(rooms, 1);
	ck_assert_uint_eq(fill(f), 1000);
	link_resume(r->link);
	run();
	ck_assert_uint_eq(r->expected, feed_last(f) + 1);
	ck_assert_uint_eq(r->ngaps, 1);
	link_pause(r->link);
	ck_assert_uint_lt(fill(f), 80);
	ck_assert_uint_eq(rooms, 1);
	link_resume(r->link);
	run();
	ck_assert_uint_eq(rooms, 2);
	ck_assert_uint_eq(r->ngaps, 1);
}
END_TEST

START_TEST(any_number_who_never_read_are_waited_for_once) /* OP-17 */
{
	struct reader *r;
	unsigned rooms;
	struct feed *f = waiting(4096, &rooms);

	for (unsigned i = 0; i < 100; i++) {
		r = reader_open(i % SUBSCRIBERS_MAX);
		link_pause(r->link);
		attach(r, f, 0);
		if (i == 0) {
			ck_assert_uint_lt(fill(f), 80);
			grow_old(r, f, PACE_MS);
			ck_assert_uint_eq(rooms, 1);
		}
		ck_assert_uint_eq(fill(f), 1000);
		if (i % SUBSCRIBERS_MAX == SUBSCRIBERS_MAX - 1)
			for (unsigned j = 0; j < SUBSCRIBERS_MAX; j++) {
				link_close(readers[j].link);
				link_close(readers[j].client.link);
				run();
			}
	}
	ck_assert_uint_eq(rooms, 1);
}
END_TEST

START_TEST(who_goes_away_is_waited_for_no_longer) /* OP-26 */
{
	struct reader *r = reader_open(0);
	unsigned rooms;
	struct feed *f = waiting(4096, &rooms);

	attach(r, f, 0);
	link_pause(r->link);
	ck_assert_uint_lt(fill(f), 80);
	link_close(r->link);
	run();
	ck_assert_uint_eq(rooms, 1);
	ck_assert_uint_eq(f->nsubscribers, 0);
	ck_assert_uint_eq(fill(f), 1000);
}
END_TEST

START_TEST(whoever_submitted_it_is_answered_when_it_is_on_record) /* OP-7, OP-38 */
{
	static const struct {
		bool recorded;
	} table[] = { { true }, { false } };

	for (unsigned i = 0; i < countof(table); i++) {
		struct reader *r = reader_open(0), *again = reader_open(1);
		struct feed *f = submitted("op-1");
		struct msg_operation_submit m = { .kind = operation_kind_command };
		struct subscriber *s;
		uint32_t msgid;

		ck_assert_int_eq(
		    link_request(r->link, MSG_operation_submit, &m, &msgid), 0);
		ck_assert_int_eq(subscriber_create(f, &r->client, 0, &s), 0);
		subscriber_wait(s, msgid, false);
		ck_assert_int_eq(
		    link_request(again->link, MSG_operation_submit, &m, &msgid), 0);
		ck_assert_int_eq(subscriber_create(f, &again->client, 0, &s), 0);
		subscriber_wait(s, msgid, true);
		ck_assert_int_eq(subscriber_create(f, &again->client, 0, &s), -EALREADY);
		run();
		ck_assert_str_eq(r->answer, "");
		if (table[i].recorded)
			accepted(f);
		else
			feed_refuse(f, "audit_unavailable", "");
		run();
		ck_assert_str_eq(r->answer, table[i].recorded ? "op-1" : "");
		ck_assert_str_eq(again->answer, r->answer);
		ck_assert(!r->existing);
		ck_assert_int_eq(again->existing, table[i].recorded);
		ck_assert_str_eq(r->refusal, table[i].recorded ? "" : "audit_unavailable");
		ck_assert_str_eq(again->refusal, r->refusal);
		ck_assert_uint_eq(again->nevents, table[i].recorded);
		if (table[i].recorded)
			feed_list_finish(&list);
		ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-1")));
		link_close(r->link);
		link_close(again->link);
		run();
	}
}
END_TEST

START_TEST(followers_are_bounded)
{
	struct feed *f = begun("op-1");
	struct subscriber *s;
	char id[FEED_ID_MAX];

	for (unsigned i = 0; i <= SUBSCRIBERS_MAX; i++)
		ck_assert_int_eq(subscriber_create(f, &reader_open(i)->client, 0, &s),
		    i < SUBSCRIBERS_MAX ? 0 : -ENOSPC);
	/* Who follows already may begin again. */
	ck_assert_int_eq(subscriber_create(f, &readers[3].client, 0, &s), 0);
	ck_assert_uint_eq(f->nsubscribers, SUBSCRIBERS_MAX);
	for (unsigned i = 0; i < SUBSCRIPTIONS_MAX; i++) {
		snprintf(id, sizeof id, "op-more-%u", i);
		ck_assert_int_eq(subscriber_create(begun(id), &readers[3].client, 0, &s),
		    i < SUBSCRIPTIONS_MAX - 1 ? 0 : -ENOSPC);
	}
}
END_TEST

/* Takes whatever is queued, so many times, and hands it to nobody. */
static unsigned swallows;

static ssize_t
swallow(int fd, const void *p, size_t n)
{
	(void)fd;
	(void)p;
	if (swallows > 0) {
		swallows--;
		return (ssize_t)n;
	}
	errno = EAGAIN;
	return -1;
}

static const struct link_io swallowing = { read, swallow };

/* A reader of many operations: no one of them keeps the others waiting. */
START_TEST(each_of_a_clients_operations_has_its_turn)
{
	struct reader *r = reader_open(0);
	struct feed *flood = begun("op-1"), *few = begun("op-2");
	struct subscriber *s;

	ck_assert_int_eq(subscriber_create(flood, &r->client, 0, &s), 0);
	ck_assert_int_eq(subscriber_create(few, &r->client, 0, &s), 0);
	while (link_queued(r->client.link) < SUBSCRIBER_WINDOW)
		output(flood, sizeof bytes);
	completed(few);
	ck_assert_uint_eq(few->nsubscribers, 1);
	subscribers_on_drained(&r->client); /* its queue is full: nothing moves */
	ck_assert_uint_eq(few->nsubscribers, 1);
	/* All of the flood is there to be read, and the other is not behind it. */
	for (unsigned i = 0; i < 12; i++)
		output(flood, sizeof bytes);
	swallows = 2;
	link_set_io(r->client.link, &swallowing);
	run();
	ck_assert_uint_eq(swallows, 0);
	ck_assert_uint_eq(few->nsubscribers, 0);
	ck_assert_uint_eq(flood->nsubscribers, 1);
}
END_TEST

START_TEST(a_forgotten_session_tells_who_still_reads_how_it_ended) /* D-2 */
{
	struct reader *r = reader_open(0);
	struct feed *f = begun("op-1");

	attach(r, f, 0);
	run();
	link_pause(r->link);
	for (unsigned i = 0; i < 100; i++) {
		output(f, sizeof bytes);
		run();
	}
	completed(f);
	run();
	ck_assert_uint_eq(r->client.nsubscriptions, 1);
	feed_list_finish(&list);
	ck_assert_uint_eq(r->client.nsubscriptions, 0);
	link_resume(r->link);
	run();
	ck_assert_uint_eq(r->expected, 103);
	ck_assert_int_eq(r->last, event_type_completed);
	ck_assert_uint_eq(r->ngaps, 1);
}
END_TEST

START_TEST(operations_that_ended_are_bounded)
{
	char id[FEED_ID_MAX];
	struct feed *open = begun("op-open");

	for (unsigned i = 0; i < FEEDS_LIST_MAX + 10; i++) {
		snprintf(id, sizeof id, "op-%u", i);
		completed(begun(id));
	}
	ck_assert_uint_eq(list.nended, FEEDS_LIST_MAX);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-9")));
	ck_assert_ptr_nonnull(feed_find(broker.feeds, slice_of("op-10")));
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of("op-open")), open);
	completed(open); /* the oldest of all is the last to end: another one goes */
	ck_assert_uint_eq(list.nended, FEEDS_LIST_MAX);
	ck_assert_ptr_eq(feed_find(broker.feeds, slice_of("op-open")), open);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-10")));
	for (unsigned i = 0; i < FEEDS_LOOSE_MAX + 10; i++) {
		struct past past = { .ending = ENDING_host_lost };

		snprintf(id, sizeof id, "op-loose-%u", i);
		ck_assert_int_eq(feeds_keep(broker.feeds, NULL, id, &past, 7, NULL), 0);
	}
	ck_assert_uint_eq(broker.feeds->loose.nended, FEEDS_LOOSE_MAX);
	ck_assert_ptr_null(feed_find(broker.feeds, slice_of("op-loose-9")));
	ck_assert_ptr_nonnull(feed_find(broker.feeds, slice_of("op-loose-10")));
}
END_TEST

START_TEST(what_a_broker_before_left_is_a_gap_and_its_ending) /* D-11, OP-41 */
{
	struct past past = { .kind = operation_kind_turn, .ending = ENDING_host_lost };
	struct reader *r = reader_open(0), *mine = reader_open(1);

	ck_assert_int_eq(feeds_keep(broker.feeds, NULL, "op-loose", &past, 1002, NULL), 0);
	ck_assert_int_eq(feeds_keep(broker.feeds, &list, "op-1", &past, 1002, NULL), 0);
	attach(r, feed_find(broker.feeds, slice_of("op-loose")), 3);
	attach(mine, feed_find(broker.feeds, slice_of("op-1")), 0);
	run();
	ck_assert_uint_eq(r->lost, 1001 - 3);
	ck_assert_uint_eq(r->nevents, 2);
	ck_assert_str_eq(r->code, "unavailable");
	ck_assert_uint_eq(mine->lost, 1000);
	ck_assert_uint_eq(mine->nevents, 3);
	ck_assert_str_eq(mine->code, "unavailable");
}
END_TEST

START_TEST(what_is_shown_of_one)
{
	struct feed *f = submitted("op-1");
	struct buf b = { 0 };
	struct value v;

	accepted(f);
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "queued"));
	ck_assert(value_get(buf_slice(&b), "sequence", &v) && v.uint == 1);
	ck_assert(value_get(buf_slice(&b), "session", &v) && slice_is(v.bytes, "s-1"));
	ck_assert(value_get(buf_slice(&b), "kind", &v) && slice_is(v.bytes, "command"));
	ck_assert(value_get(buf_slice(&b), "acceptedAt", &v) && v.uint > 0);
	ck_assert(!value_get(buf_slice(&b), "startedAt", &v));
	feed_begin(f);
	for (unsigned i = 0; i < 40; i++)
		output(f, sizeof bytes);
	b.n = 0;
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "running"));
	ck_assert(value_get(buf_slice(&b), "retainedFrom", &v) && v.uint == f->log.first);
	completed(f);
	b.n = 0;
	feed_pack(&b, f);
	ck_assert(value_get(buf_slice(&b), "state", &v) && slice_is(v.bytes, "succeeded"));
	ck_assert(value_get(buf_slice(&b), "endedAt", &v) && !value_get(buf_slice(&b), "code", &v));
	buf_finish(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("feed");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, everybody_is_told_each_event_once_and_in_order);
	tcase_add_test(t, from_every_event_on_the_rest_is_the_same);
	tcase_add_test(t, a_slow_one_loses_its_own_events_only);
	tcase_add_test(t, what_is_gone_is_named_and_what_it_began_with_is_known);
	tcase_add_test(t, an_ending_that_is_not_kept_is_told_as_the_record_has_it);
	tcase_add_test(t, without_retention_who_keeps_up_reads_all_and_who_comes_late_the_ending);
	tcase_add_loop_test(t, it_waits_for_who_reads_whatever_is_kept, 0, 4);
	tcase_add_test(t, who_reads_no_more_is_waited_for_no_longer_until_it_does);
	tcase_add_test(t, any_number_who_never_read_are_waited_for_once);
	tcase_add_test(t, who_goes_away_is_waited_for_no_longer);
	tcase_add_test(t, whoever_submitted_it_is_answered_when_it_is_on_record);
	tcase_add_test(t, followers_are_bounded);
	tcase_add_test(t, each_of_a_clients_operations_has_its_turn);
	tcase_add_test(t, a_forgotten_session_tells_who_still_reads_how_it_ended);
	tcase_add_test(t, operations_that_ended_are_bounded);
	tcase_add_test(t, what_a_broker_before_left_is_a_gap_and_its_ending);
	tcase_add_test(t, what_is_shown_of_one);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
