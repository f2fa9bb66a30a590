/*
 * Grants of the configuration across reloads: what stays, what goes, what is another one.
 */
#include "broker/standing.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define S(text) slice_of(text)
#define ISSUER	"human:operator"

static struct grant_set *set;
static struct standing *standing;

static void
setup(void)
{
	set = grant_set_create(REVOCATION_immediate);
	standing = standing_create(set);
	ck_assert_ptr_nonnull(standing);
}

static void
teardown(void)
{
	grant_set_destroy(set);
	standing_destroy(standing);
}

/* A grant of read on data/`path`. */
struct sample {
	const char *segment, *action;
	struct capability capability;
};

static struct grant
grant(const char *id, struct sample *s, const char *path)
{
	s->segment = path;
	s->action = "read";
	s->capability = (struct capability){ .namespace = "data",
		.path = { &s->segment, 1 },
		.actions = &s->action,
		.nactions = 1 };
	return (struct grant){ .id = id,
		.subject = "agent:a",
		.issuer = ISSUER,
		.namespace = "default",
		.capabilities = &s->capability,
		.ncapabilities = 1,
		.issued_at_ms = 1 };
}

static int
replace(struct grant *grants, size_t n, uint32_t generation)
{
	struct config c = { .grants = grants, .ngrants = n };
	const char *id = NULL;
	int r = standing_replace(standing, &c, generation, 50, &id);

	ck_assert((r == -EEXIST) == (id != NULL));
	return r;
}

static struct grant *
find(const char *id)
{
	return grant_set_find(set, id, strlen(id));
}

/* By a turn that is admitted now, or that was at `revision`. */
static enum verdict
decide_at(const char *path, uint64_t revision)
{
	struct context ctx = { "agent:a", ISSUER, ISSUER, "default", "run", 100, revision };
	struct requirement r = { "data", NULL, { &path, 1 }, "read", NULL,
		NULL };

	return authority_decide(set, &ctx, &r, 100).verdict;
}

static enum verdict
decide(const char *path)
{
	return decide_at(path, grant_set_revision(set));
}

START_TEST(what_is_said_again_is_the_same_grant)
{
	struct sample s[2];
	struct grant g[] = { grant("a", &s[0], "x"), grant("b", &s[1], "y") };
	uint64_t then;
	struct grant *a;

	g[0].bounded = true;
	g[0].max_uses = 3;
	ck_assert_int_eq(replace(g, 2, 1), 0);
	then = grant_set_revision(set);
	a = find("a");
	a->spent = 2;
	g[0].spent = 77; /* is no matter of a configuration's */
	ck_assert_int_eq(replace(g, 2, 2), 0);
	ck_assert_ptr_eq(find("a"), a);
	ck_assert_uint_eq(a->spent, 2);
	ck_assert_int_eq(decide_at("x", then), VERDICT_allowed);
	ck_assert_int_eq(decide_at("y", then), VERDICT_allowed);
}
END_TEST

START_TEST(a_copy_needs_nothing_of_its_configuration)
{
	struct sample s;
	char id[] = "a", path[] = "x";
	struct grant g = grant(id, &s, path);

	ck_assert_int_eq(replace(&g, 1, 1), 0);
	memset(id, 'z', 1);
	memset(path, 'z', 1);
	memset(&s, 0, sizeof(s));
	ck_assert_ptr_nonnull(find("a"));
	ck_assert_int_eq(decide("x"), VERDICT_allowed);
}
END_TEST

START_TEST(what_is_gone_is_revoked_at_once)
{
	struct sample s[2];
	struct grant g[] = { grant("a", &s[0], "x"), grant("b", &s[1], "y") };
	uint64_t then;

	ck_assert_int_eq(replace(g, 2, 1), 0);
	then = grant_set_revision(set);
	ck_assert_int_eq(replace(g + 1, 1, 2), 0);
	ck_assert_uint_eq(find("a")->revoked_at_ms, 50);
	ck_assert_int_eq(decide_at("x", then), VERDICT_no_matching_grant);
	ck_assert_int_eq(decide_at("y", then), VERDICT_allowed);
}
END_TEST

