/*
 * What the index keeps of asks and of keys of calls, for a broker that starts (D-16).
 */
#include "tests/unit/index_fixture.h"

/* ---- asks ------------------------------------------------------------------------------ */

static void
add_ask(const char *id)
{
	struct msg_record r = record("escalation.requested");

	if (id != NULL)
		SET(&r, escalation, slice_of(id));
	add(&r);
}

static void
add_grant(const char *id, const char *resolves)
{
	struct msg_record r = record("grant.issued");

	SET(&r, grant, slice_of(id));
	if (resolves != NULL)
		SET(&r, escalation, slice_of(resolves));
	add(&r);
}

static void
add_revocation(const char *id, const char *reopens)
{
	struct msg_record r = record("grant.revoked");

	SET(&r, grant, slice_of(id));
	if (reopens != NULL)
		SET(&r, escalation, slice_of(reopens));
	add(&r);
}

/* "b resolved, a pending, " */
static const char *
asks(void)
{
	static char text[ESCALATIONS_MAX * 24];
	struct index_state s;
	uint64_t cursor = 0;
	size_t n = 0;

	text[0] = '\0';
	do {
		struct slice in;

		ck_assert_int_eq(index_state(x, cursor, 4096, &s), 0);
		in = buf_slice(&s.items[INDEX_ESCALATIONS]);
		for (uint32_t i = 0; i < s.n[INDEX_ESCALATIONS]; i++) {
			struct value map = value_skip(&in), r, id, resolved;

			ck_assert(value_get(map.raw, "record", &r) &&
				  value_get(map.raw, "resolved", &resolved) &&
				  value_get(r.raw, "escalation", &id));
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s %s, ",
			    (int)id.bytes.n, (const char *)id.bytes.p,
			    resolved.boolean ? "resolved" : "pending");
		}
		cursor = s.next;
		index_state_finish(&s);
	} while (cursor != 0);
	return text;
}

START_TEST(an_ask_is_pending_until_a_grant_resolves_it)
{
	add_ask("b");
	add_ask("a");
	add_ask(NULL);
	add_grant("g1", NULL);
	add_grant("g2", "b");
	add_grant("g3", "nobody");
	ck_assert_str_eq(asks(), "b resolved, a pending, ");
	add_revocation("g2", NULL); /* was given, and stays resolved */
	ck_assert_str_eq(asks(), "b resolved, a pending, ");
	add_grant("g4", "a");
	add_revocation("g4", "a"); /* was not */
	ck_assert_str_eq(asks(), "b resolved, a pending, ");
	add_ask("b"); /* again */
	ck_assert_str_eq(asks(), "a pending, b pending, ");
	ck_assert_int_eq(index_clear(x), 0);
	ck_assert_str_eq(asks(), "");
}
END_TEST

START_TEST(asks_are_bounded_and_resolved_ones_go_first)
{
	static char want[ESCALATIONS_MAX * 24];
	char id[16];
	size_t n = 0, i;

	for (i = 0; i < ESCALATIONS_MAX; i++) {
		snprintf(id, sizeof(id), "e%zu", i);
		add_ask(id);
	}
	add_grant("g", "e7");
	add_ask("new1"); /* in place of e7 */
	add_ask("new2"); /* in place of e0 */
	for (i = 1; i < ESCALATIONS_MAX; i++)
		if (i != 7)
			n += (size_t)snprintf(want + n, sizeof(want) - n, "e%zu pending, ", i);
	snprintf(want + n, sizeof(want) - n, "new1 pending, new2 pending, ");
	ck_assert_str_eq(asks(), want);
}
END_TEST

/* ---- keys ------------------------------------------------------------------------------ */

static void
add_decision(const char *call, const char *key, const char *fingerprint)
{
	struct msg_record r = record("authorization.checked");
	uint8_t k[32] = { 0 }, f[32] = { 0 };

	r.has_outcome = true;
	r.outcome = record_outcome_allowed;
	SET(&r, call, slice_of(call));
	SET(&r, operation, slice_of("op"));
	SET(&r, actor, slice_of("agent:a"));
	if (key != NULL) {
		memcpy(k, key, strlen(key));
		memcpy(f, fingerprint, strlen(fingerprint));
		SET(&r, key, ((struct slice){ k, sizeof(k) }));
		SET(&r, fingerprint, ((struct slice){ f, sizeof(f) }));
	}
	add(&r);
}

