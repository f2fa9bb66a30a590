/*
 * Decisions: the rows of the authority model.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/authority_fixture.h"

static const char *act_write[] = { "write" }, *act_all[] = { "*" };
static const char *act_rw[] = { "read", "list" }, *act_prefix[] = { "re*", "read.*" };
static const char *seg_docs2[] = { "docs2" }, *seg_star[] = { "*" };
static const char *seg_up[] = { "docs", "..", "secret" }, *seg_empty[] = { "" };
static const char *for_work[] = { "play", "work" }, *for_play[] = { "play" };

/* What a set of these grants decides. */
static struct decision
decide(struct grant *g, size_t n, const struct requirement *r, uint64_t now_ms)
{
	struct grant_set *set = set_of(g, n, false);
	const struct context ctx = admitted(set);
	struct decision d = authority_decide(set, &ctx, r, now_ms);

	grant_set_destroy(set);
	return d;
}

static enum verdict
discover(struct grant *g, size_t n, const char *namespace, const char *action)
{
	struct grant_set *set = set_of(g, n, false);
	const struct context ctx = admitted(set);
	enum verdict v = authority_discover(set, &ctx, NULL, namespace, action, NOW);

	grant_set_destroy(set);
	return v;
}

START_TEST(no_grant_denies_everything) /* TU-33 */
{
	struct decision d = decide(NULL, 0, &read_docs_a, NOW);

	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	ck_assert_ptr_null(d.grant);
	ck_assert_int_eq(d.nearest, REJECTION_none);
}
END_TEST

START_TEST(a_grant_that_covers_it_allows) /* TU-34 */
{
	struct grant g = GRANT();
	struct decision d = decide(&g, 1, &read_docs_a, NOW);

	ck_assert_int_eq(d.verdict, VERDICT_allowed);
	ck_assert_ptr_eq(d.grant, &g);
	ck_assert_int_eq(d.nearest, REJECTION_none);
}
END_TEST

