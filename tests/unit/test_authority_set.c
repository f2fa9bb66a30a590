/*
 * The index over grants: a set that was changed decides like one that was made anew, and
 * its table finds what is in it and nothing else.
 */
#include "broker/authority/table.h"

#include <errno.h>

#include "tests/unit/authority_world.h"

#define GRANTS 60
#define STEPS  3000

static char names[GRANTS][24];

/* A grant of one of few places, so that lists are long and get shorter again. */
static void
small_grant(struct world *w, struct grant *g, struct capability *c, size_t i)
{
	random_grant(w, i % WORLD_MAX);
	*g = w->g[i % WORLD_MAX];
	*c = (struct capability){ pick(4) == 0 ? "mail" : "workspace", NULL, { words, pick(3) },
		pick(2) == 0, (const char **)(uintptr_t)verbs, 1 + pick(2) };
	g->id = names[i];
	g->capabilities = c;
	g->ncapabilities = 1;
	g->purposes = NULL;
	g->npurposes = 0;
	g->revoked_at_ms = 0;
	g->parent = pick(3) == 0 ? names[pick(GRANTS)] : NULL;
	g->not_before_ms = 0;
	g->issued_at_ms = 500;
}

/* All that are in, from the beginning. */
static struct grant_set *
anew(struct grant *g, struct grant *copy, const size_t *order, size_t n)
{
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	uint64_t revoked;
	size_t i;

	for (i = 0; i < n; i++) {
		copy[order[i]] = g[order[i]];
		revoked = copy[order[i]].revoked_at_ms;
		ck_assert_int_eq(grant_set_add(set, &copy[order[i]]), 0);
		copy[order[i]].revoked_at_ms = revoked;
	}
	return set;
}

static void
compare(
    struct grant_set *a, const struct grant *ga, struct grant_set *b, const struct grant *gb)
{
	const char *segments[MEMBERS_MAX];
	const struct context ca = admitted(a), cb = admitted(b);
	const struct requirement r = random_requirement(segments);
	struct decision da = authority_decide(a, &ca, &r, NOW);
	struct decision db = authority_decide(b, &cb, &r, NOW);
	struct reach ra = { 0 }, rb = { 0 };
	const struct capability *reached;

	ck_assert_int_eq(da.verdict, db.verdict);
	ck_assert_int_eq(da.nearest, db.nearest);
	ck_assert_int_eq(da.missing, db.missing);
	ck_assert_int_eq(da.chain, db.chain);
	ck_assert_int_eq(da.grant != NULL, db.grant != NULL);
	if (da.grant != NULL)
		ck_assert_int_eq(da.grant - ga, db.grant - gb);
	ck_assert_int_eq(authority_discover(a, &ca, NULL, r.namespace, r.action, NOW),
	    authority_discover(b, &cb, NULL, r.namespace, r.action, NOW));
	do {
		reached = authority_reach(a, &ca, NOW, &ra);
		ck_assert_ptr_eq(reached, authority_reach(b, &cb, NOW, &rb));
	} while (reached != NULL);
}

START_TEST(a_set_that_was_changed_decides_like_a_new_one)
{
	static struct grant g[GRANTS], copy[GRANTS];
	static struct capability c[GRANTS];
	struct grant_set *set = grant_set_create(REVOCATION_immediate), *other;
	size_t order[GRANTS], n = 0, i, k, step;
	bool in[GRANTS] = { false };
	struct world w = { .n = 0 };

	seed = 2024;
	for (i = 0; i < GRANTS; i++)
		snprintf(names[i], sizeof(names[i]), "n%zu", i);
	for (step = 0; step < STEPS; step++) {
		i = pick(GRANTS);
		if (!in[i]) {
			small_grant(&w, &g[i], &c[i], i);
			if (g[i].parent == g[i].id)
				g[i].parent = NULL;
			ck_assert_int_eq(grant_set_add(set, &g[i]), 0);
			order[n++] = i;
		} else if (pick(3) == 0) {
			grant_set_revoke(set, &g[i], NOW);
			continue;
		} else {
			grant_set_remove(set, &g[i]);
			for (k = 0; order[k] != i; k++)
				;
			memmove(&order[k], &order[k + 1], (--n - k) * sizeof(order[0]));
		}
		in[i] = !in[i];
		ck_assert_uint_eq(grant_set_size(set), n);
		ck_assert_ptr_eq(
		    grant_set_find(set, names[i], strlen(names[i])), in[i] ? &g[i] : NULL);
		if (step % 4 != 0)
			continue;
		other = anew(g, copy, order, n);
		for (k = 0; k < 6; k++)
			compare(set, g, other, copy);
		grant_set_destroy(other);
	}
	grant_set_destroy(set);
}
END_TEST

