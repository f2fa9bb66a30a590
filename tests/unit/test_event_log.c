/*
 * The log of an operation's events: what is kept, what goes first, and what it costs.
 */
#include <check.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "broker/event_log.h"
#include "common/util.h"

#define KIB 1024u

/* A sanitizer's allocator counts for itself. */
#ifdef CAISSON_ASAN
#define ALLOCATED() ((size_t)0)
#else
#define ALLOCATED() (mallinfo2().uordblks)
#endif

static struct event_store store;
static uint8_t bytes[64 * KIB];

static void
begin(uint64_t operation_bytes, uint64_t total_bytes)
{
	const struct event_limits limits = { operation_bytes, total_bytes, 1000 };

	event_store_init(&store, &limits);
}

/* Appends an output of `n` bytes, each of which says its number, and makes room. */
static void
append(struct event_log *log, size_t n)
{
	struct msg_operation_event e = { .sequence = log->next, .type = event_type_output,
		.has_stream = true, .stream = stream_stderr, .has_data = true };

	memset(bytes, (int)(log->next & 0xff), n);
	e.data = (struct slice){ bytes, n };
	event_log_append(log, &e);
	event_log_trim(log, 0);
}

static void
append_ending(struct event_log *log, size_t n, uint64_t now_ms)
{
	struct msg_operation_event e = { .sequence = log->next, .type = event_type_completed,
		.has_body = true, .body = { bytes, n } };

	event_log_append(log, &e);
	event_log_end(log, now_ms);
	event_log_trim(log, 0);
}

/* What a log says of itself is so: everything from first to next is there, and nothing else. */
static void
check_whole(const struct event_log *log)
{
	struct msg_operation_event e;
	uint64_t held = 0;

	ck_assert(!event_log_read(log, log->first - 1, &e));
	ck_assert(!event_log_read(log, log->next, &e));
	for (uint64_t i = log->first; i < log->next; i++) {
		ck_assert(event_log_read(log, i, &e));
		ck_assert_uint_eq(e.sequence, i);
		held += (e.has_data ? e.data.n : e.body.n) + EVENT_COST;
		if (e.has_data && e.data.n > 0) {
			ck_assert_uint_eq(e.data.p[0], i & 0xff);
			ck_assert_uint_eq(e.data.p[e.data.n - 1], i & 0xff);
		}
	}
	ck_assert_uint_eq(held, log->bytes);
}

START_TEST(events_are_read_as_they_were_appended)
{
	const uint8_t packed[] = { 0x81, 0xa1, 'a', 0x01 };
	struct msg_operation_event e = { .sequence = 1, .type = event_type_accepted,
		.has_body = true, .body = { packed, sizeof packed } };
	struct event_log log;

	begin(KIB, KIB);
	event_log_init(&log, &store, 1);
	event_log_append(&log, &e);
	e = (struct msg_operation_event){ .sequence = 2, .type = event_type_output,
		.has_stream = true, .stream = stream_stdout, .has_data = true,
		.data = { packed, 2 } };
	event_log_append(&log, &e);
	e = (struct msg_operation_event){ .sequence = 3, .type = event_type_progress };
	event_log_append(&log, &e);

	ck_assert(event_log_read(&log, 1, &e));
	ck_assert_int_eq(e.type, event_type_accepted);
	ck_assert(e.has_body && !e.has_data && !e.has_stream);
	ck_assert(slice_equal(e.body, (struct slice){ packed, sizeof packed }));
	ck_assert(event_log_read(&log, 2, &e));
	ck_assert(!e.has_body && e.has_data && e.has_stream && e.stream == stream_stdout);
	ck_assert(slice_equal(e.data, (struct slice){ packed, 2 }));
	ck_assert(event_log_read(&log, 3, &e));
	ck_assert(!e.has_body && !e.has_data);
	ck_assert(!event_log_read(&log, 0, &e));
	ck_assert(!event_log_read(&log, 4, &e));
	event_log_finish(&log);
	ck_assert_uint_eq(store.bytes, 0);
}
END_TEST

