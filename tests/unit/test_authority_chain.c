/*
 * Grants that come from grants (TU-46), and revocation in both modes (D-7).
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/authority_fixture.h"

static const char *act_write[] = { "write" }, *act_all[] = { "*" };
static const char *act_both[] = { "read", "write" };
static const char *seg_docs2[] = { "docs2" }, *seg_docs_b[] = { "docs", "b" };
static const char *for_work[] = { "work" }, *for_both[] = { "work", "play" };

#define CAP(path, below, actions)                                                              \
	{                                                                                      \
		"workspace", NULL, PATH(path), below, ACTIONS(actions)                         \
	}
#define ROOT_CAP(below, actions)                                                               \
	{                                                                                      \
		"workspace", NULL, { NULL, 0 }, below, ACTIONS(actions)                        \
	}

/* ---- at issue -------------------------------------------------------------------------- */

/* The one that hands on: everything below docs, for work, from 100 to 9000. */
#define PARENT(...)                                                                            \
	GRANT(.id = "root", .issuer = "service:root", .subject = "human:h",                    \
	    .issued_at_ms = 50, .not_before_ms = 100, .expires_at_ms = 9000,                   \
	    .purposes = for_both, .npurposes = 2, .delegation_depth = 2, __VA_ARGS__)

static const struct capability wide_path = ROOT_CAP(true, act_read);
static const struct capability wide_action = CAP(seg_docs, true, act_both);
static const struct capability wide_star = CAP(seg_docs, true, act_all);
static const struct capability sibling = CAP(seg_docs2, true, act_read);
static const struct capability exact_a = CAP(seg_docs_a, false, act_read);
static const struct capability below_a = CAP(seg_docs_a, true, act_read);
static const struct capability owned_by_o = { "workspace", "human:o", PATH(seg_docs), true,
	ACTIONS(act_read) };
static const struct capability elsewhere = { "mail", NULL, PATH(seg_docs), true,
	ACTIONS(act_read) };
static const struct capability a_and_write[] = { CAP(seg_docs_a, true, act_read),
	CAP(seg_docs_b, true, act_write) };
static const struct capability assembled[] = { CAP(seg_docs_a, true, act_both) };

