/*
 * Grants for one exact call: of one tool, with arguments of one digest, once, by one
 * principal, and for nothing else.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/authority_fixture.h"

#define MANY 3000

static const char *act_all[] = { "*" };
static const char *seg_docs_b[] = { "docs", "b" };
static const uint8_t digest[AUTHORITY_DIGEST_BYTES] = { 7, 0, 255 };
static const uint8_t other[AUTHORITY_DIGEST_BYTES] = { 7, 0, 254 };

static const struct capability exact_a = { "workspace", NULL, PATH(seg_docs_a), false,
	ACTIONS(act_read) };
static const struct capability any_action = { "workspace", NULL, PATH(seg_docs_a), false,
	ACTIONS(act_all) };

/* For reading docs/a by the tool `look`, once. */
#define FOR_A_CALL(...)                                                                        \
	GRANT(.capabilities = &exact_a, .tool = "look", .digest = { 7, 0, 255 },               \
	    .bounded = true, .max_uses = 1, __VA_ARGS__)

static const struct requirement look_a = { "workspace", NULL, PATH(seg_docs_a), "read", "look",
	digest };

static const struct {
	struct requirement r;
	const char *reason;
	enum verdict want;
	enum missing missing;
} calls[] = {
	{ { "workspace", NULL, PATH(seg_docs_a), "read", "look", digest }, "the call",
	    VERDICT_allowed, MISSING_none },
	{ { "workspace", NULL, PATH(seg_docs_a), "read", "look", other }, "one bit of it",
	    VERDICT_no_matching_grant, MISSING_call },
	{ { "workspace", NULL, PATH(seg_docs_a), "read", "look2", digest }, "another tool",
	    VERDICT_no_matching_grant, MISSING_call },
	{ { "workspace", NULL, PATH(seg_docs_a), "read", "loo", digest }, "a shorter name",
	    VERDICT_no_matching_grant, MISSING_call },
	{ { "workspace", NULL, PATH(seg_docs_a), "read", NULL, NULL }, "no call",
	    VERDICT_no_matching_grant, MISSING_call },
	{ { "workspace", NULL, PATH(seg_docs_a), "read", "look", NULL }, "no arguments",
	    VERDICT_no_matching_grant, MISSING_call },
	{ { "workspace", NULL, PATH(seg_docs_b), "read", "look", digest }, "another path",
	    VERDICT_no_matching_grant, MISSING_path },
	{ { "workspace", NULL, PATH(seg_docs_a), "write", "look", digest }, "another action",
	    VERDICT_no_matching_grant, MISSING_action },
	{ { "mail", NULL, PATH(seg_docs_a), "read", "look", digest }, "another resource",
	    VERDICT_no_matching_grant, MISSING_resource },
	{ { "workspace", "human:x", PATH(seg_docs_a), "read", "look", digest }, "another owner",
	    VERDICT_invalid_request, MISSING_none },
};

START_TEST(a_grant_for_one_call_covers_that_call_alone)
{
	struct grant g = FOR_A_CALL(.id = "g");
	struct grant_set *set = set_of(&g, 1, true);
	const struct context ctx = admitted(set);
	struct decision d = authority_decide(set, &ctx, &calls[_i].r, NOW);

	ck_assert_msg(d.verdict == calls[_i].want, "%s: %s", calls[_i].reason,
	    verdict_name(d.verdict));
	ck_assert_msg(d.missing == calls[_i].missing, "%s: %s", calls[_i].reason,
	    missing_name(d.missing));
	ck_assert_ptr_eq(d.grant, d.verdict == VERDICT_allowed ? &g : NULL);
	ck_assert_ptr_eq(d.closest, d.verdict == VERDICT_no_matching_grant ? &g : NULL);
	grant_set_destroy(set);
}
END_TEST