START_TEST(what_is_gone_is_kept_until_the_turns_that_knew_it_are)
{
	struct sample s;
	struct grant g = grant("a", &s, "x");

	ck_assert_int_eq(replace(&g, 1, 1), 0);
	ck_assert_int_eq(replace(NULL, 0, 2), 0);
	standing_forget(standing, 1);
	ck_assert_ptr_nonnull(find("a"));
	standing_forget(standing, 2);
	ck_assert_ptr_null(find("a"));
	ck_assert_uint_eq(grant_set_size(set), 0);
}
END_TEST

START_TEST(for_the_next_turn_running_ones_keep_what_is_gone)
{
	struct sample s;
	struct grant g = grant("a", &s, "x");
	uint64_t then;

	grant_set_destroy(set);
	standing_destroy(standing);
	set = grant_set_create(REVOCATION_next_turn);
	standing = standing_create(set);
	ck_assert_int_eq(replace(&g, 1, 1), 0);
	then = grant_set_revision(set);
	ck_assert_int_eq(replace(NULL, 0, 2), 0);
	ck_assert_int_eq(decide_at("x", then), VERDICT_allowed);
	ck_assert_int_eq(decide("x"), VERDICT_no_matching_grant);
}
END_TEST

START_TEST(what_is_new_is_seen_by_the_next_turn_only)
{
	struct sample s[2];
	struct grant g[] = { grant("a", &s[0], "x"), grant("b", &s[1], "y") };
	uint64_t then;

	ck_assert_int_eq(replace(g, 1, 1), 0);
	then = grant_set_revision(set);
	ck_assert_int_eq(replace(g, 2, 2), 0);
	ck_assert_int_eq(decide_at("y", then), VERDICT_no_matching_grant);
	ck_assert_int_eq(decide("y"), VERDICT_allowed);
}
END_TEST

/* Each thing that a file can say of a grant. */
START_TEST(what_is_said_otherwise_is_another_grant)
{
	static const char *const purposes[] = { "run" };
	struct sample s[2];
	struct grant other[14], g = grant("a", &s[0], "x");
	size_t i, n;
	uint64_t then;
	struct grant *a;

	for (i = 0; i < countof(other); i++)
		other[i] = g;
	n = 0;
	other[n++].subject = "agent:b";
	other[n++].issuer = "human:other";
	other[n++].namespace = "else";
	other[n++].parent = "p";
	other[n++].issued_at_ms = 2;
	other[n++].not_before_ms = 3;
	other[n++].expires_at_ms = 1000;
	other[n++].delegation_depth = 1;
	other[n].bounded = true;
	other[n++].max_uses = 9;
	other[n].bounded = true;
	other[n].max_uses = 1;
	other[n].tool = "t";
	other[n + 1] = other[n];
	other[n + 1].digest[31] = 1;
	n += 2;
	other[n].purposes = (const char **)(uintptr_t)purposes;
	other[n++].npurposes = 1;
	other[n++] = grant("a", &s[1], "z");
	s[1].capability.descendants = true;
	other[n].capabilities = &s[1].capability;
	n++;
	ck_assert_uint_eq(n, countof(other));
	for (i = 0; i < n; i++) {
		ck_assert_int_eq(replace(&g, 1, 2 * (uint32_t)i + 1), 0);
		then = grant_set_revision(set);
		a = find("a");
		a->users = 1; /* so that nothing else gets its memory */
		ck_assert_int_eq(replace(&other[i], 1, 2 * (uint32_t)i + 2), 0);
		ck_assert_ptr_ne(find("a"), a);
		ck_assert_int_eq(decide_at("x", then), VERDICT_no_matching_grant);
		a->users = 0;
	}
}
END_TEST