static void
add_outcome(const char *call, int outcome, bool not_started)
{
	struct msg_record r = record("tool.invoked");

	SET(&r, call, slice_of(call));
	r.has_outcome = outcome >= 0;
	r.outcome = (enum record_outcome)outcome;
	r.has_notStarted = r.notStarted = not_started;
	add(&r);
}

/* "k1 f1 settled, " */
static const char *
keys(void)
{
	static char text[512];
	struct index_state s;
	struct slice in;
	size_t n = 0;

	text[0] = '\0';
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), 0);
	in = buf_slice(&s.items[INDEX_KEYS]);
	for (uint32_t i = 0; i < s.n[INDEX_KEYS]; i++) {
		struct value map = value_skip(&in), k, f, actor, settled;

		ck_assert(value_get(map.raw, "key", &k) && value_get(map.raw, "actor", &actor) &&
			  value_get(map.raw, "fingerprint", &f) &&
			  value_get(map.raw, "settled", &settled));
		ck_assert(k.type == VALUE_BIN && k.bytes.n == 32 && f.bytes.n == 32);
		ck_assert(slice_is(actor.bytes, "agent:a"));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %s %s, ",
		    (const char *)k.bytes.p, (const char *)f.bytes.p,
		    settled.boolean ? "settled" : "open");
	}
	index_state_finish(&s);
	return text;
}

START_TEST(a_key_is_open_until_its_call_is_settled) /* TU-70 */
{
	add_decision("c1", "k1", "f1");
	add_decision("c2", "k2", "f2");
	add_decision("c3", NULL, NULL);
	ck_assert_str_eq(keys(), "k1 f1 open, k2 f2 open, ");
	add_outcome("c1", record_outcome_succeeded, false);
	add_outcome("c2", record_outcome_interrupted, false);
	add_outcome("c3", record_outcome_succeeded, false);
	ck_assert_str_eq(keys(), "k1 f1 settled, k2 f2 open, ");
	add_outcome("c2", -1, false); /* late: it ended as it ended */
	ck_assert_str_eq(keys(), "k1 f1 settled, k2 f2 open, ");
	ck_assert_int_eq(index_clear(x), 0);
	ck_assert_str_eq(keys(), "");
}
END_TEST

START_TEST(a_key_of_what_did_not_start_is_free) /* TU-71 */
{
	add_decision("c1", "k1", "f1");
	add_outcome("c1", record_outcome_failed, true);
	ck_assert_str_eq(keys(), "");
	/* In either order: the end of the first is not that of the second. */
	add_decision("c2", "k1", "f1");
	add_decision("c3", "k1", "f1");
	add_outcome("c2", record_outcome_interrupted, true);
	ck_assert_str_eq(keys(), "k1 f1 open, ");
	add_outcome("c3", record_outcome_failed, false);
	ck_assert_str_eq(keys(), "k1 f1 settled, ");
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------- */

/* What somebody else has written into the file. */
static void
damage(const char *sql)
{
	ck_assert_int_eq(sqlite3_exec(x->db, sql, NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_gt(sqlite3_changes(x->db), 0);
}

START_TEST(a_damaged_row_is_no_state)
{
	static const char *const rows[] = { "UPDATE escalations SET record = NULL",
		"UPDATE escalations SET record = x'c1'", "UPDATE grants SET record = x'8161'",
		"UPDATE keys SET fingerprint = NULL", "UPDATE keys SET key = x'00'",
		"UPDATE keys SET actor = NULL" };
	struct index_state s;

	add_ask("a");
	add_grant("g", NULL);
	add_decision("c", "k", "f");
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), 0);
	index_state_finish(&s);
	damage(rows[_i]);
	ck_assert_int_eq(index_state(x, 0, 1 << 20, &s), -EUCLEAN);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ledger_asks");
	TCase *t = tcase_create("state");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_ask_is_pending_until_a_grant_resolves_it);
	tcase_add_test(t, asks_are_bounded_and_resolved_ones_go_first);
	tcase_add_test(t, a_key_is_open_until_its_call_is_settled);
	tcase_add_test(t, a_key_of_what_did_not_start_is_free);
	tcase_add_loop_test(t, a_damaged_row_is_no_state, 0, 6);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