/* TU-34, TU-35, TU-36, TU-37: one capability against one requirement. */
static const struct {
	struct capability cap;
	struct requirement req;
	enum verdict want;
	const char *reason;
} covers[] = {
#define CAP(path, below, actions)                                                              \
	{                                                                                      \
		"workspace", NULL, PATH(path), below, ACTIONS(actions)                         \
	}
#define ROOT(below, actions)                                                                   \
	{                                                                                      \
		"workspace", NULL, { NULL, 0 }, below, ACTIONS(actions)                        \
	}
#define REQ(path, action)                                                                      \
	{                                                                                      \
		"workspace", NULL, PATH(path), action, NO_CALL                                 \
	}
#define YES VERDICT_allowed
#define NO  VERDICT_no_matching_grant
	{ CAP(seg_docs, false, act_read), REQ(seg_docs, "read"), YES, "exact, itself" },
	{ CAP(seg_docs, false, act_read), REQ(seg_docs_a, "read"), NO, "exact, below" },
	{ CAP(seg_docs, true, act_read), REQ(seg_docs, "read"), YES, "descendants, itself" },
	{ CAP(seg_docs, true, act_read), REQ(seg_docs2, "read"), NO, "sibling prefix" },
	{ CAP(seg_docs_a, true, act_read), REQ(seg_docs, "read"), NO, "above" },
	{ ROOT(true, act_read), REQ(seg_docs_a, "read"), YES, "below the root" },
	{ ROOT(false, act_read), REQ(seg_docs, "read"), NO, "exactly the root" },
	{ ROOT(false, act_read), { "workspace", NULL, { NULL, 0 }, "read", NO_CALL }, YES,
	    "the root" },
	{ CAP(seg_docs, true, act_read), { "workspace", NULL, { NULL, 0 }, "read", NO_CALL },
	    NO, "the root from below" },
	{ CAP(seg_star, true, act_read), REQ(seg_docs, "read"), NO,
	    "a star is a name in a path" },
	{ CAP(seg_docs, true, act_rw), REQ(seg_docs, "list"), YES, "second action" },
	{ CAP(seg_docs, true, act_read), REQ(seg_docs, "write"), NO, "other action" },
	{ CAP(seg_docs, true, act_all), REQ(seg_docs, "write"), YES, "a held star covers all" },
	{ CAP(seg_docs, true, act_all), REQ(seg_docs, "*"), YES, "star held and asked for" },
	{ CAP(seg_docs, true, act_read), REQ(seg_docs, "*"), NO, "star asked for, not held" },
	{ CAP(seg_docs, true, act_prefix), REQ(seg_docs, "read"), NO, "no prefix wildcard" },
	{ CAP(seg_docs, true, act_prefix), REQ(seg_docs, "read.x"), NO, "no prefix wildcard" },
	{ CAP(seg_docs, true, act_prefix), REQ(seg_docs, "re*"), YES, "literally" },
	{ CAP(seg_docs, true, act_read), REQ(seg_docs, "READ"), NO, "case counts" },
	{ CAP(seg_docs, true, act_read), { "other", NULL, PATH(seg_docs), "read", NO_CALL }, NO,
	    "other resource namespace" },
	{ { "workspace", "human:o", PATH(seg_docs), true, ACTIONS(act_read) },
	    REQ(seg_docs, "read"), YES, "names the context's owner" },
	{ { "workspace", "human:x", PATH(seg_docs), true, ACTIONS(act_read) },
	    REQ(seg_docs, "read"), NO, "names another owner" },
	{ CAP(seg_docs, true, act_read),
	    { "workspace", "human:o", PATH(seg_docs), "read", NO_CALL },
	    YES, "requirement names the context's owner" },
	{ CAP(seg_docs, true, act_read),
	    { "workspace", "human:x", PATH(seg_docs), "read", NO_CALL },
	    VERDICT_invalid_request, "requirement names another owner" },
	{ { "workspace", "human:x", PATH(seg_docs), true, ACTIONS(act_read) },
	    { "workspace", "human:x", PATH(seg_docs), "read", NO_CALL },
	    VERDICT_invalid_request, "both name another owner" },
	{ ROOT(true, act_all), REQ(seg_up, "read"), VERDICT_invalid_request, "dot-dot" },
	{ ROOT(true, act_all), REQ(seg_empty, "read"), VERDICT_invalid_request,
	    "empty segment" },
	{ ROOT(true, act_all), REQ(seg_docs, ""), VERDICT_invalid_request, "empty action" },
	{ ROOT(true, act_all), REQ(seg_docs, NULL), VERDICT_invalid_request, "no action" },
	{ ROOT(true, act_all), { "", NULL, PATH(seg_docs), "read", NO_CALL },
	    VERDICT_invalid_request, "no resource namespace" },
};

START_TEST(one_capability_covers_or_does_not)
{
	struct grant g = GRANT(.capabilities = &covers[_i].cap);
	struct decision d = decide(&g, 1, &covers[_i].req, NOW);

	ck_assert_msg(
	    d.verdict == covers[_i].want, "%s: %s", covers[_i].reason, verdict_name(d.verdict));
	if (covers[_i].want == NO)
		ck_assert_int_eq(d.nearest, REJECTION_capability);
	else
		ck_assert_int_eq(d.nearest, REJECTION_none);
}
END_TEST

START_TEST(capabilities_are_not_combined) /* TU-34 */
{
	/* One gives the path, the other the action: together they give nothing. */
	const struct capability halves[] = {
		{ "workspace", NULL, PATH(seg_docs), true, ACTIONS(act_write) },
		{ "workspace", NULL, PATH(seg_docs2), true, ACTIONS(act_read) },
		{ "other", NULL, PATH(seg_docs), true, ACTIONS(act_read) },
	};
	struct grant g[2] = { GRANT(.capabilities = halves, .ncapabilities = 3),
		GRANT(.capabilities = &halves[1]) };

	ck_assert_int_eq(decide(g, 2, &read_docs_a, NOW).verdict, VERDICT_no_matching_grant);
	g[0].ncapabilities = 1;
	ck_assert_int_eq(decide(g, 2, &read_docs_a, NOW).verdict, VERDICT_no_matching_grant);
}
END_TEST