START_TEST(what_does_not_fit_goes_from_the_front)
{
	static const size_t sizes[] = { 1, 100, 5000, 0, 64 * KIB, 17, 17, 17, 30000, 1, 1, 1 };
	struct event_log log;

	begin(64 * KIB + EVENT_COST, 1u << 30);
	event_log_init(&log, &store, 1);
	for (unsigned i = 0; i < 5000; i++) {
		append(&log, sizes[i % countof(sizes)]);
		ck_assert_uint_eq(log.next, i + 2);
		ck_assert_uint_gt(log.next, log.first); /* the last one always fits here */
		ck_assert_uint_le(log.bytes, store.limits.operation_bytes);
		if (i % 31 == 0)
			check_whole(&log);
	}
	event_log_finish(&log);
}
END_TEST

START_TEST(a_bound_of_nothing_keeps_nothing_but_the_ending)
{
	struct event_log log;

	begin(0, KIB);
	event_log_init(&log, &store, 1);
	for (unsigned i = 0; i < 10; i++) {
		append(&log, 10);
		ck_assert_uint_eq(log.first, log.next);
		ck_assert_uint_eq(store.bytes, 0);
	}
	append_ending(&log, 500, 1);
	ck_assert_uint_eq(log.next - log.first, 1);
	check_whole(&log);
	event_log_finish(&log);
}
END_TEST

START_TEST(an_event_is_there_until_it_was_handed_out)
{
	struct msg_operation_event e = { .sequence = 1, .type = event_type_output,
		.has_stream = true, .has_data = true, .data = { bytes, sizeof bytes } };
	struct event_log log;

	begin(10, 10);
	event_log_init(&log, &store, 1);
	event_log_append(&log, &e);
	ck_assert(event_log_read(&log, 1, &e));
	event_log_trim(&log, 0);
	ck_assert(!event_log_read(&log, 1, &e));
	event_log_finish(&log);
}
END_TEST

START_TEST(numbers_may_begin_behind_what_is_lost)
{
	struct msg_operation_event e;
	struct event_log log;

	begin(KIB, KIB);
	event_log_init(&log, &store, (1u << 20) + 2);
	ck_assert(!event_log_read(&log, (1u << 20) + 1, &e));
	append_ending(&log, 10, 1);
	ck_assert(event_log_read(&log, (1u << 20) + 2, &e));
	check_whole(&log);
	event_log_finish(&log);
}
END_TEST

/* ---- all of them ---------------------------------------------------------------------- */

START_TEST(the_oldest_that_ended_goes_first_but_for_its_ending)
{
	struct event_log logs[3];

	begin(1u << 20, 30 * KIB);
	for (unsigned i = 0; i < 3; i++)
		event_log_init(&logs[i], &store, 1);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < 10; k++)
			append(&logs[i], KIB - EVENT_COST);
		append_ending(&logs[i], 100, 1 + i);
	}
	for (unsigned k = 0; k < 14; k++)
		append(&logs[2], KIB - EVENT_COST);
	ck_assert_uint_gt(logs[0].first, 1);
	ck_assert_uint_lt(logs[0].first, logs[0].next - 1);
	ck_assert_uint_eq(logs[1].first, 1);
	ck_assert_uint_eq(logs[2].first, 1);
	for (unsigned k = 0; k < 20; k++)
		append(&logs[2], KIB - EVENT_COST);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(logs[i].first, logs[i].next - 1); /* the ending */
		check_whole(&logs[i]);
	}
	ck_assert_uint_le(store.bytes, store.limits.total_bytes);
	/* Endings go last of all: when those that run are empty. */
	store.limits.total_bytes = 100 + EVENT_COST;
	event_log_trim(&logs[2], 0);
	ck_assert_uint_eq(logs[2].bytes, 0);
	ck_assert_uint_eq(logs[0].bytes, 0);
	ck_assert_uint_eq(logs[1].bytes, 100 + EVENT_COST);
	for (unsigned i = 0; i < 3; i++)
		event_log_finish(&logs[i]);
	ck_assert_uint_eq(store.bytes, 0);
}
END_TEST