static const struct {
	struct grant parent, child;
	enum derivation want;
	enum chain_fault at_use; /* if it were in the set all the same */
	const char *reason;
} derivations[] = {
#define OK    DERIVATION_ok
#define WIDER DERIVATION_capability_not_within_parent
	{ PARENT(), GRANT(), OK, CHAIN_ok, "the same" },
	{ PARENT(), GRANT(.capabilities = &exact_a), OK, CHAIN_ok, "narrower" },
	{ PARENT(), GRANT(.capabilities = &below_a), OK, CHAIN_ok, "a subtree" },
	{ PARENT(), GRANT(.capabilities = &owned_by_o), OK, CHAIN_ok, "one owner of all" },
	{ PARENT(), GRANT(.delegation_depth = 1), OK, CHAIN_ok, "one link less" },
	{ PARENT(), GRANT(.bounded = true, .max_uses = 3), OK, CHAIN_ok, "bounded" },
	{ PARENT(.purposes = NULL, .npurposes = 0), GRANT(), OK, CHAIN_ok, "any purpose" },
	{ PARENT(.capabilities = &wide_star), GRANT(.capabilities = &wide_star), OK, CHAIN_ok,
	    "a star from a star" },
	{ PARENT(.capabilities = &wide_star), GRANT(), OK, CHAIN_ok, "an action of a star" },
	{ PARENT(), GRANT(.ncapabilities = 0), DERIVATION_empty_capabilities, CHAIN_ok,
	    "nothing" },
	{ PARENT(), GRANT(.id = "root"), DERIVATION_id_collides_with_parent, CHAIN_ok,
	    "its parent's id" },
	{ PARENT(.delegation_depth = 0), GRANT(), DERIVATION_parent_not_delegable,
	    CHAIN_delegation_not_permitted, "not to be handed on" },
	{ PARENT(), GRANT(.delegation_depth = 2), DERIVATION_depth_exhausted,
	    CHAIN_delegation_depth_exceeded, "as deep as its parent" },
	{ PARENT(), GRANT(.delegation_depth = 9), DERIVATION_depth_exhausted,
	    CHAIN_delegation_depth_exceeded, "deeper" },
	{ PARENT(), GRANT(.capabilities = &wide_path), WIDER, CHAIN_capability_widened,
	    "above" },
	{ PARENT(), GRANT(.capabilities = &sibling), WIDER, CHAIN_capability_widened,
	    "a sibling of the same prefix" },
	{ PARENT(), GRANT(.capabilities = &wide_action), WIDER, CHAIN_capability_widened,
	    "one action more" },
	{ PARENT(), GRANT(.capabilities = &wide_star), WIDER, CHAIN_capability_widened,
	    "a star" },
	{ PARENT(), GRANT(.capabilities = &elsewhere), WIDER, CHAIN_capability_widened,
	    "another resource namespace" },
	{ PARENT(.capabilities = &exact_a), GRANT(.capabilities = &below_a), WIDER,
	    CHAIN_capability_widened, "a subtree of one exact path" },
	{ PARENT(.capabilities = &owned_by_o), GRANT(), WIDER, CHAIN_capability_widened,
	    "any owner of one" },
	{ PARENT(.capabilities = a_and_write, .ncapabilities = 2),
	    GRANT(.capabilities = assembled), WIDER, CHAIN_capability_widened,
	    "put together from two" },
	{ PARENT(), GRANT(.capabilities = a_and_write, .ncapabilities = 2), WIDER,
	    CHAIN_capability_widened, "one within and one not" },
	{ PARENT(.purposes = for_work, .npurposes = 1),
	    GRANT(.purposes = for_both, .npurposes = 2), DERIVATION_purpose_not_within_parent,
	    CHAIN_constraints_widened, "one purpose more" },
	{ PARENT(), GRANT(.expires_at_ms = 9001), DERIVATION_window_not_within_parent,
	    CHAIN_constraints_widened, "longer" },
	{ PARENT(), GRANT(.not_before_ms = 99), DERIVATION_window_not_within_parent,
	    CHAIN_constraints_widened, "sooner" },
	{ PARENT(.issued_at_ms = 501), GRANT(), DERIVATION_issued_before_parent,
	    CHAIN_constraints_widened, "issued before it" },
	{ PARENT(.bounded = true, .max_uses = 5), GRANT(),
	    DERIVATION_bounded_parent_not_delegable, CHAIN_bounded_parent_not_delegable,
	    "bounded parents are not handed on" },
};

START_TEST(what_is_derived_is_never_wider) /* TU-46 */
{
	struct grant child = derivations[_i].child, before = child;
	const struct grant *parent = &derivations[_i].parent;
	enum derivation got = grant_derive(parent, &child);
	const char *field;

	ck_assert_msg(got == derivations[_i].want, "%s: %s", derivations[_i].reason,
	    derivation_name(got));
	if (got != DERIVATION_ok) {
		ck_assert_mem_eq(&child, &before, sizeof(child));
		return;
	}
	ck_assert_str_eq(grant_fault(&child, &field), "");
	ck_assert_int_eq(grant_link_fault(&child, parent), CHAIN_ok);
}
END_TEST

START_TEST(what_is_left_out_is_inherited_and_written_down) /* TU-46 */
{
	const struct grant parent = PARENT();
	struct grant child = GRANT(.issuer = "human:forged", .namespace = "forged");

	ck_assert_int_eq(grant_derive(&parent, &child), DERIVATION_ok);
	ck_assert_str_eq(child.parent, "root");
	ck_assert_str_eq(child.issuer, "human:h");
	ck_assert_str_eq(child.namespace, "default");
	ck_assert_uint_eq(child.not_before_ms, 100);
	ck_assert_uint_eq(child.expires_at_ms, 9000);
	ck_assert_uint_eq(child.npurposes, 2);
	ck_assert_uint_eq(child.delegation_depth, 0);
}
END_TEST

/* ---- at use ---------------------------------------------------------------------------- */

