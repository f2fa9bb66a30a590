/*
 * What clients read of an operation: each event once and in order, whoever reads how fast, and who
 * is waited for.
 */
#include <check.h>

#include "tests/unit/feed_fixture.h"

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

int
main(void)
{
	Suite *s = suite_create("feed_readers");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, everybody_is_told_each_event_once_and_in_order);
	tcase_add_test(t, from_every_event_on_the_rest_is_the_same);
	tcase_add_test(t, a_slow_one_loses_its_own_events_only);
	tcase_add_loop_test(t, it_waits_for_who_reads_whatever_is_kept, 0, 4);
	tcase_add_test(t, who_reads_no_more_is_waited_for_no_longer_until_it_does);
	tcase_add_test(t, any_number_who_never_read_are_waited_for_once);
	tcase_add_test(t, who_goes_away_is_waited_for_no_longer);
	tcase_add_test(t, whoever_submitted_it_is_answered_when_it_is_on_record);
	tcase_add_test(t, followers_are_bounded);
	tcase_add_test(t, each_of_a_clients_operations_has_its_turn);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
