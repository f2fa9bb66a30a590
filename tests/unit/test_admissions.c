/*
 * Keys of admissions: what is the same request, whose key it is, and what happens without room.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/admissions.h"
#include "common/util.h"
#include "common/walk.h"

static struct digest *digest;
static struct admissions keys;
static struct admission_share alice;

static void
setup(void)
{
	static const uint8_t installation[32] = { 1, 2, 3 };

	digest = digest_create(installation);
	ck_assert_ptr_nonnull(digest);
	memset(&keys, 0, sizeof keys);
	alice = (struct admission_share){ 0 };
}

static void
teardown(void)
{
	admissions_finish(&keys, &alice);
	ck_assert_uint_eq(alice.keys, 0);
	digest_destroy(digest);
}

static struct msg_operation_submit
submit(const char *session, const char *key)
{
	return (struct msg_operation_submit){ .kind = operation_kind_command,
		.has_session = true, .session = slice_of(session), .has_idempotencyKey = true,
		.idempotencyKey = slice_of(key), .has_shell = true,
		.shell = slice_of("make") };
}

static struct admission_key
made(const char *principal, const struct msg_operation_submit *m)
{
	struct admission_key k;

	ck_assert_int_eq(admission_key_make(digest, principal, MSG_operation_submit, m, &k), 0);
	return k;
}

static bool
same_key(const struct admission_key *a, const struct admission_key *b)
{
	return memcmp(a->key, b->key, sizeof a->key) == 0;
}

static bool
same_request(const struct admission_key *a, const struct admission_key *b)
{
	return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

/* The digests number `n`, of which the first bytes are as even as a digest's. */
static struct admission_key
numbered(uint64_t n)
{
	struct admission_key k = { 0 };
	uint64_t hash = n * 0x9e3779b97f4a7c15u;

	memcpy(k.key, &hash, sizeof hash);
	memcpy(k.key + sizeof hash, &n, sizeof n);
	return k;
}

START_TEST(a_key_is_its_principals_and_its_sessions) /* OP-38, D-10 */
{
	struct msg_operation_submit a = submit("s-1", "k"), b = submit("s-2", "k"),
				    c = submit("s-1", "k2");
	struct admission_key one = made("human:alice", &a), k;

	k = made("human:alice", &a);
	ck_assert(same_key(&one, &k) && same_request(&one, &k));
	k = made("human:bob", &a);
	ck_assert(!same_key(&one, &k) && same_request(&one, &k));
	k = made("human:alice", &b);
	ck_assert(!same_key(&one, &k) && same_request(&one, &k));
	k = made("human:alice", &c);
	ck_assert(!same_key(&one, &k) && same_request(&one, &k));
}
END_TEST

START_TEST(where_one_part_ends_and_the_next_begins_is_part_of_the_key)
{
	struct msg_operation_submit a = submit("s-1", "k"), b = submit("s-1k", "x");
	struct admission_key one, two;

	b.idempotencyKey = slice_of("");
	one = made("human:a", &a);
	two = made("human:a", &b);
	ck_assert(!same_key(&one, &two));
	two = made("human:as-1", &b);
	ck_assert(!same_key(&one, &two));
}
END_TEST

START_TEST(what_is_asked_for_is_the_fingerprint)
{
	struct msg_operation_submit base = submit("s-1", "k"), m;
	struct admission_key one = made("human:a", &base), two;

	m = base;
	m.shell = slice_of("make clean");
	two = made("human:a", &m);
	ck_assert(!same_request(&one, &two));
	m = base;
	m.has_timeoutMs = true;
	m.timeoutMs = 1;
	two = made("human:a", &m);
	ck_assert(!same_request(&one, &two));
	m = base;
	m.has_content = true; /* an empty standard input is another thing than none */
	two = made("human:a", &m);
	ck_assert(!same_request(&one, &two));
	m = base;
	m.has_trace = m.has_messageTrace = true; /* which attempt it is: no part of it */
	m.trace = m.messageTrace = slice_of("t-2");
	two = made("human:a", &m);
	ck_assert(same_request(&one, &two));
}
END_TEST

START_TEST(the_order_of_members_is_no_difference)
{
	struct msg_operation_submit m = submit("s-1", "k");
	struct admission_key one, two;
	struct buf ab = { 0 }, ba = { 0 };

	pack_map(&ab, 2);
	pack_str(&ab, "A");
	pack_str(&ab, "1");
	pack_str(&ab, "B");
	pack_str(&ab, "2");
	pack_map(&ba, 2);
	pack_str(&ba, "B");
	pack_str(&ba, "2");
	pack_str(&ba, "A");
	pack_str(&ba, "1");
	m.has_env = true;
	m.env = buf_slice(&ab);
	one = made("human:a", &m);
	m.env = buf_slice(&ba);
	two = made("human:a", &m);
	ck_assert(same_request(&one, &two));
	buf_finish(&ab);
	buf_finish(&ba);
}
END_TEST

