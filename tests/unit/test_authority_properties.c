/*
 * Properties of decisions over random grant graphs: chains that were derived and chains that
 * were forged, ceilings, revocations and new grants in mid-turn.
 *
 * AUTHORITY_PAIRS=n looks at n pairs of a set and a call instead of 20000.
 */
#include "tests/unit/authority_world.h"

static unsigned
pairs(void)
{
	const char *text = getenv("AUTHORITY_PAIRS");

	return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 20000;
}

START_TEST(decisions_are_those_of_the_model) /* TU-33 to TU-46, D-7 */
{
	unsigned round, n = pairs(), seen[VERDICT_authority_unavailable + 1] = { 0 };
	unsigned chains[CHAIN_parent_not_found + 1] = { 0 }, calls = 0;
	const char *segments[MEMBERS_MAX];
	const struct grant *grant;
	enum chain_fault chain;
	struct requirement r;
	struct decision d;
	enum verdict want;
	struct world w;

	seed = 0x9e3779b97f4a7c15u;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		want = model_decide(&w, &r, &grant, &chain);
		d = authority_decide(w.set, &w.ctx, &r, w.now_ms);
		ck_assert_msg(d.verdict == want && d.grant == grant && d.chain == chain,
		    "round %u: %s (%s), not %s (%s)", round, verdict_name(d.verdict),
		    chain_fault_name(d.chain), verdict_name(want), chain_fault_name(chain));
		seen[want]++;
		chains[chain]++;
		/* The second look agrees, as nothing has happened. */
		if (want == VERDICT_allowed)
			ck_assert_int_eq(
			    authority_recheck(w.set, d.grant, &w.ctx, w.now_ms).verdict, want);
		/* What can be executed can be discovered. */
		ck_assert(want != VERDICT_allowed ||
			  authority_discover(w.set, &w.ctx, r.tool, r.namespace, r.action,
			      w.now_ms) == VERDICT_allowed);
		calls += d.verdict == VERDICT_allowed && d.grant->tool != NULL;
		ck_assert(d.chain == CHAIN_ok || d.link != NULL);
		world_end(&w);
	}
	/* A generator that does not reach a rule would prove nothing of it. */
	ck_assert_uint_ge(seen[VERDICT_allowed], n / 40);
	ck_assert_uint_ge(calls, n / 1000);
	ck_assert_uint_ge(seen[VERDICT_no_matching_grant], n / 20);
	ck_assert_uint_ge(seen[VERDICT_grant_exhausted], n / 200);
	ck_assert_uint_ge(seen[VERDICT_host_policy_denied], n / 1000);
	ck_assert_uint_ge(seen[VERDICT_host_policy_unavailable], n / 1000);
	for (chain = CHAIN_ok; chain <= CHAIN_parent_not_found; chain++)
		if (chain !=
		    CHAIN_too_long) /* longer than this world: test_authority_chain.c */
			ck_assert_msg(chains[chain] >= n / 5000, "%s", chain_fault_name(chain));
}
END_TEST

/* What a set of these two, or one, decides for an actor of its own. */
static enum verdict
alone(struct grant *a, struct grant *b, const struct context *base, const struct requirement *r)
{
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	struct context ctx = *base;
	enum verdict v;

	ck_assert_int_eq(grant_set_add(set, a), 0);
	if (b != NULL)
		ck_assert_int_eq(grant_set_add(set, b), 0);
	ctx.revision = grant_set_revision(set);
	v = authority_decide(set, &ctx, r, NOW).verdict;
	grant_set_destroy(set);
	return v;
}

START_TEST(what_is_allowed_is_covered_by_one_capability_alone) /* TU-34 */
{
	unsigned round, found, looked = 0, n = pairs();
	const char *segments[MEMBERS_MAX];
	struct requirement r;
	struct decision d;
	struct grant one;
	struct world w;
	size_t k;

	seed = 42;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		d = authority_decide(w.set, &w.ctx, &r, NOW);
		if (d.verdict == VERDICT_allowed) {
			for (k = 0, found = 0; k < d.grant->ncapabilities; k++) {
				one = *d.grant;
				one.parent = NULL;
				one.capabilities = &d.grant->capabilities[k];
				one.ncapabilities = 1;
				one.revoked_at_ms = 0;
				found += alone(&one, NULL, &w.ctx, &r) == VERDICT_allowed;
			}
			ck_assert_uint_ge(found, 1);
			looked++;
		}
		world_end(&w);
	}
	ck_assert_uint_ge(looked, n / 40);
}
END_TEST

