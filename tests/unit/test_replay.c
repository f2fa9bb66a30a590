/*
 * Keys of calls: what is known of each, and what happens when there is no room (TU-70).
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/replay.h"
#include "common/util.h"
#include "common/walk.h"

static struct replay *replay;
static const uint8_t print[REPLAY_DIGEST_BYTES] = { 1 }, other[REPLAY_DIGEST_BYTES] = { 2 };

static void
setup(void)
{
	replay = replay_create();
	ck_assert_ptr_nonnull(replay);
}

static void
teardown(void)
{
	replay_destroy(replay);
}

/* The digest number `n`, of which the first bytes are as even as a digest's. */
static const uint8_t *
key(uint64_t n)
{
	static uint8_t k[REPLAY_DIGEST_BYTES];
	uint64_t hash = n * 0x9e3779b97f4a7c15u;

	memcpy(k, &hash, sizeof(hash));
	memcpy(k + sizeof(hash), &n, sizeof(n));
	return k;
}

static enum replay_state
look(uint64_t n, uint64_t now_ms, struct msg_tool_invoke_reply *ret)
{
	return replay_look(replay, key(n), print, now_ms, ret);
}

static struct replay_entry *
begin(uint64_t n, const char *actor)
{
	return replay_begin(replay, key(n), print, slice_of(actor));
}

static int
restore(uint64_t n, const char *actor)
{
	return replay_restore(replay, key(n), print, slice_of(actor), REPLAY_expired);
}

static void
complete(struct replay_entry *e, size_t bytes, uint64_t now_ms)
{
	struct msg_tool_invoke_reply reply = { .callId = slice_of("first"),
		.tool = slice_of("t"), .status = call_status_succeeded, .has_output = true };
	struct buf output = { 0 };
	char *text = calloc(1, bytes + 1);

	memset(text, 'x', bytes);
	pack_str_n(&output, text, bytes);
	reply.output = buf_slice(&output);
	replay_complete(replay, e, &reply, now_ms);
	buf_finish(&output);
	free(text);
}

START_TEST(a_key_goes_from_state_to_state)
{
	struct msg_tool_invoke_reply reply;
	struct replay_entry *e;

	ck_assert_int_eq(look(1, 0, &reply), REPLAY_new);
	e = begin(1, "agent:a");
	ck_assert_int_eq(look(1, 0, &reply), REPLAY_pending);
	ck_assert_int_eq(look(2, 0, &reply), REPLAY_new);
	ck_assert_int_eq(replay_look(replay, key(1), other, 0, &reply), REPLAY_conflict);
	complete(e, 10, 0);
	ck_assert_int_eq(look(1, 5, &reply), REPLAY_completed);
	ck_assert(slice_is(reply.callId, "first") && reply.status == call_status_succeeded);
	ck_assert_uint_eq(reply.output.n, 11);
	ck_assert_int_eq(replay_look(replay, key(1), other, 0, &reply), REPLAY_conflict);
	/* Its answer is kept for so long, and the key for ever. */
	ck_assert_int_eq(look(1, REPLAY_BODY_MS - 1, &reply), REPLAY_completed);
	ck_assert_int_eq(look(1, REPLAY_BODY_MS, &reply), REPLAY_expired);
	ck_assert_int_eq(look(1, 5, &reply), REPLAY_expired);
	e = begin(3, "agent:a");
	replay_interrupt(replay, e);
	ck_assert_int_eq(look(3, 0, &reply), REPLAY_interrupted);
	e = begin(4, "agent:a");
	replay_free(replay, e);
	ck_assert_int_eq(look(4, 0, &reply), REPLAY_new);
}
END_TEST

START_TEST(the_record_says_it_again_and_nothing_changes)
{
	struct msg_tool_invoke_reply reply;

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(replay_restore(replay, key(1), print, slice_of("agent:a"),
				     REPLAY_expired), 0);
		ck_assert_int_eq(replay_restore(replay, key(2), print, slice_of("agent:b"),
				     REPLAY_interrupted), 0);
	}
	ck_assert_int_eq(look(1, 0, &reply), REPLAY_expired);
	ck_assert_int_eq(look(2, 0, &reply), REPLAY_interrupted);
	ck_assert_int_eq(replay_look(replay, key(2), other, 0, &reply), REPLAY_conflict);
}
END_TEST

