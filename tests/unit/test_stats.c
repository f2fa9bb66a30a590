/*
 * The rows of metrics.def, as Prometheus wants them, and what the broker counts into its own.
 */
#include "broker/stats.h"

#include <check.h>
#include <string.h>

#include "common/records.h"
#include "common/util.h"
#include "common/walk.h"

static const struct row {
	const char *field, *name, *type, *owner, *help;
} rows[] = {
#define METRIC(field, name, type, owner, help) { #field, name, #type, #owner, help },
#include "common/metrics.def"
};

static size_t
family(const struct row *r)
{
	return strcspn(r->name, "{");
}

static bool
same_family(const struct row *a, const struct row *b)
{
	return family(a) == family(b) && strncmp(a->name, b->name, family(a)) == 0;
}

START_TEST(every_name_is_one_of_prometheus)
{
	/* Whose values are in this file, and none of which a client chooses. */
	static const char *const labels[] = { "class", "code", "kind", "outcome", "result", "role",
		"via" };
	static const char total[] = "_total";

	for (const struct row *r = rows; r < rows + countof(rows); r++) {
		size_t n = family(r), label = 0, i;
		bool is_total = n > 6 && memcmp(r->name + n - 6, total, 6) == 0;

		ck_assert_msg(strncmp(r->name, "caisson_", 8) == 0, "%s", r->name);
		ck_assert_msg(strspn(r->name, "abcdefghijklmnopqrstuvwxyz_") == n, "%s", r->name);
		ck_assert_msg(is_total == (strcmp(r->type, "counter") == 0), "%s", r->name);
		ck_assert_msg(r->help[strlen(r->help) - 1] == '.' ||
				  r->help[strlen(r->help) - 1] == '?', "%s", r->help);
		if (r->name[n] == '\0')
			continue;
		label = strcspn(r->name + n + 1, "=");
		for (i = 0; i < countof(labels); i++)
			if (strlen(labels[i]) == label &&
			    memcmp(labels[i], r->name + n + 1, label) == 0)
				break;
		ck_assert_msg(i < countof(labels), "%s", r->name);
		ck_assert_str_eq(r->name + strlen(r->name) - 2, "\"}");
	}
}
END_TEST

START_TEST(rows_of_one_name_stand_together_and_say_the_same)
{
	for (size_t i = 0; i < countof(rows); i++)
		for (size_t k = 0; k < i; k++) {
			ck_assert_msg(strcmp(rows[i].name, rows[k].name) != 0, "%s", rows[i].name);
			if (strcmp(rows[i].owner, rows[k].owner) == 0)
				ck_assert_str_ne(rows[i].field, rows[k].field);
			if (!same_family(&rows[i], &rows[k]))
				continue;
			ck_assert(same_family(&rows[i], &rows[i - 1]));
			ck_assert_str_eq(rows[i].help, rows[k].help);
			ck_assert_str_eq(rows[i].type, rows[k].type);
			ck_assert_str_eq(rows[i].owner, rows[k].owner);
		}
}
END_TEST

static uint64_t
value(const struct stats *s, const char *field)
{
	struct buf b = { 0 };
	struct value v;

	ck_assert_int_eq(stats_pack(s, &b), 0);
	ck_assert_uint_le(b.n, METADATA_MAX);
	ck_assert_msg(value_get(buf_slice(&b), field, &v) && v.type == VALUE_UINT, "%s", field);
	buf_finish(&b);
	return v.uint;
}

/* Of all but the number of records. */
static uint64_t
sum(const struct stats *s)
{
	uint64_t n = 0;

	for (const struct row *r = rows; r < rows + countof(rows); r++)
		if (strcmp(r->owner, "broker") == 0 && strcmp(r->field, "journal_records") != 0)
			n += value(s, r->field);
	return n;
}

