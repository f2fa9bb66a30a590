/*
 * What the broker keeps of grants that the record names (broker/grants.h), and the form in
 * which they travel (broker/grant_wire.h).  TU-33, TU-38, TU-40, D-12.
 */
#include "broker/grants.h"

#include <errno.h>

#include "broker/digest.h"
#include "broker/grant_wire.h"
#include "tests/unit/authority_fixture.h"
#include "tests/unit/json_value.h"

static struct digest *digest;
static struct grants *grants;
static struct grant_set *set;
static char err[256];

static void
setup(void)
{
	static const uint8_t key[32] = { 7 };

	digest = digest_create(key);
	grants = grants_create(digest);
	set = grant_set_create(REVOCATION_immediate);
	ck_assert(digest != NULL && grants != NULL && set != NULL);
}

static void
teardown(void)
{
	grant_set_destroy(set);
	grants_destroy(grants);
	digest_destroy(digest);
}

/* The record of a grant, as its issue would write it; of what it holds lives in `b`. */
struct written {
	struct msg_record m;
	struct buf capabilities, purposes;
	uint8_t digest[32];
};

static void
write_record(const struct grant *g, struct written *w)
{
	memset(w, 0, sizeof(*w));
	grant_pack_capabilities(&w->capabilities, g);
	ck_assert_int_eq(grants_digest(grants, g, w->digest), 0);
	w->m = (struct msg_record){ .has_grant = true,
		.grant = slice_of(g->id),
		.at = g->issued_at_ms,
		.has_subject = true,
		.subject = slice_of(g->subject),
		.has_issuer = true,
		.issuer = slice_of(g->issuer),
		.has_namespace = true,
		.namespace = slice_of(g->namespace),
		.has_capabilities = true,
		.capabilities = buf_slice(&w->capabilities),
		.has_delegationDepth = true,
		.delegationDepth = g->delegation_depth,
		.has_digest = true,
		.digest = { w->digest, sizeof(w->digest) },
		.has_maxUses = g->bounded,
		.maxUses = g->max_uses,
		.has_expiresAt = g->expires_at_ms != 0,
		.expiresAt = g->expires_at_ms,
		.has_notBefore = g->not_before_ms != 0,
		.notBefore = g->not_before_ms,
		.has_purposes = g->purposes != NULL };
	if (g->parent != NULL) {
		w->m.has_parent = true;
		w->m.parent = slice_of(g->parent);
	}
	if (g->purposes != NULL) {
		grant_pack_purposes(&w->purposes, g);
		w->m.purposes = buf_slice(&w->purposes);
	}
}

static void
forget_record(struct written *w)
{
	buf_finish(&w->capabilities);
	buf_finish(&w->purposes);
}

static int
take(const struct grant *g)
{
	struct written w;
	int r;

	write_record(g, &w);
	r = grants_take_issued(grants, &w.m, err, sizeof(err));
	forget_record(&w);
	return r;
}

static const char *why[] = { "work", "play" };

/* ---- from the record --------------------------------------------------------------------- */

START_TEST(what_was_issued_stands_as_it_was)
{
	struct grant g = GRANT(.id = "a", .bounded = true, .max_uses = 3, .purposes = why,
		.npurposes = 2, .not_before_ms = 5, .expires_at_ms = 90000,
		.delegation_depth = 2, .parent = "p");
	struct grant *got;
	struct buf one = { 0 }, other = { 0 };

	ck_assert_int_eq(take(&g), 0);
	ck_assert_int_eq(take(&g), 0); /* a ledger that tells it twice */
	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	got = grant_set_find(set, "a", 1);
	ck_assert_ptr_nonnull(got);
	grant_pack(&one, &g, NULL);
	grant_pack(&other, got, NULL);
	ck_assert_uint_eq(one.n, other.n);
	ck_assert_mem_eq(one.p, other.p, one.n);
	ck_assert(grants_issued(grants, got));
	buf_finish(&one);
	buf_finish(&other);
}
END_TEST