START_TEST(every_changed_bit_of_the_arguments_is_another_call)
{
	struct grant g = FOR_A_CALL(.id = "g");
	struct grant_set *set = set_of(&g, 1, true);
	const struct context ctx = admitted(set);
	struct requirement r = look_a;
	uint8_t changed[sizeof(digest)];
	size_t bit;

	r.digest = changed;
	for (bit = 0; bit < 8 * sizeof(digest); bit++) {
		memcpy(changed, digest, sizeof(digest));
		changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(
		    authority_decide(set, &ctx, &r, NOW).verdict, VERDICT_no_matching_grant);
	}
	memcpy(changed, digest, sizeof(digest));
	ck_assert_int_eq(authority_decide(set, &ctx, &r, NOW).verdict, VERDICT_allowed);
	grant_set_destroy(set);
}
END_TEST

START_TEST(it_is_used_once_and_by_its_subject_alone)
{
	struct grant g = FOR_A_CALL(.id = "g");
	struct grant_set *set = set_of(&g, 1, true);
	struct context ctx = admitted(set), stranger = ctx;
	struct decision d;

	stranger.actor = "agent:b";
	ck_assert_int_eq(authority_decide(set, &stranger, &look_a, NOW).verdict,
	    VERDICT_no_matching_grant);
	ck_assert_int_eq(authority_decide(set, &ctx, &look_a, NOW).verdict, VERDICT_allowed);
	g.spent = 1;
	d = authority_decide(set, &ctx, &look_a, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_grant_exhausted);
	ck_assert_ptr_eq(d.grant, &g);
	/* Revoked and expired like any other. */
	g.spent = 0;
	grant_set_revoke(set, &g, 1);
	d = authority_decide(set, &ctx, &look_a, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	ck_assert_int_eq(d.nearest, REJECTION_revoked);
	grant_set_destroy(set);
}
END_TEST

START_TEST(it_offers_its_own_tool_and_no_other) /* TU-13, TU-43 */
{
	struct grant g = FOR_A_CALL(.id = "g"),
		     all = FOR_A_CALL(.id = "all", .tool = "any", .capabilities = &any_action);
	struct grant_set *set = set_of(&g, 1, true);
	struct context ctx = admitted(set);
	struct reach at = { 0 };
#define OFFERS(tool, action)                                                                   \
	(authority_discover(set, &ctx, tool, "workspace", action, NOW) == VERDICT_allowed)

	ck_assert(OFFERS("look", "read"));
	ck_assert(!OFFERS("look", "write"));
	ck_assert(!OFFERS("look2", "read"));
	ck_assert(!OFFERS(NULL, "read"));
	ck_assert(authority_discover(set, &ctx, "look", "mail", "read", NOW) !=
		  VERDICT_allowed);
	/* A runtime's reach would promise more than the one call. */
	ck_assert_ptr_null(authority_reach(set, &ctx, NOW, &at));
	g.spent = 1; /* nothing is left to find */
	ck_assert(!OFFERS("look", "read"));
	ck_assert_int_eq(grant_set_add(set, &all), 0);
	ctx = admitted(set);
	ck_assert(OFFERS("any", "write") && OFFERS("any", "*") && !OFFERS("look", "write"));
#undef OFFERS
	grant_set_destroy(set);
}
END_TEST

static const struct {
	uint32_t max_uses, depth;
	bool bounded;
	const char *tool, *field;
} unfit[] = {
	{ 1, 0, true, "look", "" },
	{ 2, 0, true, "look", "maxUses" },
	{ 1, 0, false, "look", "maxUses" },
	{ 1, 1, true, "look", "delegationDepth" },
	{ 1, 0, true, "", "tool" },
	{ 1, 0, true, "lo\nok", "tool" },
};

START_TEST(it_is_bounded_to_one_use_and_cannot_be_delegated) /* TU-38 */
{
	struct grant g = FOR_A_CALL(.max_uses = unfit[_i].max_uses,
	    .delegation_depth = unfit[_i].depth, .bounded = unfit[_i].bounded,
	    .tool = unfit[_i].tool);
	const char *field, *fault = grant_fault(&g, &field);

	if (unfit[_i].field[0] == '\0') {
		ck_assert_str_eq(fault, "");
	} else {
		ck_assert_str_ne(fault, "");
		ck_assert_str_eq(field, unfit[_i].field);
	}
}
END_TEST

START_TEST(what_is_derived_from_it_allows_nothing) /* TU-46 */
{
	struct grant g[] = {
		FOR_A_CALL(.id = "parent", .subject = "human:h", .issuer = "human:r"),
		GRANT(.id = "wider", .capabilities = &exact_a, .parent = "parent"),
		FOR_A_CALL(.id = "same", .parent = "parent"),
	};
	struct grant_set *set = set_of(g, countof(g), true);
	const struct context ctx = admitted(set);
	struct grant child = GRANT(.id = "new", .capabilities = &exact_a);

	ck_assert_int_eq(authority_decide(set, &ctx, &look_a, NOW).verdict,
	    VERDICT_delegation_chain_invalid);
	ck_assert_int_eq(authority_decide(set, &ctx, &read_docs_a, NOW).verdict,
	    VERDICT_delegation_chain_invalid);
	ck_assert_int_eq(grant_derive(&g[0], &child), DERIVATION_parent_not_delegable);
	grant_set_destroy(set);
}
END_TEST

START_TEST(a_grant_for_one_call_may_be_derived_from_a_wider_one) /* TU-46 */
{
	struct grant parent = GRANT(.id = "parent", .subject = "human:h", .issuer = "human:r",
		    .delegation_depth = 1),
		     child = FOR_A_CALL(.id = "child");
	struct grant_set *set = set_of(&parent, 1, true);
	struct context ctx;
	struct requirement changed = look_a;

	ck_assert_int_eq(grant_derive(&parent, &child), DERIVATION_ok);
	ck_assert_int_eq(grant_set_add(set, &child), 0);
	ctx = admitted(set);
	changed.digest = other;
	ck_assert_int_eq(authority_decide(set, &ctx, &look_a, NOW).verdict, VERDICT_allowed);
	ck_assert_int_eq(authority_decide(set, &ctx, &changed, NOW).verdict,
	    VERDICT_no_matching_grant);
	grant_set_revoke(set, &parent, 1);
	ck_assert_int_eq(authority_decide(set, &ctx, &look_a, NOW).verdict,
	    VERDICT_delegation_chain_invalid);
	grant_set_destroy(set);
}
END_TEST

START_TEST(of_many_each_is_found_by_its_call)
{
	static struct grant g[MANY];
	static char id[MANY][8];
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	struct requirement r = look_a;
	struct context ctx;
	struct decision d;
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		snprintf(id[i], sizeof(id[i]), "g%u", i);
		g[i] = FOR_A_CALL(.id = id[i]);
		memcpy(g[i].digest, &i, sizeof(i));
		ck_assert_int_eq(grant_set_add(set, &g[i]), 0);
	}
	ctx = admitted(set);
	for (i = 0; i < MANY; i += 2)
		grant_set_remove(set, &g[i]);
	for (i = 0; i < MANY; i++) {
		r.digest = g[i].digest;
		d = authority_decide(set, &ctx, &r, NOW);
		ck_assert_int_eq(d.verdict,
		    i % 2 == 0 ? VERDICT_no_matching_grant : VERDICT_allowed);
		ck_assert_ptr_eq(d.grant, i % 2 == 0 ? NULL : &g[i]);
	}
	for (i = 1; i < MANY; i += 2)
		grant_set_remove(set, &g[i]);
	ck_assert(authority_discover(set, &ctx, "look", "workspace", "read", NOW) !=
		  VERDICT_allowed);
	grant_set_destroy(set);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority_calls");
	TCase *t = tcase_create("calls");
	SRunner *r;
	int failed;

	tcase_add_loop_test(
	    t, a_grant_for_one_call_covers_that_call_alone, 0, countof(calls));
	tcase_add_test(t, every_changed_bit_of_the_arguments_is_another_call);
	tcase_add_test(t, it_is_used_once_and_by_its_subject_alone);
	tcase_add_test(t, it_offers_its_own_tool_and_no_other);
	tcase_add_loop_test(
	    t, it_is_bounded_to_one_use_and_cannot_be_delegated, 0, countof(unfit));
	tcase_add_test(t, what_is_derived_from_it_allows_nothing);
	tcase_add_test(t, a_grant_for_one_call_may_be_derived_from_a_wider_one);
	tcase_add_test(t, of_many_each_is_found_by_its_call);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