START_TEST(what_is_on_its_way_stays_beyond_the_bound) /* OP-40 */
{
	struct event_log log;
	uint64_t behind;

	begin(4096, 1u << 20);
	event_log_init(&log, &store, 1);
	for (unsigned i = 0; i < 200; i++) {
		append(&log, 100 + i);
		behind = event_log_behind(&log, log.next - 3);
		if (i >= 3)
			ck_assert_uint_eq(behind, 3 * (100 + i - 1 + EVENT_COST));
	}
	ck_assert_uint_eq(event_log_behind(&log, log.next), 0);
	ck_assert_uint_eq(event_log_behind(&log, 1), log.bytes);
	ck_assert_uint_le(log.bytes, 4096);
	for (unsigned i = 0; i < 100; i++) {
		struct msg_operation_event e = { .sequence = log.next,
			.type = event_type_output, .has_stream = true, .has_data = true,
			.data = { bytes, 1000 } };

		event_log_append(&log, &e);
		event_log_trim(&log, 10 * (1000 + EVENT_COST));
	}
	ck_assert_uint_eq(log.bytes, 10 * (1000 + EVENT_COST));
	event_log_trim(&log, 0);
	ck_assert_uint_le(log.bytes, 4096);
	event_log_finish(&log);
}
END_TEST

START_TEST(what_of_a_log_surely_stays_does) /* OP-40 */
{
	struct event_log logs[9] = { 0 }, ended;
	uint64_t next[9];

	begin(64 * KIB, 128 * KIB);
	event_log_init(&ended, &store, 1);
	append(&ended, 100);
	append_ending(&ended, 8 * KIB, 1);
	for (unsigned i = 0; i < countof(logs); i++) {
		event_log_init(&logs[i], &store, 1);
		append(&logs[i], 10);
		next[i] = logs[i].next;
	}
	/* Each is as far ahead of what was read of it as it may be; some have much behind that. */
	for (unsigned round = 0; round < 2000; round++) {
		unsigned i = round % countof(logs);
		size_t n = 100 + round % 500;

		if (event_log_behind(&logs[i], next[i]) + n + EVENT_COST >
		    event_log_room(&logs[i], 0))
			next[i] = logs[i].next;
		append(&logs[i], i % 3 == 0 ? n : n / 8);
		for (unsigned j = 0; j < countof(logs); j++)
			ck_assert_uint_ge(next[j], logs[j].first);
	}
	ck_assert_uint_gt(event_log_room(&logs[0], 0), 4 * KIB);
	ck_assert_uint_le(event_log_room(&logs[0], 0), 128 * KIB / 18);
	for (unsigned i = 0; i < countof(logs); i++)
		event_log_finish(&logs[i]);
	event_log_finish(&ended);
	ck_assert_uint_eq(store.last_bytes, 0);
	ck_assert_uint_eq(store.nopen, 0);
}
END_TEST

START_TEST(who_fills_its_log_takes_nothing_from_the_others) /* OP-17, OP-40 */
{
	struct event_log quiet[8], flood;

	begin(1u << 20, 100 * KIB);
	event_log_init(&flood, &store, 1);
	for (unsigned i = 0; i < countof(quiet); i++) {
		event_log_init(&quiet[i], &store, 1);
		for (unsigned k = 0; k < 5; k++)
			append(&quiet[i], 500);
	}
	for (unsigned k = 0; k < 3000; k++) {
		append(&flood, 1 + k % 30000);
		ck_assert_uint_le(store.bytes, store.limits.total_bytes);
	}
	for (unsigned i = 0; i < countof(quiet); i++) {
		ck_assert_uint_eq(quiet[i].first, 1);
		check_whole(&quiet[i]);
		event_log_finish(&quiet[i]);
	}
	check_whole(&flood);
	event_log_finish(&flood);
}
END_TEST

START_TEST(time_is_counted_from_the_ending)
{
	struct event_log a, b;

	begin(KIB, KIB);
	event_log_init(&a, &store, 1);
	event_log_init(&b, &store, 1);
	append(&a, 10);
	append(&b, 10);
	ck_assert_uint_eq(event_store_expire(&store, 1u << 30), 0); /* none has ended */
	append_ending(&a, 10, 5000);
	append_ending(&b, 10, 5500);
	ck_assert_uint_eq(event_store_expire(&store, 5999), 6000);
	ck_assert_uint_eq(a.next - a.first, 2);
	ck_assert_uint_eq(event_store_expire(&store, 6000), 6500);
	ck_assert_uint_eq(a.first, a.next);
	ck_assert_uint_eq(b.next - b.first, 2);
	ck_assert_uint_eq(event_store_expire(&store, 6500), 0);
	ck_assert_uint_eq(store.bytes, 0);
	event_log_finish(&a);
	event_log_finish(&b);
}
END_TEST