/* Whoever reads the record for us cannot make a grant of it, nor change one (TU-33, D-12). */
static void
other_subject(struct msg_record *m)
{
	m->subject = slice_of("agent:b");
}
static void
other_id(struct msg_record *m)
{
	m->grant = slice_of("b");
}
static void
other_instant(struct msg_record *m)
{
	m->at--;
}
static void
more_uses(struct msg_record *m)
{
	m->maxUses++;
}
static void
no_bound(struct msg_record *m)
{
	m->has_maxUses = false;
}
static void
no_end(struct msg_record *m)
{
	m->has_expiresAt = false;
}
static void
no_purposes(struct msg_record *m)
{
	m->has_purposes = false;
}
static void
other_issuer(struct msg_record *m)
{
	m->issuer = slice_of("human:x");
}
static void
other_namespace(struct msg_record *m)
{
	m->namespace = slice_of("other");
}
static void
more_depth(struct msg_record *m)
{
	m->delegationDepth++;
}
static void
a_parent(struct msg_record *m)
{
	m->has_parent = true;
	m->parent = slice_of("p");
}
static void
no_digest(struct msg_record *m)
{
	m->has_digest = false;
}
static void
no_capabilities(struct msg_record *m)
{
	m->has_capabilities = false;
}
static void
empty_capabilities(struct msg_record *m)
{
	m->capabilities = (struct slice){ (const uint8_t *)"\x90", 1 };
}
static void
no_id(struct msg_record *m)
{
	m->has_grant = false;
}

static const struct {
	void (*change)(struct msg_record *m);
	const char *said;
} lies[] = {
	{ other_subject, "digest" },
	{ other_id, "digest" },
	{ other_instant, "digest" },
	{ more_uses, "digest" },
	{ no_bound, "digest" },
	{ no_end, "digest" },
	{ no_purposes, "digest" },
	{ other_issuer, "digest" },
	{ other_namespace, "digest" },
	{ more_depth, "digest" },
	{ a_parent, "digest" },
	{ no_digest, "a member is missing" },
	{ no_capabilities, "a member is missing" },
	{ empty_capabilities, "capabilities: names no capability" },
	{ no_id, "it has no id" },
};

START_TEST(what_no_broker_wrote_is_not_believed)
{
	struct grant g = GRANT(.id = "a", .bounded = true, .max_uses = 3, .purposes = why,
		.npurposes = 2, .expires_at_ms = 90000, .delegation_depth = 2);
	struct written w;

	write_record(&g, &w);
	lies[_i].change(&w.m);
	ck_assert_int_eq(grants_take_issued(grants, &w.m, err, sizeof(err)), -EINVAL);
	ck_assert_msg(strstr(err, lies[_i].said) != NULL, "%s", err);
	forget_record(&w);
	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	ck_assert_uint_eq(grant_set_size(set), 0);
}
END_TEST

START_TEST(another_installation_s_key_makes_no_grant_here)
{
	static const uint8_t key[32] = { 8 };
	struct grant g = GRANT(.id = "a");
	struct digest *other = digest_create(key);
	struct grants *theirs = grants_create(other);
	struct written w;

	write_record(&g, &w);
	ck_assert_int_eq(grants_take_issued(theirs, &w.m, err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(grants_take_issued(grants, &w.m, err, sizeof(err)), 0);
	forget_record(&w);
	grants_destroy(theirs);
	digest_destroy(other);
}
END_TEST

/* In whatever order the record's pages say it. */
START_TEST(what_is_revoked_is_so_of_both_kinds)
{
	struct grant configured = GRANT(.id = "c"), later = GRANT(.id = "l");
	struct grant a = GRANT(.id = "a"), b = GRANT(.id = "b");

	ck_assert_int_eq(grants_take_revoked(grants, slice_of("c"), 70), 0);
	ck_assert_int_eq(grants_take_revoked(grants, slice_of("a"), 71), 0);
	ck_assert_int_eq(grants_take_revoked(grants, slice_of("a"), 99), 0);
	ck_assert_int_eq(grants_take_revoked(grants, slice_of("l"), 0), 0);
	ck_assert_int_eq(take(&a), 0);
	ck_assert_int_eq(take(&b), 0);
	ck_assert_int_eq(grant_set_add(set, &configured), 0);
	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	ck_assert_uint_eq(configured.revoked_at_ms, 70);
	ck_assert_uint_eq(grant_set_find(set, "a", 1)->revoked_at_ms, 71);
	ck_assert_uint_eq(grant_set_find(set, "b", 1)->revoked_at_ms, 0);
	/* One that comes with the next configuration. */
	ck_assert_int_eq(grant_set_add(set, &later), 0);
	grants_reapply(grants);
	ck_assert_uint_ne(later.revoked_at_ms, 0);
	ck_assert_uint_eq(grant_set_find(set, "b", 1)->revoked_at_ms, 0);
}
END_TEST

START_TEST(an_id_that_stands_in_both_is_named)
{
	struct grant configured = GRANT(.id = "both"), a = GRANT(.id = "a");
	struct grant issued = GRANT(.id = "both");

	ck_assert_int_eq(take(&a), 0);
	ck_assert_int_eq(take(&issued), 0);
	ck_assert_int_eq(grant_set_add(set, &configured), 0);
	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), -EEXIST);
	ck_assert_str_eq(err, "both");
}
END_TEST