/* The same grants, forged past the issue: they are in the set and allow nothing. */
START_TEST(a_forged_chain_is_seen_when_it_is_used) /* TU-46 */
{
	struct grant parent = derivations[_i].parent, child = derivations[_i].child, good;
	/* What its first capability says, word for word. */
	const struct requirement req = { child.capabilities[0].namespace, NULL,
		child.capabilities[0].path, child.capabilities[0].actions[0], NO_CALL };
	enum chain_fault want = derivations[_i].at_use;
	struct grant_set *set;
	struct context ctx;
	struct decision d;

	if (strcmp(child.id, "root") == 0 || child.ncapabilities == 0)
		return; /* no set takes such a one */
	set = grant_set_create(REVOCATION_immediate);
	child.parent = "root";
	if (derivations[_i].want == DERIVATION_ok) {
		good = child;
		ck_assert_int_eq(grant_derive(&parent, &good), DERIVATION_ok);
		child = good;
	} else {
		/* All that is not the point of the row is inherited. */
		if (child.purposes == NULL) {
			child.purposes = parent.purposes;
			child.npurposes = parent.npurposes;
		}
		if (child.not_before_ms == 0)
			child.not_before_ms = parent.not_before_ms;
		if (child.expires_at_ms == 0)
			child.expires_at_ms = parent.expires_at_ms;
	}
	ck_assert_int_eq(grant_set_add(set, &child), 0); /* before its parent, too */
	ck_assert_int_eq(grant_set_add(set, &parent), 0);
	ctx = admitted(set);
	d = authority_decide(set, &ctx, &req, NOW);
	ck_assert_int_eq(grant_link_fault(&child, &parent), want);
	ck_assert_msg(d.chain == want &&
			  d.verdict == (want == CHAIN_ok ? VERDICT_allowed
							 : VERDICT_delegation_chain_invalid),
	    "%s: %s, %s", derivations[_i].reason, verdict_name(d.verdict), decision_cause(&d));
	ck_assert_ptr_eq(d.grant, &child);
	ck_assert_ptr_eq(d.link, want == CHAIN_ok ? NULL : &child);
	grant_set_destroy(set);
}
END_TEST

/* root -> middle -> leaf, each of which may be changed. */
struct line {
	struct grant root, middle, leaf;
	struct grant_set *set;
	struct context ctx;
};

static void
line_make(struct line *l, enum revocation mode)
{
	l->root = GRANT(.id = "root", .issuer = "service:s", .subject = "human:k",
	    .delegation_depth = 2);
	l->middle = GRANT(.id = "middle", .subject = "human:h", .delegation_depth = 1);
	l->leaf = GRANT(.id = "leaf");
	ck_assert_int_eq(grant_derive(&l->root, &l->middle), DERIVATION_ok);
	ck_assert_int_eq(grant_derive(&l->middle, &l->leaf), DERIVATION_ok);
	l->set = grant_set_create(mode);
}

static struct decision
line_decide(struct line *l)
{
	ck_assert_int_eq(grant_set_add(l->set, &l->root), 0);
	ck_assert_int_eq(grant_set_add(l->set, &l->middle), 0);
	ck_assert_int_eq(grant_set_add(l->set, &l->leaf), 0);
	l->ctx = admitted(l->set);
	return authority_decide(l->set, &l->ctx, &read_docs_a, NOW);
}

START_TEST(a_whole_chain_allows) /* TU-46 */
{
	struct line l;
	struct decision d;

	line_make(&l, REVOCATION_immediate);
	d = line_decide(&l);
	ck_assert_int_eq(d.verdict, VERDICT_allowed);
	ck_assert_ptr_eq(d.grant, &l.leaf);
	ck_assert_int_eq(
	    authority_discover(l.set, &l.ctx, NULL, "workspace", "read", NOW), VERDICT_allowed);
	grant_set_destroy(l.set);
}
END_TEST

static void
expired(struct line *l)
{
	l->root.expires_at_ms = NOW;
}
static void
not_yet(struct line *l)
{
	l->root.not_before_ms = ADMITTED + 1;
}
static void
revoked(struct line *l)
{
	l->root.revoked_at_ms = 1;
}
static void
other_subject(struct line *l)
{
	l->root.subject = "human:x";
}
static void
other_space(struct line *l)
{
	l->root.namespace = "other";
}
static void
no_root(struct line *l)
{
	l->middle.parent = "gone";
}
static void
in_a_circle(struct line *l)
{
	l->root.parent = "middle";
	l->root.issuer = "human:h";
}

static const struct {
	void (*change)(struct line *l);
	enum verdict want;
	const char *cause, *link;
} breaks[] = {
	{ expired, VERDICT_delegation_chain_invalid, "parent_inactive", "middle" },
	{ not_yet, VERDICT_delegation_chain_invalid, "parent_inactive", "middle" },
	{ revoked, VERDICT_delegation_chain_invalid, "parent_inactive", "middle" },
	{ other_subject, VERDICT_delegation_chain_invalid, "issuer_not_parent_subject",
	    "middle" },
	{ other_space, VERDICT_delegation_chain_invalid, "namespace_mismatch", "middle" },
	{ in_a_circle, VERDICT_delegation_chain_invalid, "chain_cycle", "root" },
	{ no_root, VERDICT_delegation_chain_unverified, "parent_not_found", "middle" },
};