START_TEST(a_session_is_acquired_under_a_key_of_its_own)
{
	struct msg_session_acquire a = { .has_idempotencyKey = true,
		.idempotencyKey = slice_of("k"), .has_runtime = true,
		.runtime = slice_of("shell"), .has_leaseMs = true, .leaseMs = 1000 };
	struct msg_operation_submit m = submit("", "k");
	struct admission_key one, two;

	ck_assert_int_eq(
	    admission_key_make(digest, "human:a", MSG_session_acquire, &a, &one), 0);
	two = made("human:a", &m);
	ck_assert(!same_key(&one, &two));
	a.leaseMs = 2000;
	ck_assert_int_eq(
	    admission_key_make(digest, "human:a", MSG_session_acquire, &a, &two), 0);
	ck_assert(same_key(&one, &two) && !same_request(&one, &two));
	a.leaseMs = 1000;
	a.has_trace = true;
	a.trace = slice_of("t");
	ck_assert_int_eq(
	    admission_key_make(digest, "human:a", MSG_session_acquire, &a, &two), 0);
	ck_assert(same_request(&one, &two));
}
END_TEST

START_TEST(a_key_is_known_until_it_was_never_admitted)
{
	struct admission_key k = numbered(1), other = k;
	const char *id = NULL;

	other.fingerprint[0] = 1;
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_new);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-1"), 0);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_same);
	ck_assert_str_eq(id, "op-1");
	id = NULL;
	ck_assert_int_eq(admissions_look(&keys, &alice, &other, &id), ADMISSION_other);
	ck_assert_ptr_null(id); /* what it became is for who asks for the same */
	admissions_remove(&keys, &alice, &k);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_new);
	ck_assert_int_eq(admissions_add(&keys, &alice, &other, "op-2"), 0);
	ck_assert_int_eq(admissions_look(&keys, &alice, &other, &id), ADMISSION_same);
	ck_assert_str_eq(id, "op-2");
}
END_TEST

START_TEST(the_record_says_it_again_and_nothing_changes)
{
	struct admission_key k = numbered(1);
	const char *id;

	ck_assert_int_eq(admissions_restore(&keys, &alice, &k, "op-1"), 1);
	ck_assert_int_eq(admissions_restore(&keys, &alice, &k, "op-1"), 0);
	ck_assert_int_eq(admissions_restore(&keys, &alice, &k, "op-2"), 0); /* the first has it */
	ck_assert_uint_eq(keys.keys.n, 1);
	ck_assert_uint_eq(alice.keys, 1);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_same);
	ck_assert_str_eq(id, "op-1");
}
END_TEST

START_TEST(without_room_nothing_is_added_and_nothing_is_forgotten)
{
	struct admissions second = { 0 };
	struct admission_key k;
	const char *id;

	for (uint64_t n = 0; n < ADMISSIONS_MAX; n++) {
		k = numbered(n);
		if (admissions_add(&keys, &alice, &k, "op-1") != 0)
			ck_abort_msg("key %u was refused", (unsigned)n);
	}
	k = numbered(ADMISSIONS_MAX);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_full_table);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-2"), -ENOSPC);
	ck_assert_uint_eq(alice.keys, ADMISSIONS_MAX);
	/* Another session has room, and what is known here stays known. */
	ck_assert_int_eq(admissions_add(&second, &alice, &k, "op-2"), 0);
	for (uint64_t n = 0; n < ADMISSIONS_MAX; n++) {
		k = numbered(n);
		if (admissions_look(&keys, &alice, &k, &id) != ADMISSION_same)
			ck_abort_msg("key %u was forgotten", (unsigned)n);
	}
	k = numbered(7);
	admissions_remove(&keys, &alice, &k);
	k = numbered(ADMISSIONS_MAX);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_new);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-3"), 0);
	admissions_finish(&second, &alice);
}
END_TEST

#define TABLES (ADMISSIONS_TOTAL_MAX / ADMISSIONS_MAX)
#define OWNERS (ADMISSIONS_TOTAL_MAX / ADMISSIONS_SHARE_MAX)

/* A session full of keys, the `n`th, of `whose`. */
static void
fill(struct admissions *session, struct admission_share *whose, size_t n)
{
	struct admission_key k;

	for (uint64_t i = 0; i < ADMISSIONS_MAX; i++) {
		k = numbered(n * ADMISSIONS_MAX + i);
		if (admissions_add(session, whose, &k, "op-1") != 0)
			ck_abort_msg("key %u was refused", (unsigned)i);
	}
}