/* TU-39, TU-41: who, for what, when.  Admitted at 1000, now 2000. */
static const struct {
	struct grant g;
	enum rejection want;
	const char *reason;
} eligibility[] = {
	{ GRANT(), REJECTION_none, "as it is" },
	{ GRANT(.issuer = "human:x"), REJECTION_issuer, "another issuer" },
	{ GRANT(.issuer = "agent:h"), REJECTION_issuer, "the same id of another kind" },
	{ GRANT(.subject = "agent:b"), REJECTION_subject, "another subject" },
	{ GRANT(.subject = "agent:a2"), REJECTION_subject, "a subject that begins alike" },
	{ GRANT(.subject = "agent:*"), REJECTION_subject, "a star is a name in a subject" },
	{ GRANT(.namespace = "other"), REJECTION_namespace, "another namespace" },
	{ GRANT(.issued_at_ms = ADMITTED), REJECTION_none, "issued as it was admitted" },
	{ GRANT(.issued_at_ms = ADMITTED + 1), REJECTION_window, "issued after admission" },
	{ GRANT(.not_before_ms = ADMITTED), REJECTION_none, "opens at admission" },
	{ GRANT(.not_before_ms = ADMITTED + 1), REJECTION_window, "opens in mid-turn" },
	{ GRANT(.expires_at_ms = NOW + 1), REJECTION_none, "a last millisecond" },
	{ GRANT(.expires_at_ms = NOW), REJECTION_window, "expires now" },
	{ GRANT(.expires_at_ms = ADMITTED + 1), REJECTION_window, "expired in mid-turn" },
	{ GRANT(.revoked_at_ms = 1), REJECTION_revoked, "revoked before" },
	{ GRANT(.revoked_at_ms = NOW + 5), REJECTION_revoked,
	    "revoked, whatever the clock says" },
	{ GRANT(.purposes = for_work, .npurposes = 2), REJECTION_none, "one of its purposes" },
	{ GRANT(.purposes = for_play, .npurposes = 1), REJECTION_purpose, "another purpose" },
	{ GRANT(.purposes = for_work, .npurposes = 0), REJECTION_purpose,
	    "an empty list is none" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 1), REJECTION_none, "a use left" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 2), REJECTION_exhausted, "none left" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 3), REJECTION_exhausted, "overspent" },
	{ GRANT(.bounded = false, .max_uses = 0, .spent = 9), REJECTION_none, "not bounded" },
};

START_TEST(a_grant_is_eligible_or_says_why_not)
{
	struct grant g = eligibility[_i].g;
	struct decision d = decide(&g, 1, &read_docs_a, NOW);
	enum rejection want = eligibility[_i].want;

	ck_assert_msg(
	    d.nearest == want, "%s: %s", eligibility[_i].reason, rejection_name(d.nearest));
	ck_assert_int_eq(d.verdict, want == REJECTION_none	  ? VERDICT_allowed
				    : want == REJECTION_exhausted ? VERDICT_grant_exhausted
								  : VERDICT_no_matching_grant);
	ck_assert_int_eq(d.grant != NULL,
	    d.verdict == VERDICT_allowed || d.verdict == VERDICT_grant_exhausted);
	/* Discovery sees what execution would accept, and consumes nothing (TU-43). */
	ck_assert_int_eq(discover(&g, 1, "workspace", "read"), d.verdict);
}
END_TEST

START_TEST(a_clock_set_back_revives_nothing) /* TU-41 */
{
	struct grant g = GRANT(.expires_at_ms = ADMITTED);

	ck_assert_int_eq(decide(&g, 1, &read_docs_a, 1).verdict, VERDICT_no_matching_grant);
	g.expires_at_ms = ADMITTED + 1;
	ck_assert_int_eq(decide(&g, 1, &read_docs_a, 1).verdict, VERDICT_allowed);
}
END_TEST

