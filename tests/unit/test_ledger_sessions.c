/*
 * What the index keeps of sessions, and of keys of what was admitted in them, for a broker that
 * starts (D-10, D-16).
 */
#include "tests/unit/index_fixture.h"

static void
add_acquired(const char *session, const char *principal)
{
	struct msg_record r = record("session.acquired");

	if (session != NULL)
		SET(&r, session, slice_of(session));
	SET(&r, principal, slice_of(principal));
	r.has_leaseMs = true;
	r.leaseMs = 5000;
	add(&r);
}

static void
add_released(const char *session)
{
	struct msg_record r = record("session.released");

	if (session != NULL)
		SET(&r, session, slice_of(session));
	add(&r);
}

static void
add_accepted(const char *operation, const char *session, const char *key)
{
	struct msg_record r = record("operation.accepted");
	uint8_t k[32] = { 0 }, f[32] = { 'f' };

	SET(&r, operation, slice_of(operation));
	SET(&r, detail, slice_of("command"));
	r.has_sequence = true;
	r.sequence = 1000;
	if (session != NULL) {
		SET(&r, session, slice_of(session));
		SET(&r, principal, slice_of("human:a"));
	}
	if (key != NULL) {
		memcpy(k, key, strlen(key));
		SET(&r, key, ((struct slice){ k, sizeof(k) }));
		SET(&r, fingerprint, ((struct slice){ f, sizeof(f) }));
	}
	add(&r);
}

static void
add_of(const char *type, const char *operation)
{
	struct msg_record r = record(type);

	SET(&r, operation, slice_of(operation));
	SET(&r, cause, slice_of("completed"));
	add(&r);
}

static struct slice
member(struct value map, const char *key)
{
	struct value v;

	return value_get(map.raw, key, &v) ? v.bytes : (struct slice){ (const uint8_t *)"-", 1 };
}

static void
sessions_of(const struct index_state *s, struct buf *text)
{
	struct slice in = buf_slice(&s->items[INDEX_SESSIONS]);
	struct msg_record r;
	struct fault fault;

	for (uint32_t i = 0; i < s->n[INDEX_SESSIONS]; i++) {
		struct value v = value_skip(&in);

		/* As it stands. */
		ck_assert_int_eq(
		    protocol_unpack(v.raw.p, v.raw.n, MSG_record, &r, &fault), 0);
		ck_assert(slice_is(r.type, "session.acquired"));
		ck_assert_uint_eq(r.leaseMs, 5000);
		buf_add(text, r.session.p, r.session.n);
		buf_add(text, " ", 1);
	}
}

static void
admissions_of(const struct index_state *s, struct buf *text)
{
	struct slice in = buf_slice(&s->items[INDEX_ADMISSIONS]);

	for (uint32_t i = 0; i < s->n[INDEX_ADMISSIONS]; i++) {
		struct value map = value_skip(&in);
		char line[256];

		ck_assert_uint_eq(map.count, 4);
		ck_assert_uint_eq(member(map, "key").n, 32);
		ck_assert_uint_eq(member(map, "fingerprint").n, 32);
		ck_assert_int_eq(member(map, "fingerprint").p[0], 'f');
		snprintf(line, sizeof(line), "%.*s:%s=%.*s ", (int)member(map, "session").n,
		    (const char *)member(map, "session").p, (const char *)member(map, "key").p,
		    (int)member(map, "operation").n,
		    (const char *)member(map, "operation").p);
		buf_add(text, line, strlen(line));
	}
}

/* "s1 s2 | s1:k1=op1 ", over as many pages as it takes. */
static const char *
state(size_t max)
{
	static char out[1 << 16];
	struct buf sessions = { 0 }, admissions = { 0 };
	struct index_state s;
	uint64_t cursor = 0;

	do {
		ck_assert_int_eq(index_state(x, cursor, max, &s), 0);
		ck_assert_uint_le(
		    s.items[INDEX_SESSIONS].n + s.items[INDEX_ADMISSIONS].n, max);
		sessions_of(&s, &sessions);
		admissions_of(&s, &admissions);
		ck_assert(s.next == 0 || s.next > cursor);
		cursor = s.next;
		index_state_finish(&s);
	} while (cursor != 0);
	snprintf(out, sizeof(out), "%.*s| %.*s", (int)sessions.n, (const char *)sessions.p,
	    (int)admissions.n, (const char *)admissions.p);
	buf_finish(&sessions);
	buf_finish(&admissions);
	return out;
}