START_TEST(a_break_anywhere_breaks_the_chain) /* TU-46, in both families */
{
	struct decision d;
	struct line l;

	line_make(&l, REVOCATION_immediate);
	breaks[_i].change(&l);
	d = line_decide(&l);
	ck_assert_str_eq(decision_cause(&d), breaks[_i].cause);
	ck_assert_int_eq(d.verdict, breaks[_i].want);
	ck_assert_ptr_eq(d.grant, &l.leaf);
	ck_assert_str_eq(d.link->id, breaks[_i].link);
	ck_assert_int_eq(
	    authority_discover(l.set, &l.ctx, NULL, "workspace", "read", NOW), d.verdict);
	ck_assert_int_eq(
	    authority_recheck(l.set, &l.leaf, &l.ctx, NOW).verdict, breaks[_i].want);
	grant_set_destroy(l.set);
}
END_TEST

START_TEST(an_ancestor_that_ended_is_told_before_what_was_wider) /* TU-41, TU-46 */
{
	struct decision d;
	struct line l;

	line_make(&l, REVOCATION_immediate);
	l.root.expires_at_ms = NOW + 5; /* its child, written down before, has no end */
	d = line_decide(&l);
	ck_assert_str_eq(decision_cause(&d), "constraints_widened");
	d = authority_decide(l.set, &l.ctx, &read_docs_a, NOW + 5);
	ck_assert_str_eq(decision_cause(&d), "parent_inactive");
	grant_set_destroy(l.set);
}
END_TEST

/* A chain of `n` grants; the last one is for agent:a. */
static void
long_chain(struct grant *g, size_t n, char (*id)[24], struct grant_set *set)
{
	size_t i;

	for (i = 0; i < n; i++) {
		snprintf(id[i], sizeof(id[i]), "c%zu", i);
		g[i] = GRANT(.id = id[i], .issuer = "human:h",
		    .subject = i + 1 == n ? "agent:a" : "human:h",
		    .parent = i > 0 ? id[i - 1] : NULL,
		    .delegation_depth = i < 15 ? (uint32_t)(15 - i) : 0);
		ck_assert_int_eq(grant_set_add(set, &g[i]), 0);
	}
}

START_TEST(sixteen_grants_are_a_chain_and_seventeen_are_not) /* TU-46 */
{
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	struct grant g[17];
	struct context ctx;
	struct decision d;
	char id[17][24];

	long_chain(g, 16, id, set);
	ctx = admitted(set);
	ck_assert_int_eq(
	    authority_decide(set, &ctx, &read_docs_a, NOW).verdict, VERDICT_allowed);
	ck_assert_int_eq(authority_parent_fault(set, &g[14], NOW), CHAIN_ok);
	ck_assert_int_eq(authority_parent_fault(set, &g[15], NOW), CHAIN_too_long);
	ck_assert_int_eq(authority_chain_fault(set, &g[15], NOW), CHAIN_ok);
	grant_set_revoke(set, &g[0], 1500); /* the root ends all, at any depth */
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_delegation_chain_invalid);
	ck_assert_str_eq(decision_cause(&d), "parent_inactive");
	ck_assert_ptr_eq(d.link, &g[1]);
	ck_assert_int_eq(authority_parent_fault(set, &g[0], NOW), CHAIN_parent_inactive);
	ck_assert_int_eq(authority_parent_fault(set, &g[3], NOW), CHAIN_parent_inactive);
	ck_assert_int_eq(authority_chain_fault(set, &g[15], NOW), CHAIN_parent_inactive);
	ck_assert_int_eq(authority_chain_fault(set, &g[0], NOW), CHAIN_ok); /* it has none */
	grant_set_destroy(set);
	set = grant_set_create(REVOCATION_immediate);
	long_chain(g, 17, id, set);
	ctx = admitted(set);
	d = authority_decide(set, &ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_delegation_chain_invalid);
	ck_assert_str_eq(decision_cause(&d), "chain_too_long");
	grant_set_destroy(set);
}
END_TEST

/* ---- revocation ------------------------------------------------------------------------ */

