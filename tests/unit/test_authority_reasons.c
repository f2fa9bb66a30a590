/*
 * Reasons: what the host refuses (TU-44), what is told when several things are wrong (TU-45),
 * which grant came closest, and what a runtime is told that it could do (TU-47).
 */
#include <check.h>

#include "tests/unit/authority_fixture.h"

static const char *act_write[] = { "write" }, *act_all[] = { "*" };
static const char *seg_docs2[] = { "docs2" }, *seg_docs_b[] = { "docs", "b" };
static const char *for_play[] = { "play" };

#define CAP(path, below, actions)                                                              \
	{                                                                                      \
		"workspace", NULL, PATH(path), below, ACTIONS(actions)                         \
	}
#define ROOT_CAP(below, actions)                                                               \
	{                                                                                      \
		"workspace", NULL, { NULL, 0 }, below, ACTIONS(actions)                        \
	}

static const struct capability sibling = CAP(seg_docs2, true, act_read);
static const struct capability exact_a = CAP(seg_docs_a, false, act_read);
static const struct capability elsewhere = { "mail", NULL, PATH(seg_docs), true,
	ACTIONS(act_read) };
static const struct capability a_and_write[] = { CAP(seg_docs_a, true, act_read),
	CAP(seg_docs_b, true, act_write) };

/* ---- the ceiling ----------------------------------------------------------------------- */

static const struct capability frozen_a[] = { CAP(seg_docs_a, true, act_all) };
static const struct capability frozen_root[] = { ROOT_CAP(true, act_all) };
static const struct capability frozen_write[] = { ROOT_CAP(true, act_write) };
static const struct capability frozen_above[] = { CAP(seg_docs, false, act_read) };
static const struct capability frozen_other[] = { { "workspace", "human:x", PATH(seg_docs),
    true, ACTIONS(act_all) } };

static const struct {
	struct ceiling c;
	enum verdict executes, discovers;
	const char *reason;
} ceilings[] = {
	{ { true, NULL, 0 }, VERDICT_allowed, VERDICT_allowed, "refuses nothing" },
	{ { true, frozen_a, 1 }, VERDICT_host_policy_denied, VERDICT_allowed, "a subtree" },
	{ { true, frozen_root, 1 }, VERDICT_host_policy_denied, VERDICT_host_policy_denied,
	    "everything" },
	{ { true, frozen_write, 1 }, VERDICT_allowed, VERDICT_allowed, "another action" },
	{ { true, frozen_above, 1 }, VERDICT_allowed, VERDICT_allowed, "exactly the parent" },
	{ { true, frozen_other, 1 }, VERDICT_allowed, VERDICT_allowed, "of another owner" },
	{ { false, NULL, 0 }, VERDICT_host_policy_unavailable, VERDICT_host_policy_unavailable,
	    "cannot be had" },
};

START_TEST(the_ceiling_only_narrows) /* TU-44 */
{
	struct grant g = GRANT(.bounded = true, .max_uses = 1);
	struct grant_set *set = set_of(&g, 1, false);
	const struct context ctx = admitted(set);
	const struct requirement other = { "workspace", NULL, PATH(seg_docs2), "read",
		NO_CALL };
	struct decision d;
	struct reach at = { 0 };

	grant_set_ceiling(set, &ceilings[_i].c);
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_msg(d.verdict == ceilings[_i].executes, "%s: %s", ceilings[_i].reason,
	    verdict_name(d.verdict));
	ck_assert_ptr_eq(d.grant, &g); /* the one that it overrides is named */
	ck_assert_uint_eq(g.spent, 0);
	ck_assert_int_eq(
	    authority_discover(set, &ctx, NULL, "workspace", "read", NOW),
	    ceilings[_i].discovers);
	ck_assert_int_eq(authority_reach(set, &ctx, NOW, &at) != NULL,
	    ceilings[_i].discovers == VERDICT_allowed);
	/* A denial stays one, with its own code. */
	d = authority_decide(set, &ctx, &other, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	g.spent = 1; /* and is asked before the uses are */
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.verdict, ceilings[_i].executes == VERDICT_allowed
					? VERDICT_grant_exhausted
					: ceilings[_i].executes);
	grant_set_destroy(set);
}
END_TEST

/* ---- several reasons ------------------------------------------------------------------- */