START_TEST(uses_go_by_the_id)
{
	struct sample s;
	struct grant g = grant("a", &s, "x");

	g.bounded = true;
	g.max_uses = 5;
	ck_assert_int_eq(standing_spent(standing, S("a"), 1), 0);
	ck_assert_int_eq(replace(&g, 1, 1), 0);
	ck_assert_uint_eq(find("a")->spent, 1);
	ck_assert_int_eq(standing_spent(standing, S("a"), 2), 0);
	g.max_uses = 4;
	ck_assert_int_eq(replace(&g, 1, 2), 0);
	ck_assert_uint_eq(find("a")->spent, 2);
	ck_assert_int_eq(replace(NULL, 0, 3), 0);
	ck_assert_int_eq(replace(&g, 1, 4), 0);
	ck_assert_uint_eq(find("a")->spent, 2);
	find("a")->spent = 4;
	ck_assert_int_eq(replace(NULL, 0, 5), 0);
	standing_forget(standing, 5);
	ck_assert_ptr_null(find("a"));
	ck_assert_int_eq(replace(&g, 1, 6), 0);
	ck_assert_int_eq(decide("x"), VERDICT_grant_exhausted);
}
END_TEST

/* Of a call that was decided under a grant which meanwhile left the set. */
START_TEST(a_use_comes_back_to_whoever_has_the_id)
{
	struct sample s;
	struct grant g = grant("a", &s, "x"), *then;

	g.bounded = true;
	g.max_uses = 2;
	ck_assert_int_eq(replace(&g, 1, 1), 0);
	then = find("a");
	then->users = 1;
	then->spent = 2;
	g.expires_at_ms = 1000;
	ck_assert_int_eq(replace(&g, 1, 2), 0);
	ck_assert_int_eq(decide("x"), VERDICT_grant_exhausted);
	standing_give_back(standing, then);
	ck_assert_uint_eq(find("a")->spent, 1);
	ck_assert_int_eq(decide("x"), VERDICT_allowed);
	/* And to what is kept of it while no file says it. */
	ck_assert_int_eq(replace(NULL, 0, 3), 0);
	standing_forget(standing, 3);
	standing_give_back(standing, then);
	ck_assert_int_eq(replace(&g, 1, 4), 0);
	ck_assert_uint_eq(find("a")->spent, 0);
	standing_give_back(standing, find("a")); /* there is no more */
	ck_assert_uint_eq(find("a")->spent, 0);
	then->users = 0;
}
END_TEST

START_TEST(what_left_the_set_still_hangs_where_it_hung)
{
	struct sample s[2];
	struct grant g[] = { grant("a", &s[0], "x"), grant("c", &s[1], "x") }, *then[2];

	g[0].subject = g[1].issuer = "human:b";
	g[0].delegation_depth = 1;
	g[1].parent = "a";
	ck_assert_int_eq(replace(g, 2, 1), 0);
	for (int i = 0; i < 2; i++) {
		then[i] = find(g[i].id);
		then[i]->users = 1;
		g[i].expires_at_ms = 1000;
	}
	ck_assert_int_eq(replace(g, 2, 2), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_ptr_ne(find(g[i].id), then[i]);
		ck_assert(grant_set_within(set, then[i], find(g[i].id)));
		ck_assert(grant_set_within(set, then[i], find("a")));
	}
	ck_assert(!grant_set_within(set, then[0], find("c")));
	then[0]->users = then[1]->users = 0;
}
END_TEST

START_TEST(a_revocation_on_record_outlives_every_reload)
{
	struct sample s;
	struct grant g = grant("a", &s, "x");

	ck_assert_int_eq(replace(&g, 1, 1), 0);
	grant_set_revoke(set, find("a"), 7);
	ck_assert_int_eq(replace(&g, 1, 2), 0);
	ck_assert_uint_eq(find("a")->revoked_at_ms, 7);
	g.expires_at_ms = 1000;
	ck_assert_int_eq(replace(&g, 1, 3), 0);
	ck_assert_uint_eq(find("a")->revoked_at_ms, 7);
	ck_assert_int_eq(replace(NULL, 0, 4), 0);
	standing_forget(standing, 9);
	ck_assert_int_eq(replace(&g, 1, 10), 0);
	ck_assert_uint_eq(find("a")->revoked_at_ms, 7);
	ck_assert_int_eq(decide("x"), VERDICT_no_matching_grant);
}
END_TEST