START_TEST(who_has_as_many_keys_as_it_may_leaves_the_others_theirs)
{
	struct admissions many[2] = { 0 }, third = { 0 };
	struct admission_share greedy_own = { 0 }, *greedy = &greedy_own, bob = { 0 };
	struct admission_key k = numbered(ADMISSIONS_TOTAL_MAX), known = numbered(ADMISSIONS_MAX + 5);
	const char *id;

	fill(&many[0], greedy, 0);
	fill(&many[1], greedy, 1);
	ck_assert_uint_eq(greedy->keys, ADMISSIONS_SHARE_MAX);
	/* Its third gets none, nor does the table of all; what it has is still known. */
	ck_assert_int_eq(admissions_look(&third, greedy, &k, &id), ADMISSION_full_share);
	ck_assert_int_eq(admissions_add(&third, greedy, &k, "op-2"), -ENOSPC);
	ck_assert_int_eq(admissions_add(&keys, greedy, &k, "s-2"), -ENOSPC);
	ck_assert_int_eq(admissions_look(&many[1], greedy, &known, &id), ADMISSION_same);
	/* Another principal's is another share, in the same table, too. */
	ck_assert_int_eq(admissions_look(&keys, &bob, &k, &id), ADMISSION_new);
	ck_assert_int_eq(admissions_add(&keys, &bob, &k, "s-3"), 0);
	admissions_remove(&keys, &bob, &k);
	ck_assert_uint_eq(bob.keys, 0);
	/* A session goes, and its keys with it. */
	admissions_finish(&many[0], greedy);
	ck_assert_int_eq(admissions_add(&third, greedy, &k, "op-2"), 0);
	admissions_finish(&many[1], greedy);
	admissions_finish(&third, greedy);
	ck_assert_uint_eq(greedy->keys, 0);
}
END_TEST

START_TEST(what_is_on_record_is_taken_over_beyond_any_bound)
{
	struct admission_key k;
	const char *id;

	for (uint64_t n = 0; n <= ADMISSIONS_SHARE_MAX; n++) {
		k = numbered(n);
		if (admissions_restore(&keys, &alice, &k, "op-1") != 1)
			ck_abort_msg("key %u was refused", (unsigned)n);
	}
	ck_assert_uint_eq(alice.keys, ADMISSIONS_SHARE_MAX + 1);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_same);
	k = numbered(ADMISSIONS_SHARE_MAX + 1); /* and nothing new before there is room */
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_full_table);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-2"), -ENOSPC);
}
END_TEST

START_TEST(all_tables_together_are_bounded)
{
	static struct admissions many[TABLES];
	static struct admission_share owners[OWNERS];
	struct admission_key k = numbered(ADMISSIONS_TOTAL_MAX);
	const char *id;

	for (size_t n = 0; n < TABLES; n++)
		fill(&many[n], &owners[n % OWNERS], n);
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_full_total);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-2"), -ENOSPC);
	ck_assert_int_eq(admissions_restore(&keys, &alice, &k, "op-2"), 1);
	admissions_remove(&keys, &alice, &k);
	admissions_finish(&many[0], &owners[0]); /* a session has ended, its keys with it */
	ck_assert_int_eq(admissions_look(&keys, &alice, &k, &id), ADMISSION_new);
	ck_assert_int_eq(admissions_add(&keys, &alice, &k, "op-2"), 0);
	for (size_t n = 1; n < TABLES; n++)
		admissions_finish(&many[n], &owners[n % OWNERS]);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("admissions");
	TCase *t = tcase_create("keys");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_key_is_its_principals_and_its_sessions);
	tcase_add_test(t, where_one_part_ends_and_the_next_begins_is_part_of_the_key);
	tcase_add_test(t, what_is_asked_for_is_the_fingerprint);
	tcase_add_test(t, the_order_of_members_is_no_difference);
	tcase_add_test(t, a_session_is_acquired_under_a_key_of_its_own);
	tcase_add_test(t, a_key_is_known_until_it_was_never_admitted);
	tcase_add_test(t, the_record_says_it_again_and_nothing_changes);
	tcase_add_test(t, without_room_nothing_is_added_and_nothing_is_forgotten);
	tcase_add_test(t, who_has_as_many_keys_as_it_may_leaves_the_others_theirs);
	tcase_add_test(t, what_is_on_record_is_taken_over_beyond_any_bound);
	tcase_add_test(t, all_tables_together_are_bounded);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