static const struct {
	struct context c;
	const char *reason;
} contexts[] = {
	{ { NULL, "human:h", "human:o", "default", "work", ADMITTED, 0 }, "no actor" },
	{ { "agent:a", NULL, "human:o", "default", "work", ADMITTED, 0 }, "no authority" },
	{ { "agent:a", "human:h", NULL, "default", "work", ADMITTED, 0 }, "no owner" },
	{ { "agent:a", "human:h", "human:o", NULL, "work", ADMITTED, 0 }, "no namespace" },
	{ { "agent:a", "human:h", "human:o", "default", "", ADMITTED, 0 }, "no purpose" },
	{ { "a", "human:h", "human:o", "default", "work", ADMITTED, 0 },
	    "actor without a kind" },
	{ { "agent:", "human:h", "human:o", "default", "work", ADMITTED, 0 },
	    "actor without an id" },
	{ { "robot:a", "human:h", "human:o", "default", "work", ADMITTED, 0 }, "unknown kind" },
};

START_TEST(a_context_that_is_none_decides_nothing)
{
	struct grant g = GRANT();
	struct grant_set *set = set_of(&g, 1, false);
	struct context c = contexts[_i].c;

	c.revision = grant_set_revision(set);
	ck_assert_int_eq(
	    authority_decide(set, &c, &read_docs_a, NOW).verdict, VERDICT_invalid_context);
	ck_assert_int_eq(
	    authority_discover(set, &c, NULL, "workspace", "read", NOW),
	    VERDICT_invalid_context);
	grant_set_destroy(set);
}
END_TEST

START_TEST(grants_that_are_missing_fail_closed) /* TU-40 */
{
	const struct context ctx = admitted(NULL);
	struct decision d = authority_decide(NULL, &ctx, &read_docs_a, NOW);
	struct reach at = { 0 };

	ck_assert_int_eq(d.verdict, VERDICT_authority_unavailable);
	ck_assert_str_eq(decision_cause(&d), "grant_source_failed");
	ck_assert_int_eq(authority_discover(NULL, &ctx, NULL, "workspace", "read", NOW),
	    VERDICT_authority_unavailable);
	ck_assert_ptr_null(authority_reach(NULL, &ctx, NOW, &at));
}
END_TEST

START_TEST(grants_that_cannot_be_believed_fail_closed) /* TU-40, TU-42 */
{
	struct grant g = GRANT();
	struct grant_set *set = set_of(&g, 1, false);
	const struct context ctx = admitted(set);
	struct reach at = { 0 };
	struct decision d;

	ck_assert_int_eq(
	    authority_decide(set, &ctx, &read_docs_a, NOW).verdict, VERDICT_allowed);
	grant_set_fail(set, UNAVAILABLE_invalid_grant_material);
	grant_set_fail(set, UNAVAILABLE_grant_limit_exceeded); /* the first one is told */
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_authority_unavailable);
	ck_assert_ptr_null(d.grant);
	ck_assert_str_eq(decision_cause(&d), "invalid_grant_material");
	d = authority_recheck(set, &g, &ctx, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_authority_unavailable);
	ck_assert_int_eq(authority_discover(set, &ctx, NULL, "workspace", "read", NOW),
	    VERDICT_authority_unavailable);
	ck_assert_ptr_null(authority_reach(set, &ctx, NOW, &at));
	grant_set_destroy(set);
}
END_TEST

START_TEST(an_unbounded_grant_is_taken_before_a_bounded_one)
{
	struct grant g[] = {
		GRANT(.subject = "agent:b"),
		GRANT(.bounded = true, .max_uses = 1, .spent = 1),
		GRANT(.bounded = true, .max_uses = 1),
		GRANT(.bounded = true, .max_uses = 1),
		GRANT(),
		GRANT(),
	};

	ck_assert_ptr_eq(decide(g, 6, &read_docs_a, NOW).grant, &g[4]);
	ck_assert_ptr_eq(decide(g, 4, &read_docs_a, NOW).grant, &g[2]);
	g[2].spent = 1;
	ck_assert_ptr_eq(decide(g, 4, &read_docs_a, NOW).grant, &g[3]);
	g[3].spent = 1;
	ck_assert_int_eq(decide(g, 4, &read_docs_a, NOW).verdict, VERDICT_grant_exhausted);
	ck_assert_ptr_eq(decide(g, 4, &read_docs_a, NOW).grant, &g[1]);
}
END_TEST