/* Any order of what can happen: the sums stay right, and nothing is lost but from a front. */
START_TEST(whatever_happens_the_sums_are_right)
{
	static struct event_log logs[12];
	uint64_t sum, now_ms = 1;
	unsigned seed = 7;

	begin(8 * KIB, 40 * KIB);
	for (unsigned i = 0; i < countof(logs); i++)
		event_log_init(&logs[i], &store, 1);
	for (unsigned step = 0; step < 20000; step++) {
		struct event_log *log = &logs[rand_r(&seed) % countof(logs)];
		unsigned what = (unsigned)rand_r(&seed) % 100;

		if (!log->has_ended && what < 90) {
			append(log, (size_t)rand_r(&seed) % 3000);
		} else if (!log->has_ended) {
			append_ending(log, (size_t)rand_r(&seed) % 12000, now_ms);
		} else if (what < 30) {
			event_log_finish(log);
			event_log_init(log, &store, 1 + what);
		}
		now_ms += what % 3;
		event_store_expire(&store, now_ms);
		sum = 0;
		for (unsigned i = 0; i < countof(logs); i++)
			sum += logs[i].bytes;
		ck_assert_uint_eq(sum, store.bytes);
		ck_assert_uint_le(sum, store.limits.total_bytes);
		if (step % 100 == 0)
			for (unsigned i = 0; i < countof(logs); i++)
				check_whole(&logs[i]);
	}
	for (unsigned i = 0; i < countof(logs); i++)
		event_log_finish(&logs[i]);
	ck_assert_uint_eq(store.bytes, 0);
}
END_TEST

START_TEST(memory_follows_what_is_kept) /* OP-17 */
{
	static struct event_log logs[2000];
	size_t before = ALLOCATED();

	begin(1u << 20, 64u << 20);
	for (unsigned i = 0; i < countof(logs); i++)
		event_log_init(&logs[i], &store, 1);
	ck_assert_uint_eq(ALLOCATED(), before); /* an empty one takes nothing */
	for (unsigned i = 0; i < 1024; i++) { /* 64 MiB in chunks, past one bound of 1 MiB */
		append(&logs[0], sizeof bytes);
		ck_assert_uint_le(ALLOCATED() - before, (1u << 20) + 64 * KIB);
	}
	for (unsigned i = 0; i < 50000; i++) { /* and in lines */
		append(&logs[1], 20);
		if (i % 1000 == 0)
			ck_assert_uint_le(ALLOCATED() - before, (2u << 20) + 64 * KIB);
	}
	for (unsigned i = 0; i < countof(logs); i++)
		event_log_finish(&logs[i]);
	/* but for what the allocator keeps at hand for the next one */
	ck_assert_uint_le(ALLOCATED(), before + 64 * KIB);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("event_log");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_test(t, events_are_read_as_they_were_appended);
	tcase_add_test(t, what_does_not_fit_goes_from_the_front);
	tcase_add_test(t, a_bound_of_nothing_keeps_nothing_but_the_ending);
	tcase_add_test(t, an_event_is_there_until_it_was_handed_out);
	tcase_add_test(t, numbers_may_begin_behind_what_is_lost);
	tcase_add_test(t, the_oldest_that_ended_goes_first_but_for_its_ending);
	tcase_add_test(t, what_is_on_its_way_stays_beyond_the_bound);
	tcase_add_test(t, what_of_a_log_surely_stays_does);
	tcase_add_test(t, who_fills_its_log_takes_nothing_from_the_others);
	tcase_add_test(t, time_is_counted_from_the_ending);
	tcase_add_test(t, whatever_happens_the_sums_are_right);
	tcase_add_test(t, memory_follows_what_is_kept);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