START_TEST(revocation_counts_at_once_or_for_the_next_turn) /* D-7, TU-41, TU-42 */
{
	enum revocation mode = _i % 2 == 0 ? REVOCATION_immediate : REVOCATION_next_turn;
	bool ancestor = _i >= 2;
	struct decision d;
	struct context next;
	struct line l;

	line_make(&l, mode);
	ck_assert_int_eq(line_decide(&l).verdict, VERDICT_allowed);
	/* An instant before the admission: clocks may be set back, facts not. */
	grant_set_revoke(l.set, ancestor ? &l.root : &l.leaf, 1);
	next = admitted(l.set);
	d = authority_decide(l.set, &l.ctx, &read_docs_a, NOW);
	ck_assert_int_eq(d.verdict, mode == REVOCATION_next_turn ? VERDICT_allowed
				    : ancestor ? VERDICT_delegation_chain_invalid
					       : VERDICT_no_matching_grant);
	ck_assert_int_eq(authority_recheck(l.set, &l.leaf, &l.ctx, NOW).verdict, d.verdict);
	d = authority_decide(l.set, &next, &read_docs_a, NOW);
	ck_assert_int_eq(
	    d.verdict, ancestor ? VERDICT_delegation_chain_invalid : VERDICT_no_matching_grant);
	ck_assert_str_eq(decision_cause(&d), ancestor ? "parent_inactive" : "revoked");
	ck_assert_ptr_eq(d.closest, &l.leaf);
	grant_set_destroy(l.set);
}
END_TEST

START_TEST(a_revoked_grant_is_skipped_and_another_may_match) /* TU-42 */
{
	struct grant g[] = { GRANT(), GRANT() };
	struct grant_set *set = set_of(g, 2, false);
	const struct context ctx = admitted(set);

	ck_assert_ptr_eq(authority_decide(set, &ctx, &read_docs_a, NOW).grant, &g[0]);
	grant_set_revoke(set, &g[0], 1500);
	ck_assert_uint_eq(g[0].revoked_at_ms, 1500);
	grant_set_revoke(set, &g[0], 1600); /* the first time counts */
	ck_assert_uint_eq(g[0].revoked_at_ms, 1500);
	ck_assert_ptr_eq(authority_decide(set, &ctx, &read_docs_a, NOW).grant, &g[1]);
	ck_assert_int_eq(
	    authority_recheck(set, &g[0], &ctx, NOW).verdict, VERDICT_no_matching_grant);
	grant_set_destroy(set);
}
END_TEST

START_TEST(a_grant_that_comes_in_mid_turn_is_for_the_next) /* TU-40 */
{
	struct grant late = GRANT(.issued_at_ms = 1); /* however old it says it is */
	struct grant_set *set = set_of(NULL, 0, true);
	struct context ctx = admitted(set);

	ck_assert_int_eq(grant_set_add(set, &late), 0);
	ck_assert_int_eq(
	    authority_decide(set, &ctx, &read_docs_a, NOW).verdict, VERDICT_no_matching_grant);
	ctx = admitted(set);
	ck_assert_int_eq(
	    authority_decide(set, &ctx, &read_docs_a, NOW).verdict, VERDICT_allowed);
	grant_set_destroy(set);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority_chain");
	TCase *issue = tcase_create("issue"), *use = tcase_create("use");
	SRunner *r;
	int failed;

	tcase_add_loop_test(issue, what_is_derived_is_never_wider, 0, countof(derivations));
	tcase_add_test(issue, what_is_left_out_is_inherited_and_written_down);
	suite_add_tcase(s, issue);
	tcase_add_loop_test(
	    use, a_forged_chain_is_seen_when_it_is_used, 0, countof(derivations));
	tcase_add_test(use, a_whole_chain_allows);
	tcase_add_loop_test(use, a_break_anywhere_breaks_the_chain, 0, countof(breaks));
	tcase_add_test(use, an_ancestor_that_ended_is_told_before_what_was_wider);
	tcase_add_test(use, sixteen_grants_are_a_chain_and_seventeen_are_not);
	tcase_add_loop_test(use, revocation_counts_at_once_or_for_the_next_turn, 0, 4);
	tcase_add_test(use, a_revoked_grant_is_skipped_and_another_may_match);
	tcase_add_test(use, a_grant_that_comes_in_mid_turn_is_for_the_next);
	suite_add_tcase(s, use);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