START_TEST(a_session_is_open_until_it_is_released)
{
	add_acquired("s2", "human:b");
	add_acquired("s1", "human:a");
	add_acquired(NULL, "human:a"); /* of no number: of no use */
	ck_assert_str_eq(state(1 << 20), "s2 s1 | ");
	add_acquired("s2", "human:c"); /* again: the first stands */
	ck_assert_str_eq(state(1 << 20), "s2 s1 | ");
	add_released(NULL);
	add_released("s3");
	add_released("s2");
	add_released("s2");
	ck_assert_str_eq(state(1 << 20), "s1 | ");
	ck_assert_int_eq(index_clear(x), 0);
	ck_assert_str_eq(state(1 << 20), "| ");
}
END_TEST

START_TEST(keys_live_as_long_as_their_session)
{
	add_accepted("op0", NULL, "k0"); /* of no session */
	add_acquired("s1", "human:a");
	add_acquired("s2", "human:a");
	add_accepted("op1", "s1", "k1");
	add_accepted("op2", "s1", NULL);
	add_accepted("op3", "s2", "k1");
	add_accepted("op4", "s1", "k1"); /* again: the first is what it names */
	ck_assert_str_eq(state(1 << 20), "s1 s2 | s1:k1=op1 s2:k1=op3 ");
	/* Its ending does not free it: it would run again. */
	add_of("operation.ended", "op1");
	ck_assert_str_eq(state(1 << 20), "s1 s2 | s1:k1=op1 s2:k1=op3 ");
	add_released("s1");
	ck_assert_str_eq(state(1 << 20), "s2 | s2:k1=op3 ");
	add_accepted("op5", "s1", "k2"); /* of one that is over nothing is kept */
	ck_assert_str_eq(state(1 << 20), "s2 | s2:k1=op3 ");
}
END_TEST

START_TEST(every_page_fits_and_all_comes_once_in_order)
{
	static char want[1 << 16];
	char id[16];
	size_t n = 0, i;

	for (i = 0; i < 300; i++) {
		snprintf(id, sizeof(id), "s%zu", i);
		add_acquired(id, "human:a");
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%s ", id);
	}
	n += (size_t)snprintf(want + n, sizeof(want) - n, "| ");
	for (i = 0; i < 300; i++) {
		char operation[16], key[16];

		snprintf(id, sizeof(id), "s%zu", 299 - i);
		snprintf(operation, sizeof(operation), "op%zu", i);
		snprintf(key, sizeof(key), "k%zu", i);
		add_accepted(operation, id, key);
		add_of("operation.ended", operation);
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%s:%s=%s ", id, key, operation);
	}
	ck_assert_str_eq(state(1 << 20), want);
	ck_assert_str_eq(state(1000), want);
	ck_assert_str_eq(state(200), want);
}
END_TEST

/* What a page says of the operation `id`: "s1 human:a 1" */
static const char *
operation_of(const char *id)
{
	static char text[128];
	struct index_state s;
	struct slice in;

	text[0] = '\0';
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), 0);
	in = buf_slice(&s.items[INDEX_OPERATIONS]);
	for (uint32_t i = 0; i < s.n[INDEX_OPERATIONS]; i++) {
		struct value map = value_skip(&in), started;

		if (!slice_is(member(map, "operation"), id))
			continue;
		snprintf(text, sizeof(text), "%.*s %.*s %u", (int)member(map, "session").n,
		    (const char *)member(map, "session").p, (int)member(map, "principal").n,
		    (const char *)member(map, "principal").p,
		    value_get(map.raw, "started", &started) ? (unsigned)started.uint : 0);
	}
	index_state_finish(&s);
	return text;
}

START_TEST(an_operation_names_its_session_and_whether_it_began)
{
	add_acquired("s1", "human:a");
	add_accepted("op1", "s1", NULL);
	add_accepted("op2", NULL, NULL);
	ck_assert_str_eq(operation_of("op1"), "s1 human:a 0");
	ck_assert_str_eq(operation_of("op2"), "- - 0");
	add_of("operation.started", "op1");
	ck_assert_str_eq(operation_of("op1"), "s1 human:a 1");
	add_of("operation.ended", "op1");
	ck_assert_str_eq(operation_of("op1"), "s1 human:a 1");
}
END_TEST

