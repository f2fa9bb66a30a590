/*
 * Decisions: the rows of the authority model, and properties over random grants against a
 * model that was written from the contract, not from the code.
 */
#include "broker/authority/authority.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* GRANT() below overrides members of a good grant, on purpose. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define ADMITTED 1000
#define NOW	 2000

static const char *act_read[] = { "read" }, *act_write[] = { "write" }, *act_all[] = { "*" };
static const char *act_rw[] = { "read", "list" }, *act_prefix[] = { "re*", "read.*" };
static const char *seg_docs[] = { "docs" }, *seg_docs2[] = { "docs2" };
static const char *seg_docs_a[] = { "docs", "a" }, *seg_star[] = { "*" };
static const char *seg_up[] = { "docs", "..", "secret" }, *seg_empty[] = { "" };
static const char *for_work[] = { "play", "work" }, *for_play[] = { "play" };

#define PATH(a)                                                                                \
	{                                                                                      \
		a, countof(a)                                                                  \
	}
#define ACTIONS(a) a, countof(a)

static const struct capability docs_below = { "workspace", NULL, PATH(seg_docs), true,
	ACTIONS(act_read) };

/* A grant that covers reading below docs, with one member changed. */
#define GRANT(...)                                                                             \
	(struct grant)                                                                         \
	{                                                                                      \
		.id = "g", .subject = "agent:a", .issuer = "human:h", .namespace = "default",  \
		.capabilities = &docs_below, .ncapabilities = 1, .issued_at_ms = 500,          \
		__VA_ARGS__                                                                    \
	}

static const struct context ctx = { "agent:a", "human:h", "human:o", "default", "work",
	ADMITTED };
static const struct requirement read_docs_a = { "workspace", NULL, PATH(seg_docs_a), "read" };

static struct decision
decide_one(const struct grant *g, const struct requirement *r)
{
	return authority_decide(g, 1, &ctx, r, NOW);
}

START_TEST(no_grant_denies_everything) /* TU-33 */
{
	struct decision d = authority_decide(NULL, 0, &ctx, &read_docs_a, NOW);

	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	ck_assert_ptr_null(d.grant);
	ck_assert_int_eq(d.nearest, REJECTION_none);
}
END_TEST

START_TEST(a_grant_that_covers_it_allows) /* TU-34 */
{
	struct grant g = GRANT();
	struct decision d = authority_decide(&g, 1, &ctx, &read_docs_a, NOW);

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
		"workspace", NULL, PATH(path), action                                          \
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
	{ ROOT(false, act_read), { "workspace", NULL, { NULL, 0 }, "read" }, YES, "the root" },
	{ CAP(seg_docs, true, act_read), { "workspace", NULL, { NULL, 0 }, "read" }, NO,
	    "the root from below" },
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
	{ CAP(seg_docs, true, act_read), { "other", NULL, PATH(seg_docs), "read" }, NO,
	    "other resource namespace" },
	{ { "workspace", "human:o", PATH(seg_docs), true, ACTIONS(act_read) },
	    REQ(seg_docs, "read"), YES, "names the context's owner" },
	{ { "workspace", "human:x", PATH(seg_docs), true, ACTIONS(act_read) },
	    REQ(seg_docs, "read"), NO, "names another owner" },
	{ CAP(seg_docs, true, act_read), { "workspace", "human:o", PATH(seg_docs), "read" },
	    YES, "requirement names the context's owner" },
	{ CAP(seg_docs, true, act_read), { "workspace", "human:x", PATH(seg_docs), "read" },
	    VERDICT_invalid_request, "requirement names another owner" },
	{ { "workspace", "human:x", PATH(seg_docs), true, ACTIONS(act_read) },
	    { "workspace", "human:x", PATH(seg_docs), "read" }, VERDICT_invalid_request,
	    "both name another owner" },
	{ ROOT(true, act_all), REQ(seg_up, "read"), VERDICT_invalid_request, "dot-dot" },
	{ ROOT(true, act_all), REQ(seg_empty, "read"), VERDICT_invalid_request,
	    "empty segment" },
	{ ROOT(true, act_all), REQ(seg_docs, ""), VERDICT_invalid_request, "empty action" },
	{ ROOT(true, act_all), REQ(seg_docs, NULL), VERDICT_invalid_request, "no action" },
	{ ROOT(true, act_all), { "", NULL, PATH(seg_docs), "read" }, VERDICT_invalid_request,
	    "no resource namespace" },
};