static const struct {
	const char *type, *detail;
	int outcome; /* -1: none */
	bool call;
	const char *field; /* NULL: counted nowhere */
} records[] = {
	{ "operation.accepted", "turn", -1, false, "accepted_turns" },
	{ "operation.accepted", "command", -1, false, "accepted_commands" },
	{ "operation.accepted", "writeFile", -1, false, "accepted_files" },
	{ "operation.accepted", "renameFile", -1, false, "accepted_files" },
	{ "operation.ended", "", record_outcome_succeeded, false, "ended_succeeded" },
	{ "operation.ended", "", record_outcome_failed, false, "ended_failed" },
	{ "operation.ended", "", record_outcome_denied, false, "ended_denied" },
	{ "operation.ended", "", record_outcome_escalated, false, "ended_escalated" },
	{ "operation.ended", "", record_outcome_interrupted, false, "ended_interrupted" },
	{ "operation.ended", "", record_outcome_canceled, false, "ended_canceled" },
	{ "operation.ended", "", record_outcome_allowed, false, NULL },
	{ "tool.invoked", "", record_outcome_succeeded, false, "calls_succeeded" },
	{ "tool.invoked", "", record_outcome_failed, true, "calls_failed" },
	{ "tool.invoked", "", record_outcome_interrupted, true, "calls_interrupted" },
	{ "tool.invoked", "", record_outcome_canceled, true, "calls_canceled" },
	{ "tool.invoked", "", -1, true, NULL }, /* late */
	{ "tool.refused", "", record_outcome_denied, true, "calls_denied" },
	{ "tool.refused", "", record_outcome_failed, true, "calls_failed" },
	{ "authorization.checked", "", record_outcome_denied, true, "calls_denied" },
	{ "authorization.checked", "", record_outcome_allowed, true, NULL }, /* it goes on */
	{ "authorization.checked", "", record_outcome_denied, false, NULL }, /* of a turn */
	{ "tool.replayed", "", record_outcome_succeeded, true, "calls_replayed" },
	{ "session.acquired", "", -1, false, "sessions_acquired" },
	{ "session.released", "", -1, false, "sessions_released" },
	{ "grant.issued", "", -1, false, "grants_issued" },
	{ "grant.revoked", "", -1, false, "grants_revoked" },
	{ "broker.started", "", -1, false, NULL },
	{ "operation.started", "", -1, false, NULL },
};

START_TEST(a_record_counts_once)
{
	struct msg_record m = { .type = slice_of(records[_i].type),
		.has_detail = true,
		.detail = slice_of(records[_i].detail),
		.has_outcome = records[_i].outcome >= 0,
		.outcome = (enum record_outcome)records[_i].outcome,
		.has_callId = records[_i].call };
	struct stats s = { 0 };

	ck_assert_int_ne(record_named(m.type), RECORD_none);
	stats_on_record(&s, &m);
	ck_assert_uint_eq(value(&s, "journal_records"), 1);
	ck_assert_uint_eq(sum(&s), records[_i].field != NULL);
	if (records[_i].field != NULL)
		ck_assert_uint_eq(value(&s, records[_i].field), 1);
}
END_TEST

START_TEST(a_refusal_counts_once)
{
	static const struct {
		const char *code, *field;
	} codes[] = {
		{ "invalid_argument", "refused_invalid_argument" },
		{ "unauthenticated", "refused_unauthenticated" },
		{ "permission_denied", "refused_permission_denied" },
		{ "not_found", "refused_not_found" },
		{ "already_exists", "refused_already_exists" },
		{ "failed_precondition", "refused_failed_precondition" },
		{ "resource_exhausted", "refused_resource_exhausted" },
		{ "unavailable", "refused_unavailable" },
		{ "audit_unavailable", "refused_audit_unavailable" },
		{ "internal", "refused_other" },
		{ "of the future", "refused_other" },
	};

	for (size_t i = 0; i < countof(codes); i++) {
		struct stats s = { 0 };

		stats_on_refusal(&s, codes[i].code);
		ck_assert_uint_eq(sum(&s), 1);
		ck_assert_uint_eq(value(&s, codes[i].field), 1);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("stats");
	TCase *t = tcase_create("numbers");
	SRunner *r;
	int failed;

	tcase_add_test(t, every_name_is_one_of_prometheus);
	tcase_add_test(t, rows_of_one_name_stand_together_and_say_the_same);
	tcase_add_loop_test(t, a_record_counts_once, 0, countof(records));
	tcase_add_test(t, a_refusal_counts_once);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