START_TEST(a_capability_split_over_two_grants_gives_nothing_new) /* TU-34 */
{
	const char *segments[MEMBERS_MAX], *nothing[] = { "nothing" };
	unsigned round, whole = 0, n = pairs();
	struct capability half[2];
	struct grant split[2], one;
	struct requirement r;
	struct world w;

	seed = 7;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		one = w.g[0];
		one.parent = NULL;
		one.ncapabilities = 1;
		if (*grant_fault(&one, &(const char *){ NULL }) == '\0' &&
		    alone(&one, NULL, &w.ctx, &r) == VERDICT_allowed) {
			whole++;
			/* Place in one grant, action in the other: neither has both. */
			half[0] = half[1] = one.capabilities[0];
			half[0].actions = nothing;
			half[0].nactions = 1;
			half[1].namespace = "elsewhere";
			split[0] = split[1] = one;
			split[1].id = "second";
			split[0].capabilities = &half[0];
			split[1].capabilities = &half[1];
			ck_assert_int_eq(
			    alone(&split[0], &split[1], &w.ctx, &r), VERDICT_no_matching_grant);
		}
		world_end(&w);
	}
	ck_assert_uint_ge(whole, n / 200);
}
END_TEST

/* TU-46: whoever holds the parent could have done it, too; and both rules are one rule. */
START_TEST(a_child_never_allows_what_its_parent_does_not)
{
	unsigned round, allowed = 0, derived = 0, n = pairs();
	const char *segments[MEMBERS_MAX], *field;
	struct context child_ctx, parent_ctx;
	struct grant parent, child, written;
	struct requirement r;
	enum derivation got;
	struct world w;

	seed = 0xabcdef12345u;
	for (round = 0; round < n; round++) {
		do {
			random_world(&w);
			world_end(&w);
		} while (w.n < 2);
		r = random_requirement(segments);
		parent = w.g[0];
		child = written = w.g[1];
		parent.parent = NULL;
		child.revoked_at_ms = parent.revoked_at_ms = 0;
		got = grant_derive(&parent, &child);
		/* A child that says all of it itself is judged alike at both times. */
		written.parent = parent.id;
		if (strcmp(written.issuer, parent.subject) == 0 &&
		    strcmp(written.namespace, parent.namespace) == 0)
			ck_assert(grant_link_fault(&written, &parent) != CHAIN_ok ||
				  got == DERIVATION_ok);
		if (got != DERIVATION_ok || *grant_fault(&child, &field) != '\0' ||
		    *grant_fault(&parent, &field) != '\0')
			continue;
		ck_assert_int_eq(grant_link_fault(&child, &parent), CHAIN_ok);
		derived++;
		child_ctx = parent_ctx = w.ctx;
		child_ctx.actor = child.subject;
		child_ctx.authority = child.issuer;
		parent_ctx.actor = parent.subject;
		parent_ctx.authority = parent.issuer;
		child_ctx.namespace = parent_ctx.namespace = parent.namespace;
		if (alone(&parent, &child, &child_ctx, &r) == VERDICT_allowed &&
		    strcmp(child.subject, parent.subject) != 0) {
			ck_assert_int_eq(
			    alone(&parent, NULL, &parent_ctx, &r), VERDICT_allowed);
			allowed++;
		}
	}
	ck_assert_uint_ge(derived, n / 40);
	ck_assert_uint_ge(allowed, n / 400);
}
END_TEST

/* A line of 2 to 16 grants, each derived from the one before. */
START_TEST(revoking_the_root_stops_every_descendant_at_any_depth) /* TU-46 */
{
	static const char *const line_ids[] = { "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7",
		"l8", "l9", "la", "lb", "lc", "ld", "le", "lf" };
	unsigned round, i, k, n = pairs() / 10, length, cut;
	struct grant g[AUTHORITY_CHAIN_MAX];
	struct grant_set *set;
	struct context ctx;
	struct decision d;

	seed = 31337;
	for (round = 0; round < n; round++) {
		length = 2 + pick(AUTHORITY_CHAIN_MAX - 1);
		cut = pick(length - 1);
		set = grant_set_create(REVOCATION_immediate);
		for (i = 0; i < length; i++) {
			g[i] = GRANT(.id = line_ids[i], .subject = "human:h",
			    .delegation_depth = length - 1 - i);
			if (i > 0)
				ck_assert_int_eq(grant_derive(&g[i - 1], &g[i]), DERIVATION_ok);
			g[i].subject = i + 1 == length ? "agent:a" : "human:h";
		}
		for (i = 0, k = pick(length); i < length; i++) /* in any order */
			ck_assert_int_eq(grant_set_add(set, &g[(i + k) % length]), 0);
		ctx = admitted(set);
		d = authority_decide(set, &ctx, &read_docs_a, NOW);
		ck_assert_int_eq(d.verdict, VERDICT_allowed);
		grant_set_revoke(set, &g[cut], NOW);
		d = authority_decide(set, &ctx, &read_docs_a, NOW);
		ck_assert_int_eq(d.verdict, VERDICT_delegation_chain_invalid);
		ck_assert_int_eq(d.chain, CHAIN_parent_inactive);
		ck_assert_ptr_eq(d.link, &g[cut + 1]);
		grant_set_destroy(set);
	}
}
END_TEST