START_TEST(one_capability_covers_or_does_not)
{
	struct grant g = GRANT(.capabilities = &covers[_i].cap);
	struct decision d = decide_one(&g, &covers[_i].req);

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

	ck_assert_int_eq(
	    authority_decide(g, 2, &ctx, &read_docs_a, NOW).verdict, VERDICT_no_matching_grant);
	g[0].ncapabilities = 1;
	ck_assert_int_eq(
	    authority_decide(g, 2, &ctx, &read_docs_a, NOW).verdict, VERDICT_no_matching_grant);
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
	{ GRANT(.capabilities = NULL, .ncapabilities = 0), REJECTION_capability,
	    "nothing in it" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 1), REJECTION_none, "a use left" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 2), REJECTION_exhausted, "none left" },
	{ GRANT(.bounded = true, .max_uses = 2, .spent = 3), REJECTION_exhausted, "overspent" },
	{ GRANT(.bounded = false, .max_uses = 0, .spent = 9), REJECTION_none, "not bounded" },
};

START_TEST(a_grant_is_eligible_or_says_why_not)
{
	struct decision d = decide_one(&eligibility[_i].g, &read_docs_a);
	enum rejection want = eligibility[_i].want;

	ck_assert_msg(
	    d.nearest == want, "%s: %s", eligibility[_i].reason, rejection_name(d.nearest));
	ck_assert_int_eq(d.verdict, want == REJECTION_none	  ? VERDICT_allowed
				    : want == REJECTION_exhausted ? VERDICT_grant_exhausted
								  : VERDICT_no_matching_grant);
	ck_assert_int_eq(d.grant != NULL,
	    d.verdict == VERDICT_allowed || d.verdict == VERDICT_grant_exhausted);
	/* Discovery sees what execution would accept, and consumes nothing (TU-43). */
	ck_assert_int_eq(
	    authority_discoverable(&eligibility[_i].g, 1, &ctx, "workspace", "read", NOW),
	    want == REJECTION_none);
}
END_TEST

START_TEST(a_clock_set_back_revives_nothing) /* TU-41 */
{
	struct grant g = GRANT(.expires_at_ms = ADMITTED);

	ck_assert_int_eq(
	    authority_decide(&g, 1, &ctx, &read_docs_a, 1).verdict, VERDICT_no_matching_grant);
	g.expires_at_ms = ADMITTED + 1;
	ck_assert_int_eq(
	    authority_decide(&g, 1, &ctx, &read_docs_a, 1).verdict, VERDICT_allowed);
}
END_TEST

static const struct {
	struct context c;
	const char *reason;
} contexts[] = {
	{ { NULL, "human:h", "human:o", "default", "work", ADMITTED }, "no actor" },
	{ { "agent:a", NULL, "human:o", "default", "work", ADMITTED }, "no authority" },
	{ { "agent:a", "human:h", NULL, "default", "work", ADMITTED }, "no owner" },
	{ { "agent:a", "human:h", "human:o", NULL, "work", ADMITTED }, "no namespace" },
	{ { "agent:a", "human:h", "human:o", "default", "", ADMITTED }, "no purpose" },
	{ { "a", "human:h", "human:o", "default", "work", ADMITTED }, "actor without a kind" },
	{ { "agent:", "human:h", "human:o", "default", "work", ADMITTED },
	    "actor without an id" },
	{ { "robot:a", "human:h", "human:o", "default", "work", ADMITTED }, "unknown kind" },
};