START_TEST(the_gravest_reason_is_told) /* TU-45 */
{
	/* Bit by bit: no match, exhausted, chain invalid, chain unverified, allowed. */
	static const enum verdict told[] = { VERDICT_no_matching_grant, VERDICT_grant_exhausted,
		VERDICT_delegation_chain_invalid, VERDICT_delegation_chain_unverified,
		VERDICT_allowed };
	struct grant dead = GRANT(.id = "dead", .issuer = "service:s", .subject = "human:h",
	    .delegation_depth = 1, .revoked_at_ms = 1);
	const struct grant kinds[] = { GRANT(.id = "k0", .purposes = for_play, .npurposes = 1),
		GRANT(.id = "k1", .bounded = true, .max_uses = 1, .spent = 1),
		GRANT(.id = "k2", .parent = "dead"), GRANT(.id = "k3", .parent = "gone"),
		GRANT(.id = "k4", .bounded = true, .max_uses = 1) };
	struct grant g[5];
	struct decision d;
	int bits, k, top, reverse;

	for (bits = 1; bits < 32; bits++) {
		for (reverse = 0; reverse < 2; reverse++) {
			struct grant_set *set = grant_set_create(REVOCATION_immediate);
			struct context ctx;

			ck_assert_int_eq(grant_set_add(set, &dead), 0);
			for (k = top = 0; k < 5; k++) {
				int which = reverse ? 4 - k : k;

				if (!(bits & (1 << which)))
					continue;
				g[which] = kinds[which];
				ck_assert_int_eq(grant_set_add(set, &g[which]), 0);
				top = which > top ? which : top;
			}
			ctx = admitted(set);
			d = authority_decide(set, &ctx, &read_docs_a, NOW);
			ck_assert_int_eq(d.verdict, told[top]);
			ck_assert_ptr_eq(top == 0 ? d.closest : d.grant, &g[top]);
			grant_set_destroy(set);
		}
	}
}
END_TEST

/* ---- why ------------------------------------------------------------------------------- */

static const struct capability mine[] = { CAP(seg_docs_a, true, act_read) };
static const struct capability read_all[] = { ROOT_CAP(true, act_read) };

START_TEST(a_denial_names_the_grant_that_came_closest)
{
	static const char *const write[] = { "write" };
	struct grant g[] = {
		GRANT(.capabilities = &elsewhere),
		GRANT(.capabilities = &sibling),
		GRANT(.capabilities = mine),
		GRANT(.capabilities = &exact_a, .purposes = for_play, .npurposes = 1),
	};
	const struct requirement reqs[] = {
		{ "workspace", NULL, PATH(seg_docs_b), "read", NO_CALL },
		{ "workspace", NULL, PATH(seg_docs_a), write[0], NO_CALL },
		{ "workspace", NULL, PATH(seg_docs_b), write[0], NO_CALL },
		{ "nowhere", NULL, PATH(seg_docs_b), "read", NO_CALL },
	};
	struct grant_set *set = set_of(g, 3, false);
	struct context ctx = admitted(set);
	struct decision d;

	d = authority_decide(set, &ctx, &reqs[0], NOW);
	ck_assert_int_eq(d.missing, MISSING_path);
	ck_assert_ptr_eq(d.closest, &g[2]); /* docs is common to both */
	d = authority_decide(set, &ctx, &reqs[1], NOW);
	ck_assert_int_eq(d.missing, MISSING_action);
	ck_assert_ptr_eq(d.closest, &g[2]);
	d = authority_decide(set, &ctx, &reqs[2], NOW);
	ck_assert_int_eq(d.missing, MISSING_path);
	d = authority_decide(set, &ctx, &reqs[3], NOW);
	ck_assert_int_eq(d.missing, MISSING_resource);
	ck_assert_ptr_eq(d.closest, &g[0]);
	ck_assert_str_eq(decision_cause(&d), "capability");
	grant_set_revoke(set, &g[2], 1);
	ck_assert_int_eq(grant_set_add(set, (g[3].id = "g3", &g[3])), 0);
	ctx = admitted(set);
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.nearest, REJECTION_purpose);
	ck_assert_ptr_eq(d.closest, &g[3]);
	ck_assert_ptr_null(d.grant);
	/* A grant of another owner's resource. */
	grant_set_destroy(set);
	g[0] = GRANT(.capabilities = (const struct capability[]){
			 { "workspace", "human:x", PATH(seg_docs), true, ACTIONS(act_read) } });
	set = set_of(g, 1, false);
	ctx = admitted(set);
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.missing, MISSING_owner);
	grant_set_destroy(set);
}
END_TEST

START_TEST(reach_is_what_stands_and_is_not_spent) /* TU-47 */
{
	struct grant g[] = {
		GRANT(.capabilities = read_all),
		GRANT(.bounded = true, .max_uses = 1, .spent = 1),
		GRANT(.subject = "agent:b"),
		GRANT(.purposes = for_play, .npurposes = 1),
		GRANT(.parent = "gone"),
		GRANT(.expires_at_ms = NOW),
		GRANT(.capabilities = a_and_write, .ncapabilities = 2),
	};
	struct grant_set *set = set_of(g, 7, false);
	const struct context ctx = admitted(set);
	struct reach at = { 0 };

	ck_assert_ptr_eq(authority_reach(set, &ctx, NOW, &at), &read_all[0]);
	ck_assert_ptr_eq(authority_reach(set, &ctx, NOW, &at), &a_and_write[0]);
	ck_assert_ptr_eq(authority_reach(set, &ctx, NOW, &at), &a_and_write[1]);
	ck_assert_ptr_null(authority_reach(set, &ctx, NOW, &at));
	ck_assert_ptr_null(authority_reach(set, &ctx, NOW, &at));
	grant_set_destroy(set);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority_reasons");
	TCase *t = tcase_create("reasons");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, the_ceiling_only_narrows, 0, countof(ceilings));
	tcase_add_test(t, the_gravest_reason_is_told);
	tcase_add_test(t, a_denial_names_the_grant_that_came_closest);
	tcase_add_test(t, reach_is_what_stands_and_is_not_spent);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