START_TEST(what_only_a_file_took_away_a_file_gives_back)
{
	struct sample s;
	struct grant g = grant("a", &s, "x");

	ck_assert_int_eq(replace(&g, 1, 1), 0);
	ck_assert_int_eq(replace(NULL, 0, 2), 0);
	ck_assert_int_eq(replace(&g, 1, 3), 0);
	ck_assert_int_eq(decide("x"), VERDICT_allowed);
}
END_TEST

START_TEST(the_id_of_another_s_grant_is_refused_and_nothing_changes)
{
	struct sample s[4];
	struct grant g[] = { grant("a", &s[0], "x"), grant("new", &s[1], "y"),
		grant("theirs", &s[2], "z") };
	struct grant theirs = grant("theirs", &s[3], "t");
	uint64_t before;

	ck_assert_int_eq(replace(g, 1, 1), 0);
	ck_assert_int_eq(grant_set_add(set, &theirs), 0);
	before = grant_set_revision(set);
	ck_assert_int_eq(replace(g + 1, 2, 2), -EEXIST);
	ck_assert_uint_eq(grant_set_revision(set), before);
	ck_assert_uint_eq(grant_set_size(set), 2);
	ck_assert_int_eq(decide("x"), VERDICT_allowed);
	ck_assert_int_eq(decide("t"), VERDICT_allowed);
	ck_assert_int_eq(decide("y"), VERDICT_no_matching_grant);
	/* And what is not ours is not taken away. */
	ck_assert_int_eq(replace(NULL, 0, 3), 0);
	ck_assert_int_eq(decide("t"), VERDICT_allowed);
	grant_set_remove(set, &theirs);
}
END_TEST

START_TEST(a_grant_that_a_call_names_is_not_freed)
{
	struct sample s;
	struct grant g = grant("a", &s, "x"), *a;

	ck_assert_int_eq(replace(&g, 1, 1), 0);
	a = find("a");
	a->users = 1;
	ck_assert_int_eq(replace(NULL, 0, 2), 0);
	standing_forget(standing, 2);
	ck_assert_ptr_null(find("a"));
	ck_assert_str_eq(a->id, "a"); /* AddressSanitizer looks, too */
	a->users = 0;
	standing_forget(standing, 3);
}
END_TEST

START_TEST(children_follow_their_parent_to_the_one_that_takes_its_place)
{
	struct sample s[2];
	struct grant g = grant("a", &s[0], "x"), child = grant("c", &s[1], "x");

	g.subject = "human:b";
	g.delegation_depth = 1;
	child.issuer = "human:b";
	child.parent = "a";
	ck_assert_int_eq(replace(&g, 1, 1), 0);
	ck_assert_int_eq(grant_set_add(set, &child), 0);
	g.delegation_depth = 2;
	ck_assert_int_eq(replace(&g, 1, 2), 0);
	ck_assert_int_eq(replace(NULL, 0, 3), 0);
	standing_forget(standing, 3);
	grant_set_remove(set, &child);
	ck_assert_uint_eq(grant_set_size(set), 0);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("standing");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, what_is_said_again_is_the_same_grant);
	tcase_add_test(tc, a_copy_needs_nothing_of_its_configuration);
	tcase_add_test(tc, what_is_gone_is_revoked_at_once);
	tcase_add_test(tc, what_is_gone_is_kept_until_the_turns_that_knew_it_are);
	tcase_add_test(tc, for_the_next_turn_running_ones_keep_what_is_gone);
	tcase_add_test(tc, what_is_new_is_seen_by_the_next_turn_only);
	tcase_add_test(tc, what_is_said_otherwise_is_another_grant);
	tcase_add_test(tc, uses_go_by_the_id);
	tcase_add_test(tc, a_use_comes_back_to_whoever_has_the_id);
	tcase_add_test(tc, what_left_the_set_still_hangs_where_it_hung);
	tcase_add_test(tc, a_revocation_on_record_outlives_every_reload);
	tcase_add_test(tc, what_only_a_file_took_away_a_file_gives_back);
	tcase_add_test(tc, the_id_of_another_s_grant_is_refused_and_nothing_changes);
	tcase_add_test(tc, a_grant_that_a_call_names_is_not_freed);
	tcase_add_test(tc, children_follow_their_parent_to_the_one_that_takes_its_place);
	suite_add_tcase(s, tc);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