START_TEST(one_grant_more_takes_nothing_away)
{
	const char *segments[MEMBERS_MAX];
	unsigned round, allowed = 0, n = pairs();
	struct requirement r;
	struct world w;

	seed = 99;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		w.ctx = admitted(w.set);
		if (w.n < WORLD_MAX &&
		    authority_decide(w.set, &w.ctx, &r, NOW).verdict == VERDICT_allowed) {
			random_grant(&w, w.n);
			world_add(&w, w.n, true);
			w.ctx = admitted(w.set);
			ck_assert_int_eq(
			    authority_decide(w.set, &w.ctx, &r, NOW).verdict, VERDICT_allowed);
			allowed++;
		}
		world_end(&w);
	}
	ck_assert_uint_ge(allowed, n / 100);
}
END_TEST

START_TEST(time_only_takes_away) /* TU-41 */
{
	const char *segments[MEMBERS_MAX];
	struct requirement r;
	unsigned round, n = pairs();
	bool before, after;
	struct world w;
	uint64_t t;

	seed = 1234567;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		before = true;
		for (t = NOW - 4; t < NOW + 4; t++) {
			after =
			    authority_decide(w.set, &w.ctx, &r, t).verdict == VERDICT_allowed;
			ck_assert(before || !after);
			before = after;
		}
		world_end(&w);
	}
}
END_TEST

START_TEST(a_ceiling_allows_nothing_and_has_no_words_of_its_own) /* TU-44 */
{
	const char *segments[MEMBERS_MAX];
	unsigned round, n = pairs();
	struct requirement r;
	struct decision with, without;
	struct world w;

	seed = 4242;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		grant_set_ceiling(w.set, NULL);
		without = authority_decide(w.set, &w.ctx, &r, NOW);
		grant_set_ceiling(w.set, &w.ceiling);
		with = authority_decide(w.set, &w.ctx, &r, NOW);
		/* It speaks only where a grant whose chain holds covers what is asked. */
		if (with.verdict != without.verdict) {
			ck_assert(without.verdict == VERDICT_allowed ||
				  without.verdict == VERDICT_grant_exhausted);
			ck_assert(with.verdict == (w.ceiling.available
							  ? VERDICT_host_policy_denied
							  : VERDICT_host_policy_unavailable) ||
				  with.verdict == VERDICT_delegation_chain_invalid ||
				  with.verdict == VERDICT_delegation_chain_unverified);
		}
		world_end(&w);
	}
}
END_TEST

/* The closest grant, alone with its ancestors, is refused for the reason that was given. */
START_TEST(a_denial_says_what_its_closest_grant_says)
{
	unsigned round, named = 0, n = pairs();
	const char *segments[MEMBERS_MAX];
	struct requirement r;
	struct decision d, again;
	struct world w;
	size_t i;

	seed = 777;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		d = authority_decide(w.set, &w.ctx, &r, w.now_ms);
		ck_assert_int_eq(d.verdict == VERDICT_allowed,
		    d.nearest == REJECTION_none && d.grant != NULL);
		ck_assert_int_eq(d.missing != MISSING_none, d.nearest == REJECTION_capability);
		if (d.closest != NULL && d.nearest != REJECTION_delegation) {
			for (i = 0; i < w.n; i++)
				if (w.present[i] && &w.g[i] != d.closest)
					grant_set_remove(w.set, &w.g[i]);
			again = authority_decide(w.set, &w.ctx, &r, w.now_ms);
			/* Whose parents are gone now is unverified where it did not come to
			 * that before. */
			if (again.nearest != REJECTION_delegation) {
				ck_assert_ptr_eq(again.closest, d.closest);
				ck_assert_int_eq(again.nearest, d.nearest);
				ck_assert_int_eq(again.missing, d.missing);
			}
			named++;
		}
		world_end(&w);
	}
	ck_assert_uint_ge(named, n / 20);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority_properties");
	TCase *t = tcase_create("properties");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 600);
	tcase_add_test(t, decisions_are_those_of_the_model);
	tcase_add_test(t, what_is_allowed_is_covered_by_one_capability_alone);
	tcase_add_test(t, a_capability_split_over_two_grants_gives_nothing_new);
	tcase_add_test(t, a_child_never_allows_what_its_parent_does_not);
	tcase_add_test(t, revoking_the_root_stops_every_descendant_at_any_depth);
	tcase_add_test(t, one_grant_more_takes_nothing_away);
	tcase_add_test(t, time_only_takes_away);
	tcase_add_test(t, a_ceiling_allows_nothing_and_has_no_words_of_its_own);
	tcase_add_test(t, a_denial_says_what_its_closest_grant_says);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