/* The reason that the state tells of an operation; "-": none. */
static const char *
reason_of(const char *operation)
{
	static char out[64];
	struct index_state s;
	struct slice in;

	snprintf(out, sizeof(out), "no such operation");
	ck_assert_int_eq(index_state(x, 0, 1 << 16, &s), 0);
	in = buf_slice(&s.items[INDEX_OPERATIONS]);
	for (uint32_t i = 0; i < s.n[INDEX_OPERATIONS]; i++) {
		struct value map = value_skip(&in);

		if (slice_is(member(map, "operation"), operation))
			snprintf(out, sizeof(out), "%.*s", (int)member(map, "reason").n,
			    (const char *)member(map, "reason").p);
	}
	index_state_finish(&s);
	return out;
}

START_TEST(an_ending_keeps_the_code_of_its_failure_and_the_first_one_stands)
{
	struct msg_record r = record("operation.ended");

	for (unsigned i = 0; i < 2; i++) {
		add_accepted(i == 0 ? "op1" : "op2", "s1", NULL);
		ck_assert_str_eq(reason_of(i == 0 ? "op1" : "op2"), "-");
	}
	SET(&r, operation, slice_of("op1"));
	SET(&r, cause, slice_of("failed"));
	SET(&r, reason, slice_of("not_found"));
	add(&r);
	ck_assert_str_eq(reason_of("op1"), "not_found");
	ck_assert_str_eq(reason_of("op2"), "-");
	add_of("operation.ended", "op2"); /* one that says no more than its cause */
	ck_assert_str_eq(reason_of("op2"), "-");
	SET(&r, reason, slice_of("internal"));
	add(&r);
	ck_assert_str_eq(reason_of("op1"), "not_found");
}
END_TEST

static bool
count_hit(void *arg, const struct index_hit *hit)
{
	(void)hit;
	++*(unsigned *)arg;
	return true;
}

static unsigned
found(const char *session, const char *principal)
{
	struct msg_audit_read f = { .limit = 100 };
	unsigned n = 0;

	if (session != NULL)
		SET(&f, session, slice_of(session));
	if (principal != NULL)
		SET(&f, principal, slice_of(principal));
	ck_assert_int_eq(index_query(x, 0, &f, count_hit, &n), 0);
	return n;
}

START_TEST(records_are_found_by_session_and_by_who_asked)
{
	struct msg_record r = record("turn.ended");

	add_acquired("s1", "human:a");
	add_acquired("s2", "human:b");
	add_accepted("op1", "s1", "k");
	add_released("s1");
	SET(&r, actor, slice_of("human:b"));
	add(&r);
	ck_assert_uint_eq(found(NULL, NULL), 5);
	ck_assert_uint_eq(found("s1", NULL), 3);
	ck_assert_uint_eq(found("s", NULL), 0);
	ck_assert_uint_eq(found(NULL, "human:a"), 2);
	ck_assert_uint_eq(found(NULL, "human:b"), 2);
	ck_assert_uint_eq(found("s1", "human:b"), 0);
}
END_TEST

START_TEST(a_damaged_row_is_no_state)
{
	static const char *const rows[] = { "UPDATE sessions SET record = NULL",
		"UPDATE sessions SET record = x'c1'", "UPDATE admissions SET key = x'00'",
		"UPDATE admissions SET fingerprint = NULL",
		"UPDATE admissions SET session = NULL",
		"UPDATE admissions SET operation = NULL" };
	struct index_state s;

	add_acquired("s1", "human:a");
	add_accepted("op1", "s1", "k");
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), 0);
	index_state_finish(&s);
	ck_assert_int_eq(sqlite3_exec(x->db, rows[_i], NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), -EUCLEAN);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ledger_sessions");
	TCase *t = tcase_create("state");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_session_is_open_until_it_is_released);
	tcase_add_test(t, keys_live_as_long_as_their_session);
	tcase_add_test(t, every_page_fits_and_all_comes_once_in_order);
	tcase_add_test(t, an_operation_names_its_session_and_whether_it_began);
	tcase_add_test(t, an_ending_keeps_the_code_of_its_failure_and_the_first_one_stands);
	tcase_add_test(t, records_are_found_by_session_and_by_who_asked);
	tcase_add_loop_test(t, a_damaged_row_is_no_state, 0, 6);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