START_TEST(a_context_that_is_none_decides_nothing)
{
	struct grant g = GRANT();

	ck_assert_int_eq(authority_decide(&g, 1, &contexts[_i].c, &read_docs_a, NOW).verdict,
	    VERDICT_invalid_context);
	ck_assert(!authority_discoverable(&g, 1, &contexts[_i].c, "workspace", "read", NOW));
}
END_TEST

START_TEST(grants_that_are_missing_fail_closed) /* TU-40 */
{
	ck_assert_int_eq(authority_decide(NULL, 3, &ctx, &read_docs_a, NOW).verdict,
	    VERDICT_authority_unavailable);
	ck_assert(!authority_discoverable(NULL, 3, &ctx, "workspace", "read", NOW));
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

	ck_assert_ptr_eq(authority_decide(g, 6, &ctx, &read_docs_a, NOW).grant, &g[4]);
	ck_assert_ptr_eq(authority_decide(g, 4, &ctx, &read_docs_a, NOW).grant, &g[2]);
	g[2].spent = 1;
	ck_assert_ptr_eq(authority_decide(g, 4, &ctx, &read_docs_a, NOW).grant, &g[3]);
	g[3].spent = 1;
	ck_assert_int_eq(
	    authority_decide(g, 4, &ctx, &read_docs_a, NOW).verdict, VERDICT_grant_exhausted);
	ck_assert_ptr_eq(authority_decide(g, 4, &ctx, &read_docs_a, NOW).grant, &g[1]);
}
END_TEST

START_TEST(exhausted_is_said_before_no_match) /* TU-45 */
{
	struct grant g[] = {
		GRANT(.bounded = true, .max_uses = 1, .spent = 1),
		GRANT(.purposes = for_play, .npurposes = 1),
	};
	struct decision d = authority_decide(g, 2, &ctx, &read_docs_a, NOW);
	const struct requirement other = { "workspace", NULL, PATH(seg_docs2), "read" };

	ck_assert_int_eq(d.verdict, VERDICT_grant_exhausted);
	ck_assert_int_eq(d.nearest, REJECTION_exhausted);
	/* A spent grant that would not cover it says nothing of its being spent. */
	d = authority_decide(g, 2, &ctx, &other, NOW);
	ck_assert_int_eq(d.verdict, VERDICT_no_matching_grant);
	ck_assert_int_eq(d.nearest, REJECTION_capability);
}
END_TEST

START_TEST(a_narrow_grant_discovers_a_broad_tool) /* TU-13 */
{
	struct grant g = GRANT();

	ck_assert(authority_discoverable(&g, 1, &ctx, "workspace", "read", NOW));
	ck_assert(!authority_discoverable(&g, 1, &ctx, "workspace", "write", NOW));
	ck_assert(!authority_discoverable(&g, 1, &ctx, "workspace", "*", NOW));
	ck_assert(!authority_discoverable(&g, 1, &ctx, "workspace2", "read", NOW));
	ck_assert(!authority_discoverable(&g, 1, &ctx, "", "read", NOW));
	ck_assert(!authority_discoverable(&g, 1, &ctx, "workspace", NULL, NOW));
}
END_TEST

START_TEST(every_name_is_the_contracts)
{
	ck_assert_str_eq(verdict_name(VERDICT_grant_exhausted), "grant_exhausted");
	ck_assert_str_eq(verdict_name(VERDICT_authority_unavailable), "authority_unavailable");
	ck_assert_str_eq(verdict_name((enum verdict)99), "unknown");
	ck_assert_str_eq(rejection_name(REJECTION_window), "window");
	ck_assert_str_eq(rejection_name(REJECTION_exhausted), "exhausted");
	ck_assert_str_eq(rejection_name((enum rejection)99), "unknown");
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
	g = GRANT(.subject = "group:g", .issuer = "service:s");
	ck_assert_str_eq(grant_fault(&g, &field), "");
}
END_TEST

/* ---- properties ----------------------------------------------------------------------- */