START_TEST(answers_are_bounded_and_the_oldest_go)
{
	struct msg_tool_invoke_reply reply;
	const size_t big = RESULT_MAX - 1024, fit = REPLAY_BYTES_MAX / (big + 256);
	uint64_t i;

	for (i = 0; i < fit + 3; i++)
		complete(begin(i, "agent:a"), big, i);
	for (i = 0; i < fit + 3; i++)
		ck_assert_int_eq(
		    look(i, fit, &reply), i < 3 ? REPLAY_expired : REPLAY_completed);
	/* Small ones, by their number. */
	for (i = 100; i < 100 + REPLAY_BODIES_MAX; i++)
		complete(begin(i, "agent:a"), 1, 100);
	ck_assert_int_eq(look(4, 100, &reply), REPLAY_expired);
	ck_assert_int_eq(look(100, 100, &reply), REPLAY_completed);
	complete(begin(99, "agent:a"), 1, 7);
	ck_assert_int_eq(look(100, 7, &reply), REPLAY_expired);
	ck_assert_int_eq(look(99, 7, &reply), REPLAY_completed);
}
END_TEST

START_TEST(without_room_nothing_begins_and_nothing_is_forgotten)
{
	struct msg_tool_invoke_reply reply;
	struct replay_entry *last = NULL;
	char actor[16];
	uint64_t i, n = 0;

	for (i = 0; i < REPLAY_ACTOR_MAX; i++)
		ck_assert_ptr_nonnull(last = begin(n++, "agent:flood"));
	ck_assert_ptr_null(begin(n, "agent:flood"));
	ck_assert_int_eq(look(n, 0, &reply), REPLAY_new);
	ck_assert_ptr_nonnull(begin(n++, "agent:other")); /* it is no other's loss */
	/* What is free again has its room again. */
	replay_free(replay, last);
	ck_assert_ptr_nonnull(begin(n++, "agent:flood"));
	ck_assert_ptr_null(begin(n, "agent:flood"));
	while (n <= REPLAY_KEYS_MAX) {
		snprintf(actor, sizeof(actor), "agent:%u", (unsigned)(n / 50000));
		ck_assert_ptr_nonnull(begin(n++, actor));
	}
	ck_assert_ptr_null(begin(n, "agent:late"));
	ck_assert_int_eq(look(0, 0, &reply), REPLAY_pending);
	ck_assert_int_eq(look(n - 1, 0, &reply), REPLAY_pending);
}
END_TEST

/* A ledger is a process of its own, and may say what it likes. */
START_TEST(a_record_without_end_is_refused)
{
	char actor[24];
	uint64_t n;
	int ret = 0;

	for (n = 0; ret == 0 && n <= REPLAY_RECORD_MAX; n++) {
		snprintf(actor, sizeof(actor), "agent:%u", (unsigned)n);
		ret = restore(n, actor);
	}
	ck_assert_int_eq(ret, -ENOSPC);
	ck_assert_uint_eq(n, REPLAY_RECORD_MAX + 1);
	ck_assert_int_eq(restore(0, "agent:0"), 0); /* told twice, it is no other */
}
END_TEST

START_TEST(every_state_that_is_a_refusal_has_its_code)
{
	ck_assert_str_eq(replay_code(REPLAY_conflict), "replay_conflict");
	ck_assert_str_eq(replay_code(REPLAY_pending), "replay_pending");
	ck_assert_str_eq(replay_code(REPLAY_expired), "replay_expired");
	ck_assert_str_eq(replay_code(REPLAY_interrupted), "replay_interrupted");
	ck_assert_str_eq(replay_code(REPLAY_unavailable), "replay_unavailable");
	ck_assert_ptr_null(replay_code(REPLAY_new));
	ck_assert_ptr_null(replay_code(REPLAY_completed));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("replay");
	TCase *t = tcase_create("keys");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_key_goes_from_state_to_state);
	tcase_add_test(t, the_record_says_it_again_and_nothing_changes);
	tcase_add_test(t, answers_are_bounded_and_the_oldest_go);
	tcase_add_test(t, without_room_nothing_begins_and_nothing_is_forgotten);
	tcase_add_test(t, a_record_without_end_is_refused);
	tcase_add_test(t, every_state_that_is_a_refusal_has_its_code);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