START_TEST(exhausted_is_said_before_no_match) /* TU-45 */
{
	struct grant g[] = {
		GRANT(.bounded = true, .max_uses = 1, .spent = 1),
		GRANT(.purposes = for_play, .npurposes = 1),
	};
	struct decision d = decide(g, 2, &read_docs_a, NOW);
	const struct requirement other = { "workspace", NULL, PATH(seg_docs2), "read",
		NO_CALL };

	ck_assert_int_eq(d.verdict, VERDICT_grant_exhausted);
	ck_assert_int_eq(d.nearest, REJECTION_exhausted);
	/* A spent grant that would not cover it says nothing of its being spent. */
	d = decide(g, 2, &other, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	ck_assert_int_eq(d.nearest, REJECTION_capability);
}
END_TEST

START_TEST(a_narrow_grant_discovers_a_broad_tool) /* TU-13 */
{
	struct grant g = GRANT();

	ck_assert_int_eq(discover(&g, 1, "workspace", "read"), VERDICT_allowed);
	ck_assert_int_eq(discover(&g, 1, "workspace", "write"), VERDICT_no_matching_grant);
	ck_assert_int_eq(discover(&g, 1, "workspace", "*"), VERDICT_no_matching_grant);
	ck_assert_int_eq(discover(&g, 1, "workspace2", "read"), VERDICT_no_matching_grant);
	ck_assert_int_eq(discover(&g, 1, "", "read"), VERDICT_invalid_request);
	ck_assert_int_eq(discover(&g, 1, "workspace", NULL), VERDICT_invalid_request);
}
END_TEST

/* The vocabulary of the contract, word for word. */
START_TEST(every_name_is_the_contracts)
{
	static const char *const verdicts[] = { "allowed", "no_matching_grant",
		"grant_exhausted", "host_policy_denied", "delegation_chain_invalid",
		"invalid_request", "invalid_context", "host_policy_unavailable",
		"delegation_chain_unverified", "authority_unavailable", "unknown" };
	static const char *const chains[] = { "none", "issuer_not_parent_subject",
		"namespace_mismatch", "parent_inactive", "capability_widened",
		"constraints_widened", "delegation_not_permitted", "delegation_depth_exceeded",
		"bounded_parent_not_delegable", "chain_cycle", "chain_too_long",
		"parent_not_found", "unknown" };
	static const char *const derivations[] = { "none", "empty_capabilities",
		"id_collides_with_parent", "parent_not_delegable", "depth_exhausted",
		"capability_not_within_parent", "purpose_not_within_parent",
		"window_not_within_parent", "issued_before_parent",
		"bounded_parent_not_delegable", "unknown" };
	size_t i;

	for (i = 0; i < countof(verdicts); i++) {
		ck_assert_str_eq(verdict_name((enum verdict)i), verdicts[i]);
		ck_assert_int_eq(verdict_fails_closed((enum verdict)i), i >= 7 && i <= 9);
	}
	for (i = 0; i < countof(chains); i++)
		ck_assert_str_eq(chain_fault_name((enum chain_fault)i), chains[i]);
	for (i = 0; i < countof(derivations); i++)
		ck_assert_str_eq(derivation_name((enum derivation)i), derivations[i]);
	ck_assert_str_eq(rejection_name(REJECTION_window), "window");
	ck_assert_str_eq(rejection_name(REJECTION_exhausted), "exhausted");
	ck_assert_str_eq(rejection_name((enum rejection)99), "unknown");
	ck_assert_str_eq(missing_name(MISSING_path), "path");
	ck_assert_str_eq(missing_name((enum missing)99), "unknown");
	ck_assert_str_eq(
	    unavailable_name(UNAVAILABLE_grant_scope_mismatch), "grant_scope_mismatch");
	ck_assert_str_eq(unavailable_name((enum unavailable)99), "unknown");
}
END_TEST

/* ---- grants that are none ------------------------------------------------------------- */

static const struct capability no_actions = { "workspace", NULL, PATH(seg_docs), true, NULL,
	0 };
static const struct capability bad_path = { "workspace", NULL, PATH(seg_up), true,
	ACTIONS(act_read) };
static const struct capability bad_owner = { "workspace", "o", PATH(seg_docs), true,
	ACTIONS(act_read) };
static const struct capability no_namespace = { "", NULL, PATH(seg_docs), true,
	ACTIONS(act_read) };
static const struct capability empty_action = { "workspace", NULL, PATH(seg_docs), true,
	ACTIONS(seg_empty) };
static const struct capability many[65];

static const struct {
	struct grant g;
	const char *field;
} faults[] = {
	{ GRANT(.id = NULL), "id" },
	{ GRANT(.id = ""), "id" },
	{ GRANT(.id = "a\nb"), "id" },
	{ GRANT(.subject = "a"), "subject" },
	{ GRANT(.subject = "agent:"), "subject" },
	{ GRANT(.subject = "robot:x"), "subject" },
	{ GRANT(.subject = NULL), "subject" },
	{ GRANT(.issuer = "human"), "issuer" },
	{ GRANT(.issuer = "human:\xff"), "issuer" },
	{ GRANT(.namespace = ""), "namespace" },
	{ GRANT(.capabilities = NULL, .ncapabilities = 0), "capabilities" },
	{ GRANT(.capabilities = many, .ncapabilities = 65), "capabilities" },
	{ GRANT(.capabilities = &no_actions), "actions" },
	{ GRANT(.capabilities = &empty_action), "actions" },
	{ GRANT(.capabilities = &bad_path), "path" },
	{ GRANT(.capabilities = &bad_owner), "owner" },
	{ GRANT(.capabilities = &no_namespace), "namespace" },
	{ GRANT(.not_before_ms = 5, .expires_at_ms = 5), "expiresAt" },
	{ GRANT(.bounded = true), "maxUses" },
	{ GRANT(.purposes = seg_empty, .npurposes = 1), "purposes" },
	{ GRANT(.purposes = NULL, .npurposes = 1), "purposes" },
	{ GRANT(.parent = ""), "parent" },
	{ GRANT(.parent = "g"), "parent" },
	{ GRANT(.delegation_depth = 16), "delegationDepth" },
	{ GRANT(.purposes = for_work, .npurposes = 65), "purposes" },
};

START_TEST(a_grant_that_is_none_names_its_member) /* TU-38 */
{
	const char *field = NULL;

	ck_assert_str_ne(grant_fault(&faults[_i].g, &field), "");
	ck_assert_str_eq(field, faults[_i].field);
}
END_TEST

START_TEST(a_good_grant_has_no_fault)
{
	const char *field;
	struct grant g = GRANT(.not_before_ms = 4, .expires_at_ms = 5, .bounded = true,
	    .max_uses = 1, .purposes = for_work, .npurposes = 2);

	ck_assert_str_eq(grant_fault(&g, &field), "");
	g = GRANT(.subject = "group:g", .issuer = "service:s", .parent = "p",
	    .delegation_depth = 15);
	ck_assert_str_eq(grant_fault(&g, &field), "");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority");
	TCase *rows = tcase_create("rows"), *grants = tcase_create("grants");
	SRunner *r;
	int failed;

	tcase_add_test(rows, no_grant_denies_everything);
	tcase_add_test(rows, a_grant_that_covers_it_allows);
	tcase_add_loop_test(rows, one_capability_covers_or_does_not, 0, countof(covers));
	tcase_add_test(rows, capabilities_are_not_combined);
	tcase_add_loop_test(rows, a_grant_is_eligible_or_says_why_not, 0, countof(eligibility));
	tcase_add_test(rows, a_clock_set_back_revives_nothing);
	tcase_add_loop_test(rows, a_context_that_is_none_decides_nothing, 0, countof(contexts));
	tcase_add_test(rows, grants_that_are_missing_fail_closed);
	tcase_add_test(rows, grants_that_cannot_be_believed_fail_closed);
	tcase_add_test(rows, an_unbounded_grant_is_taken_before_a_bounded_one);
	tcase_add_test(rows, exhausted_is_said_before_no_match);
	tcase_add_test(rows, a_narrow_grant_discovers_a_broad_tool);
	tcase_add_test(rows, every_name_is_the_contracts);
	suite_add_tcase(s, rows);
	tcase_add_loop_test(grants, a_grant_that_is_none_names_its_member, 0, countof(faults));
	tcase_add_test(grants, a_good_grant_has_no_fault);
	suite_add_tcase(s, grants);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