START_TEST(uses_of_the_record_count)
{
	struct grant a = GRANT(.id = "a", .bounded = true, .max_uses = 2);

	ck_assert(!grants_take_spent(grants, slice_of("a"), 2)); /* not one of these yet */
	ck_assert_int_eq(take(&a), 0);
	ck_assert(grants_take_spent(grants, slice_of("a"), 2));
	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	ck_assert_str_eq(grant_state(grant_set_find(set, "a", 1), 1000), "exhausted");
}
END_TEST

/* ---- while it runs ----------------------------------------------------------------------- */

/* TU-40: for the turns that are admitted after it, and with memory of its own. */
START_TEST(what_is_given_is_a_copy_for_the_next_turn)
{
	struct context before, after;
	char id[] = "new", subject[] = "agent:a";
	struct grant g = GRANT(.id = id, .subject = subject);

	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	before = admitted(set);
	ck_assert_int_eq(grants_add(grants, &g), 0);
	ck_assert_int_eq(grants_add(grants, &g), -EEXIST);
	memset(id, 'x', 3);
	memset(subject, 'x', 7);
	after = admitted(set);
	ck_assert_int_eq(authority_decide(set, &before, &read_docs_a, NOW).verdict,
	    VERDICT_no_matching_grant);
	ck_assert_int_eq(
	    authority_decide(set, &after, &read_docs_a, NOW).verdict, VERDICT_allowed);
	ck_assert(grants_knows(grants, slice_of("new")));
	ck_assert(!grants_knows(grants, slice_of("nobody")));
}
END_TEST

START_TEST(an_id_is_reserved_until_it_is_dropped)
{
	struct grant_fact *f = grants_fact_make(grants, slice_of("a"));

	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_eq(grants_fact_make(grants, slice_of("a")), f);
	ck_assert(grants_knows(grants, slice_of("a")));
	grants_fact_drop(grants, f);
	ck_assert(!grants_knows(grants, slice_of("a")));
}
END_TEST

START_TEST(many_are_found_by_number_and_by_id)
{
	struct config none = { 0 };
	char id[16];

	ck_assert_int_eq(grants_attach(grants, set, err, sizeof(err)), 0);
	for (int i = 0; i < 5000; i++) {
		struct grant g = GRANT(.id = id);

		snprintf(id, sizeof(id), "g%d", i);
		ck_assert_int_eq(grants_add(grants, &g), 0);
	}
	ck_assert_uint_eq(grants_count(grants, &none), 5000);
	for (size_t i = 0; i < 5000; i++) {
		snprintf(id, sizeof(id), "g%zu", i);
		ck_assert_str_eq(grants_at(grants, &none, i)->id, id);
		ck_assert_ptr_eq(
		    &grants_fact(grants, slice_of(id))->grant, grants_at(grants, &none, i));
	}
}
END_TEST

/* ---- the form ---------------------------------------------------------------------------- */