START_TEST(a_set_refuses_what_is_no_grant_of_it) /* TU-38 */
{
	struct grant good = GRANT(), twin = GRANT(), bad = GRANT(.id = "b", .subject = "a");
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	uint64_t revision;

	ck_assert_int_eq(grant_set_add(set, &bad), -EINVAL);
	ck_assert_int_eq(grant_set_add(set, &good), 0);
	revision = grant_set_revision(set);
	ck_assert_int_eq(grant_set_add(set, &twin), -EEXIST);
	ck_assert_uint_eq(grant_set_size(set), 1);
	ck_assert_uint_eq(grant_set_revision(set), revision);
	ck_assert_ptr_eq(grant_set_find(set, "g", 1), &good);
	ck_assert_ptr_null(grant_set_find(set, "g\0x", 3));
	ck_assert_ptr_null(grant_set_find(set, "", 0));
	grant_set_destroy(set);
}
END_TEST

START_TEST(a_requirement_of_any_depth_is_looked_up) /* TU-35 */
{
	const char *deep[65];
	struct capability c = { "workspace", NULL, { deep, 64 }, true, ACTIONS(act_read) };
	struct grant g = GRANT(.capabilities = &c);
	struct requirement r = { "workspace", NULL, { deep, 64 }, "read", NO_CALL };
	struct grant_set *set;
	struct context ctx;
	size_t i;

	for (i = 0; i < countof(deep); i++)
		deep[i] = i % 2 == 0 ? "a" : "bcdefghij";
	set = set_of(&g, 1, false);
	ctx = admitted(set);
	ck_assert_int_eq(authority_decide(set, &ctx, &r, NOW).verdict, VERDICT_allowed);
	r.path.n = 63;
	ck_assert_int_eq(
	    authority_decide(set, &ctx, &r, NOW).verdict, VERDICT_no_matching_grant);
	r.path.n = 65;
	ck_assert_int_eq(authority_decide(set, &ctx, &r, NOW).verdict, VERDICT_invalid_request);
	grant_set_destroy(set);
}
END_TEST

/* ---- the table ------------------------------------------------------------------------- */

static bool
table_has(const struct table *t, uint64_t hash, const void *item)
{
	uint64_t at = hash;
	const void *found;

	do
		found = table_next(t, hash, &at);
	while (found != NULL && found != item);
	return found != NULL;
}

START_TEST(a_table_finds_what_is_in_it) /* few hashes: runs that collide and wrap around */
{
	enum { ITEMS = 200 };
	static int items[ITEMS];
	uint64_t hash[ITEMS];
	bool in[ITEMS] = { false };
	size_t step, i, n = 0;
	struct table t;

	seed = 5;
	ck_assert_int_eq(table_init(&t), 0);
	for (i = 0; i < ITEMS; i++)
		hash[i] = UINT64_MAX - 20 + pick(40);
	for (step = 0; step < 20000; step++) {
		i = pick(ITEMS);
		if (in[i]) {
			table_remove(&t, hash[i], &items[i]);
			n--;
		} else {
			ck_assert_int_eq(table_reserve(&t, 1), 0);
			table_put(&t, hash[i], &items[i]);
			n++;
		}
		in[i] = !in[i];
		ck_assert_uint_eq(t.n, n);
		if (step % 50 == 0)
			for (i = 0; i < ITEMS; i++)
				ck_assert_int_eq(table_has(&t, hash[i], &items[i]), in[i]);
	}
	table_finish(&t);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("authority_set");
	TCase *t = tcase_create("set");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_set_that_was_changed_decides_like_a_new_one);
	tcase_add_test(t, a_set_refuses_what_is_no_grant_of_it);
	tcase_add_test(t, a_requirement_of_any_depth_is_looked_up);
	tcase_add_test(t, a_table_finds_what_is_in_it);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