#define ROUNDS	    40000
#define WORLD_MAX   6 /* grants */
#define MEMBERS_MAX 3 /* capabilities, actions, segments, purposes */

static uint64_t seed;

static unsigned
pick(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

static const char *words[] = { "a", "ab", "b", "*" };
static const char *actions[] = { "read", "write", "*", "rea" };
static const char *people[] = { "human:h", "agent:a", "human:o" };
static const char *spaces[] = { "default", "other" };

/* Everything lies in one block: grants can be copied about and cut to pieces. */
struct world {
	struct grant g[WORLD_MAX];
	struct capability c[WORLD_MAX][MEMBERS_MAX];
	const char *seg[WORLD_MAX][MEMBERS_MAX][MEMBERS_MAX];
	const char *act[WORLD_MAX][MEMBERS_MAX][MEMBERS_MAX];
	const char *why[WORLD_MAX][MEMBERS_MAX];
	size_t n;
};

static void
random_capability(struct world *w, size_t i, size_t k)
{
	struct capability *c = &w->c[i][k];
	size_t j;

	for (j = 0; j < MEMBERS_MAX; j++) {
		w->seg[i][k][j] = words[pick(4)];
		w->act[i][k][j] = actions[pick(4)];
	}
	*c = (struct capability){ pick(5) == 0 ? "other" : "workspace",
		pick(4) != 0 ? NULL : people[pick(3)], { w->seg[i][k], pick(MEMBERS_MAX) },
		pick(2) == 0, w->act[i][k], 1 + pick(2) };
}

static void
random_world(struct world *w)
{
	size_t i, k;

	w->n = pick(WORLD_MAX + 1);
	for (i = 0; i < w->n; i++) {
		for (k = 0; k < MEMBERS_MAX; k++) {
			random_capability(w, i, k);
			w->why[i][k] = pick(2) == 0 ? "work" : "play";
		}
		w->g[i] = (struct grant){ .id = "g",
			.subject = pick(6) == 0 ? people[pick(3)] : "agent:a",
			.issuer = pick(6) == 0 ? people[pick(3)] : "human:h",
			.namespace = pick(8) == 0 ? spaces[pick(2)] : "default",
			.capabilities = w->c[i],
			.ncapabilities = 1 + pick(MEMBERS_MAX),
			.issued_at_ms = 998 + pick(4),
			.not_before_ms = pick(3) == 0 ? 998 + pick(4) : 0,
			.expires_at_ms = pick(3) == 0 ? 1998 + pick(5) : 0,
			.revoked_at_ms = pick(8) == 0 ? 1 + pick(3000) : 0,
			.purposes = pick(3) == 0 ? w->why[i] : NULL,
			.bounded = pick(3) == 0,
			.max_uses = 1 + pick(2),
			.spent = pick(3) };
		w->g[i].npurposes = w->g[i].purposes != NULL ? pick(3) : 0;
	}
}

static struct requirement
random_requirement(const char **segments)
{
	size_t j;

	for (j = 0; j < MEMBERS_MAX; j++)
		segments[j] = words[pick(4)];
	return (struct requirement){ pick(6) == 0 ? "other" : "workspace",
		pick(3) == 0 ? "human:o" : NULL, { segments, pick(MEMBERS_MAX + 1) },
		actions[pick(4)] };
}

/* The model: paths as text with a slash behind each segment, everything in one condition. */
static const char *
text_of(const struct path *p, char out[64])
{
	size_t i, n = 0;

	out[0] = '\0';
	for (i = 0; i < p->n; i++)
		n += (size_t)snprintf(out + n, 64 - n, "%s/", p->segment[i]);
	return out;
}

static bool
model_capability(const struct capability *c, const struct requirement *r)
{
	char have[64], want[64];
	bool action = false, place;
	size_t i;

	text_of(&c->path, have);
	text_of(&r->path, want);
	place = strcmp(have, want) == 0 ||
		(c->descendants && strncmp(have, want, strlen(have)) == 0);
	for (i = 0; i < c->nactions; i++)
		action |= c->actions[i][0] == '*' || strcmp(c->actions[i], r->action) == 0;
	return place && action && strcmp(c->namespace, r->namespace) == 0 &&
	       (c->owner == NULL || strcmp(c->owner, "human:o") == 0);
}

static bool
model_grant(const struct grant *g, const struct requirement *r, bool *ret_spent)
{
	bool covered = false, purpose = g->purposes == NULL;
	size_t i;

	for (i = 0; i < g->npurposes; i++)
		purpose |= strcmp(g->purposes[i], "work") == 0;
	for (i = 0; i < g->ncapabilities; i++)
		covered |= model_capability(&g->capabilities[i], r);
	*ret_spent = g->bounded && !(g->spent < g->max_uses);
	return covered && purpose && strcmp(g->subject, "agent:a") == 0 &&
	       strcmp(g->issuer, "human:h") == 0 && strcmp(g->namespace, "default") == 0 &&
	       !(g->issued_at_ms > ADMITTED) && !(g->not_before_ms > ADMITTED) &&
	       (g->expires_at_ms == 0 || g->expires_at_ms > NOW) && g->revoked_at_ms == 0;
}

/* What the contract says of the whole: TU-34, TU-45, and which grant it is. */
static enum verdict
model_decide(const struct world *w, const struct requirement *r, const struct grant **ret)
{
	const struct grant *bounded = NULL, *unbounded = NULL, *exhausted = NULL;
	bool spent;
	size_t i;

	for (i = w->n; i-- > 0;) {
		if (!model_grant(&w->g[i], r, &spent))
			continue;
		if (spent)
			exhausted = &w->g[i];
		else if (w->g[i].bounded)
			bounded = &w->g[i];
		else
			unbounded = &w->g[i];
	}
	*ret = unbounded != NULL ? unbounded : bounded != NULL ? bounded : exhausted;
	return unbounded != NULL || bounded != NULL ? VERDICT_allowed
	       : exhausted != NULL		    ? VERDICT_grant_exhausted
						    : VERDICT_no_matching_grant;
}

START_TEST(decisions_are_those_of_the_model)
{
	unsigned round, seen[3] = { 0 };
	const char *segments[MEMBERS_MAX];
	const struct grant *grant;
	struct requirement r;
	struct decision d;
	enum verdict want;
	struct world w;

	seed = 0x9e3779b97f4a7c15u;
	for (round = 0; round < ROUNDS; round++) {
		random_world(&w);
		r = random_requirement(segments);
		want = model_decide(&w, &r, &grant);
		d = authority_decide(w.g, w.n, &ctx, &r, NOW);
		ck_assert_msg(d.verdict == want && d.grant == grant, "round %u: %s, not %s",
		    round, verdict_name(d.verdict), verdict_name(want));
		seen[want]++;
		/* What can be executed can be discovered. */
		ck_assert(d.verdict != VERDICT_allowed ||
			  authority_discoverable(w.g, w.n, &ctx, r.namespace, r.action, NOW));
	}
	/* A generator that never allows would prove nothing. */
	ck_assert_uint_ge(seen[VERDICT_allowed], ROUNDS / 20);
	ck_assert_uint_ge(seen[VERDICT_no_matching_grant], ROUNDS / 20);
	ck_assert_uint_ge(seen[VERDICT_grant_exhausted], ROUNDS / 200);
}
END_TEST

START_TEST(what_is_allowed_is_covered_by_one_capability_alone) /* TU-34 */
{
	const char *segments[MEMBERS_MAX];
	unsigned round, found;
	struct requirement r;
	struct decision d;
	struct grant one;
	struct world w;
	size_t k;

	seed = 42;
	for (round = 0; round < ROUNDS; round++) {
		random_world(&w);
		r = random_requirement(segments);
		d = authority_decide(w.g, w.n, &ctx, &r, NOW);
		if (d.verdict != VERDICT_allowed)
			continue;
		for (k = 0, found = 0; k < d.grant->ncapabilities; k++) {
			one = *d.grant;
			one.capabilities = &d.grant->capabilities[k];
			one.ncapabilities = 1;
			found +=
			    authority_decide(&one, 1, &ctx, &r, NOW).verdict == VERDICT_allowed;
		}
		ck_assert_uint_ge(found, 1);
	}
}
END_TEST

START_TEST(a_capability_split_over_two_grants_gives_nothing_new) /* TU-34 */
{
	const char *segments[MEMBERS_MAX];
	struct capability half[2];
	struct grant split[2];
	struct requirement r;
	unsigned round, whole = 0;
	struct world w;

	seed = 7;
	for (round = 0; round < ROUNDS; round++) {
		do
			random_world(&w);
		while (w.n == 0);
		r = random_requirement(segments);
		w.g[0].ncapabilities = 1;
		if (authority_decide(w.g, 1, &ctx, &r, NOW).verdict != VERDICT_allowed)
			continue;
		whole++;
		/* Place in one grant, action in the other: neither has both. */
		half[0] = half[1] = w.c[0][0];
		half[0].actions = (const char *[]){ "nothing" };
		half[0].nactions = 1;
		half[1].namespace = "elsewhere";
		split[0] = split[1] = w.g[0];
		split[0].capabilities = &half[0];
		split[1].capabilities = &half[1];
		ck_assert_int_eq(authority_decide(split, 2, &ctx, &r, NOW).verdict,
		    VERDICT_no_matching_grant);
	}
	ck_assert_uint_ge(whole, ROUNDS / 100);
}
END_TEST

START_TEST(one_grant_more_takes_nothing_away)
{
	const char *segments[MEMBERS_MAX];
	struct requirement r;
	unsigned round;
	struct world w;
	size_t n;

	seed = 99;
	for (round = 0; round < ROUNDS; round++) {
		random_world(&w);
		r = random_requirement(segments);
		for (n = 0; n < w.n; n++)
			if (authority_decide(w.g, n, &ctx, &r, NOW).verdict == VERDICT_allowed)
				ck_assert_int_eq(
				    authority_decide(w.g, n + 1, &ctx, &r, NOW).verdict,
				    VERDICT_allowed);
	}
}
END_TEST

START_TEST(time_only_takes_away) /* TU-41 */
{
	const char *segments[MEMBERS_MAX];
	struct requirement r;
	unsigned round;
	struct world w;
	uint64_t t;

	seed = 1234567;
	for (round = 0; round < ROUNDS; round++) {
		random_world(&w);
		r = random_requirement(segments);
		for (t = NOW - 4; t < NOW + 4; t++)
			if (authority_decide(w.g, w.n, &ctx, &r, t).verdict != VERDICT_allowed)
				ck_assert_int_ne(
				    authority_decide(w.g, w.n, &ctx, &r, t + 1).verdict,
				    VERDICT_allowed);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority");
	TCase *rows = tcase_create("rows"), *grants = tcase_create("grants");
	TCase *properties = tcase_create("properties");
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
	tcase_add_test(rows, an_unbounded_grant_is_taken_before_a_bounded_one);
	tcase_add_test(rows, exhausted_is_said_before_no_match);
	tcase_add_test(rows, a_narrow_grant_discovers_a_broad_tool);
	tcase_add_test(rows, every_name_is_the_contracts);
	suite_add_tcase(s, rows);
	tcase_add_loop_test(grants, a_grant_that_is_none_names_its_member, 0, countof(faults));
	tcase_add_test(grants, a_good_grant_has_no_fault);
	suite_add_tcase(s, grants);
	tcase_set_timeout(properties, 120);
	tcase_add_test(properties, decisions_are_those_of_the_model);
	tcase_add_test(properties, what_is_allowed_is_covered_by_one_capability_alone);
	tcase_add_test(properties, a_capability_split_over_two_grants_gives_nothing_new);
	tcase_add_test(properties, one_grant_more_takes_nothing_away);
	tcase_add_test(properties, time_only_takes_away);
	suite_add_tcase(s, properties);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