static const struct {
	const char *text, *said; /* "": it is read */
} lists[] = {
	{ "[{'namespace':'w','path':[],'scope':'exact','actions':['*']}]", "" },
	{ "[{'actions':['a','b'],'scope':'descendants','owner':'human:h','path':['a'],"
	  "'namespace':'w'}]",
	    "" },
	{ "[]", "" },
	{ "[1]", "capabilities[0]: is not a map" },
	{ "[[]]", "capabilities[0]: is not a map" },
	{ "[{}]", "capabilities[0].namespace: is missing" },
	{ "[{'namespace':'w','path':[],'scope':'exact'}]", "capabilities[0].actions: is missing" },
	{ "[{'namespace':'w','path':[],'scope':'exact','actions':['*'],'x':1}]",
	    "capabilities[0]: has an unknown member" },
	{ "[{'namespace':1,'path':[],'scope':'exact','actions':['*']}]",
	    "capabilities[0].namespace: has the wrong type" },
	{ "[{'namespace':'w','path':'','scope':'exact','actions':['*']}]",
	    "capabilities[0].path: has the wrong type" },
	{ "[{'namespace':'w','path':[1],'scope':'exact','actions':['*']}]",
	    "capabilities[0].path: has an element that is not a string" },
	{ "[{'namespace':'w','path':['a'],'scope':'Exact','actions':['*']}]",
	    "capabilities[0].scope: is neither exact nor descendants" },
	{ "[{'namespace':'','path':[],'scope':'exact','actions':['*']}]",
	    "capabilities[0].namespace: is not 1 to 256 bytes of plain text" },
	{ "[{'namespace':'w','owner':'h','path':[],'scope':'exact','actions':['*']}]",
	    "capabilities[0].owner: does not begin with human:" },
	{ "[{'namespace':'w','path':['..'],'scope':'exact','actions':['*']}]",
	    "capabilities[0].path: a segment is . or .." },
	{ "[{'namespace':'w','path':[],'scope':'exact','actions':[]}]",
	    "capabilities[0].actions: names no action" },
};

START_TEST(capabilities_are_read_strictly)
{
	struct zone z = { NULL, 0 };
	struct grant g = GRANT(.id = "a");
	struct buf b = { 0 }, again = { 0 };
	int r;

	strcpy(err, "");
	r = grant_read_capabilities(
	    &z, json_value(&b, lists[_i].text), &g, err, sizeof(err));
	ck_assert_msg(strncmp(err, lists[_i].said, strlen(lists[_i].said)) == 0, "%s", err);
	ck_assert_int_eq(r, lists[_i].said[0] == '\0' ? 0 : -EINVAL);
	if (r == 0) {
		/* What is packed is read as the same. */
		grant_pack_capabilities(&again, &g);
		ck_assert_int_eq(
		    grant_read_capabilities(&z, buf_slice(&again), &g, err, sizeof(err)), 0);
	}
	buf_finish(&b);
	buf_finish(&again);
	zone_finish(&z);
}
END_TEST

START_TEST(the_state_of_a_grant_is_its_own)
{
	static const struct {
		struct grant g;
		const char *state;
	} rows[] = {
		{ { .issued_at_ms = 5 }, "active" },
		{ { .issued_at_ms = 2000 }, "pending" },
		{ { .not_before_ms = 1001 }, "pending" },
		{ { .not_before_ms = 1000 }, "active" },
		{ { .expires_at_ms = 1000 }, "expired" },
		{ { .expires_at_ms = 1001 }, "active" },
		{ { .bounded = true, .max_uses = 2, .spent = 1 }, "active" },
		{ { .bounded = true, .max_uses = 2, .spent = 2 }, "exhausted" },
		{ { .bounded = true, .max_uses = 2, .spent = 2, .revoked_at_ms = 1 }, "revoked" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_str_eq(grant_state(&rows[i].g, 1000), rows[i].state);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("grants");
	TCase *t = tcase_create("store"), *form = tcase_create("form");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_was_issued_stands_as_it_was);
	tcase_add_loop_test(t, what_no_broker_wrote_is_not_believed, 0, (int)countof(lies));
	tcase_add_test(t, another_installation_s_key_makes_no_grant_here);
	tcase_add_test(t, what_is_revoked_is_so_of_both_kinds);
	tcase_add_test(t, an_id_that_stands_in_both_is_named);
	tcase_add_test(t, uses_of_the_record_count);
	tcase_add_test(t, what_is_given_is_a_copy_for_the_next_turn);
	tcase_add_test(t, an_id_is_reserved_until_it_is_dropped);
	tcase_add_test(t, many_are_found_by_number_and_by_id);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(form, capabilities_are_read_strictly, 0, (int)countof(lists));
	tcase_add_test(form, the_state_of_a_grant_is_its_own);
	suite_add_tcase(s, t);
	suite_add_tcase(s, form);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
