/* The broker's configuration: what the supervisor packs is read whole. */
#include <check.h>
#include <errno.h>

#include "tests/unit/broker_config_fixture.h"

static struct config *
read_draft(const struct draft *d)
{
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;

	draft_pack(d, &b);
	ck_assert_msg(read_bytes(b.p, b.n, &c, &fault, &row) == 0, "%s: %s: %s", row,
	    fault.field, fault.rule);
	ck_assert_str_eq(row, "");
	/* Nothing of the bytes is kept. */
	memset(b.p, 0xc1, b.n);
	buf_finish(&b);
	return c;
}

/* All that can be said of the second of each kind, and of the whole. */
static void
draft_say_all(struct draft *d)
{
	d->broker.owner = S("group:\xc3\xa9");
	d->grant[1].has_notBefore = d->grant[1].has_expiresAt = d->grant[1].has_maxUses = true;
	d->grant[1].notBefore = 8;
	d->grant[1].expiresAt = 9;
	d->grant[1].maxUses = 3;
	d->grant[1].has_parent = d->grant[1].has_delegationDepth = true;
	d->grant[1].parent = slice_of("g0");
	d->grant[1].delegationDepth = 2;
	d->grant[1].has_purposes = true;
	d->grant[1].purposes = json_value(&d->purposes, "['work','play']");
	d->capability[1].has_owner = true;
	d->capability[1].owner = S("human:owner");
	d->capability[1].scope = scope_exact;
	d->broker.revocation = revocation_mode_next_turn;
	d->broker.has_toolNamespaces = true;
	d->broker.toolNamespaces = json_value(&d->namespaces, "['files','mail']");
	d->runtime[1].has_metadata = true;
	d->runtime[1].metadata = json_value(&d->more, "{'team':'ops'}");
	d->tool[1].effect = effect_write;
	d->tool[1].has_destructive = d->tool[1].destructive = true;
	d->tool[1].has_output = d->tool[1].has_ceiling = true;
	d->tool[1].output = json_value(&d->output, "{'type':'string'}");
	d->tool[1].ceiling = json_value(&d->ceiling, "['docs']");
}

static void
check_head(const struct config *c)
{
	ck_assert_str_eq(c->namespace, "default");
	ck_assert_str_eq(c->authority, "human:operator");
	ck_assert_str_eq(c->owner, "group:\xc3\xa9");
	ck_assert_str_eq(c->purpose, "work");
	ck_assert_mem_eq(c->key, key, 32);
	ck_assert_int_eq(c->durability, durability_relaxed);
	ck_assert_uint_eq(c->max_steps, 16);
	ck_assert_uint_eq(c->max_tool_calls, 17);
	ck_assert_uint_eq(c->timeout_ms, 120000);
	ck_assert_uint_eq(c->drain_grace_ms, 5);
	ck_assert_uint_eq(c->kill_grace_ms, 2000);
	ck_assert_uint_eq(c->operator, 1000);
	ck_assert_int_eq(c->revocation, REVOCATION_next_turn);
	ck_assert_uint_eq(c->ntool_namespaces, 2);
	ck_assert_str_eq(c->tool_namespaces[1], "mail");
}

static void
check_tools(const struct config *c)
{
	ck_assert_uint_eq(c->nruntimes, 2);
	ck_assert_str_eq(c->runtimes[1].id, "r1");
	ck_assert_str_eq(c->runtimes[1].version, "1.0.0");
	ck_assert_int_eq(c->runtimes[1].kind, operation_kind_turn);
	ck_assert_uint_eq(c->runtimes[0].metadata.n, 0);
	ck_assert_uint_gt(c->runtimes[1].metadata.n, 0);
	ck_assert_uint_eq(c->nproviders, 2);
	ck_assert_str_eq(c->providers[1].id, "p1");
	ck_assert_uint_eq(c->providers[1].concurrency, 4);
	ck_assert(!c->providers[0].shared && c->providers[1].shared);
	ck_assert_uint_eq(c->ntools, 3); /* and sharedos.escalate */
	ck_assert_str_eq(c->tools[0].name, "files.read");
	ck_assert_str_eq(c->tools[0].description, "reads");
	ck_assert_uint_eq(c->tools[1].provider, 1);
	ck_assert(c->tools[0].idempotent);
	ck_assert(c->tools[0].read_only && !c->tools[0].destructive && !c->tools[0].result);
	ck_assert(!c->tools[1].read_only && c->tools[1].destructive && c->tools[1].result);
	ck_assert_uint_eq(c->tools[0].ceiling.n, 0);
	ck_assert_str_eq(c->tools[1].ceiling.segment[0], "docs");
}

static void
check_grants(const struct config *c)
{
	ck_assert_uint_eq(c->ngrants, 2);
	ck_assert(!c->grants[0].bounded && c->grants[0].expires_at_ms == 0);
	ck_assert_ptr_null(c->grants[0].purposes);
	ck_assert_ptr_null(c->grants[0].parent);
	ck_assert_uint_eq(c->grants[0].delegation_depth, 0);
	ck_assert_str_eq(c->grants[1].parent, "g0");
	ck_assert_uint_eq(c->grants[1].delegation_depth, 2);
	ck_assert_uint_eq(c->grants[1].issued_at_ms, 7);
	ck_assert_uint_eq(c->grants[1].not_before_ms, 8);
	ck_assert_uint_eq(c->grants[1].expires_at_ms, 9);
	ck_assert(c->grants[1].bounded && c->grants[1].max_uses == 3);
	ck_assert_uint_eq(c->grants[1].npurposes, 2);
	ck_assert_str_eq(c->grants[1].purposes[1], "play");
	ck_assert_uint_eq(c->grants[1].ncapabilities, 1);
	ck_assert_str_eq(c->grants[1].capabilities[0].owner, "human:owner");
	ck_assert(!c->grants[1].capabilities[0].descendants);
	ck_assert_str_eq(c->grants[1].capabilities[0].path.segment[1], "a");
	ck_assert_str_eq(c->grants[1].capabilities[0].actions[1], "list");
}

START_TEST(a_good_configuration_is_read_whole)
{
	struct draft *d = draft_create();
	struct config *c;

	draft_say_all(d);
	c = read_draft(d);
	draft_destroy(d);
	check_head(c);
	check_tools(c);
	check_grants(c);
	config_release(c);
}
END_TEST

START_TEST(what_was_read_can_be_decided_with)
{
	struct draft *d = draft_create();
	struct config *c = read_draft(d);
	const struct config_tool *t = config_tool(c, S("files.read"));
	struct context ctx = { "agent:r0", c->authority, c->owner, c->namespace,
		c->purpose, 100, 0 };
	struct resolved_requirement r;
	struct grant_set *set;
	struct standing *standing;
	struct buf b = { 0 };
	const char *code, *id;
	char err[256];

	draft_destroy(d);
	json_value(&b, "{'path':'docs/a/b'}");
	ck_assert_int_eq(
	    schema_check(t->schema, (struct slice){ b.p, b.n }, err, sizeof(err)), 0);
	ck_assert_int_eq(requirement_resolve(t->path, t->resource, t->action,
			     (struct slice){ b.p, b.n }, &r, &code, err, sizeof(err)),
	    0);
	set = grant_set_create(REVOCATION_immediate);
	standing = standing_create(set);
	ck_assert_int_eq(standing_replace(standing, c, 1, 1, &id), 0);
	ctx.revision = grant_set_revision(set);
	ck_assert_uint_eq(grant_set_size(set), 2);
	ck_assert_str_eq(
	    authority_decide(set, &ctx, &r.requirement, 100).grant->id, c->grants[0].id);
	grant_set_destroy(set);
	standing_destroy(standing);
	requirement_finish(&r);
	buf_finish(&b);
	config_release(c);
}
END_TEST

START_TEST(tools_are_found_by_their_whole_name)
{
	struct draft *d = draft_create();
	struct config *c = read_draft(d);

	draft_destroy(d);
	ck_assert_ptr_eq(config_tool(c, S("files.read")), &c->tools[0]);
	ck_assert_ptr_eq(config_tool(c, S("a")), &c->tools[1]);
	ck_assert_ptr_null(config_tool(c, S("files.rea")));
	ck_assert_ptr_null(config_tool(c, S("files.reads")));
	ck_assert_ptr_null(config_tool(c, S("")));
	ck_assert_ptr_null(config_tool(c, (struct slice){ NULL, 0 }));
	ck_assert_ptr_null(config_tool(c, (struct slice){ (const uint8_t *)"a\0", 2 }));
	ck_assert_ptr_null(config_tool(c, S("zzz")));
	config_release(c);
}
END_TEST

/* Since when each row has been so is known, and is no other configuration. */
START_TEST(what_has_long_been_so_is_told_and_changes_no_digest)
{
	struct draft *d = draft_create();
	struct config *c, *plain;

	d->broker.has_generation = true;
	d->broker.generation = 5;
	plain = read_draft(d);
	ck_assert_uint_eq(plain->runtimes[0].since + plain->runtimes[1].since, 10);
	ck_assert_uint_eq(plain->providers[0].since + plain->providers[1].since, 10);
	d->broker.has_runtimesSince = d->broker.has_providersSince = true;
	d->broker.runtimesSince = json_value(&d->more, "[0,5]");
	d->broker.providersSince = json_value(&d->namespaces, "[3,4]");
	c = read_draft(d);
	ck_assert_uint_eq(c->runtimes[0].since, 0);
	ck_assert_uint_eq(c->runtimes[1].since, 5);
	ck_assert_uint_eq(c->providers[0].since, 3);
	ck_assert_uint_eq(c->providers[1].since, 4);
	ck_assert_mem_eq(c->digest, plain->digest, sizeof(c->digest));
	config_release(c);
	config_release(plain);
	draft_destroy(d);
}
END_TEST

START_TEST(since_when_is_said_of_each_row_and_never_of_the_future)
{
	static const char *const rows[] = { "[]", "[0]", "[0,1,2]", "[0,6]", "[4611686018427387904,0]",
		"['0','1']", "[0,null]", "[[0],1]", "[-1,0]" };
	struct fault fault;
	const char *row;
	size_t i;

	for (i = 0; i < 2 * countof(rows); i++) {
		struct draft *d = draft_create();
		struct config *c = NULL;
		struct buf b = { 0 };
		struct slice list = json_value(&d->more, rows[i / 2]);

		d->broker.has_generation = true;
		d->broker.generation = 5;
		d->broker.has_runtimesSince = i % 2 == 0;
		d->broker.has_providersSince = i % 2 == 1;
		d->broker.runtimesSince = d->broker.providersSince = list;
		draft_pack(d, &b);
		ck_assert_msg(
		    read_bytes(b.p, b.n, &c, &fault, &row) == -EINVAL, "%s", rows[i / 2]);
		ck_assert_str_eq(fault.field, i % 2 == 0 ? "runtimesSince" : "providersSince");
		buf_finish(&b);
		draft_destroy(d);
	}
}
END_TEST

/* The draft's as of `generation`; the lists are JSON. */
static struct config *
read_aged(uint64_t generation, const char *runtimes, const char *providers)
{
	struct draft *d = draft_create();
	struct config *c;

	d->broker.has_generation = true;
	d->broker.generation = generation;
	d->broker.has_runtimesSince = d->broker.has_providersSince = true;
	d->broker.runtimesSince = json_value(&d->more, runtimes);
	d->broker.providersSince = json_value(&d->namespaces, providers);
	c = read_draft(d);
	draft_destroy(d);
	return c;
}

START_TEST(what_makes_the_same_processes_is_found_from_either_side)
{
	static const struct {
		uint64_t later;
		const char *since; /* of both rows */
		bool same[2];
	} cases[] = {
		{ 3, "[0,0]", { true, true } },
		{ 3, "[2,1]", { true, true } }, /* since the earlier one, which is 2 */
		{ 3, "[3,2]", { false, true } },
		{ 9, "[3,9]", { false, false } }, /* it was another in between */
	};
	struct config *before = read_aged(2, "[2,2]", "[2,2]"), *c;
	uint32_t at;

	for (size_t n = 0; n < countof(cases); n++) {
		c = read_aged(cases[n].later, cases[n].since, cases[n].since);
		for (uint32_t i = 0; i < 2; i++) {
			bool same = cases[n].same[i];

			ck_assert_int_eq(config_same_runtime(before, i, c, &at), same);
			ck_assert_int_eq(config_same_runtime(c, i, before, &at), same);
			ck_assert_int_eq(config_same_provider(before, i, c, &at), same);
			ck_assert_int_eq(config_same_provider(c, i, before, &at), same);
			ck_assert_uint_eq(at, i);
		}
		config_release(c);
	}
	config_release(before);
}
END_TEST

START_TEST(rows_are_the_same_by_id_wherever_they_stand)
{
	struct config *a = read_aged(0, "[0,0]", "[0,0]"), *b = read_aged(1, "[0,0]", "[0,0]");
	struct config_provider p = b->providers[0];
	struct config_runtime r = b->runtimes[0];
	uint32_t at = 7;

	b->providers[0] = b->providers[1];
	b->providers[1] = p;
	b->runtimes[0] = b->runtimes[1];
	b->runtimes[1] = r;
	ck_assert(config_same_provider(a, 0, b, &at));
	ck_assert_uint_eq(at, 1);
	ck_assert(config_same_runtime(a, 1, b, &at));
	ck_assert_uint_eq(at, 0);
	/* Places are counted by these, so that no word of a supervisor's counts for more. */
	b->providers[1].concurrency++;
	ck_assert(!config_same_provider(a, 0, b, &at));
	b->providers[1].concurrency--;
	b->providers[1].shared = !b->providers[1].shared;
	ck_assert(!config_same_provider(a, 0, b, &at));
	b->providers[1].id = b->runtimes[1].id = "nowhere";
	ck_assert(!config_same_provider(a, 0, b, &at));
	ck_assert(!config_same_runtime(a, 0, b, &at));
	config_release(a);
	config_release(b);
}
END_TEST

START_TEST(an_empty_configuration_is_one)
{
	struct draft *d = draft_create();
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;

	ck_assert_int_eq(protocol_notify(&b, MSG_config_broker, &d->broker), 0);
	ck_assert_int_eq(protocol_notify(&b, MSG_config_end, &(struct msg_config_end){ 0 }), 0);
	ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), 0);
	ck_assert_uint_eq(c->ntools, 1); /* sharedos.escalate */
	ck_assert_uint_eq(c->ngrants + c->nproviders + c->nruntimes, 0);
	ck_assert_ptr_null(config_tool(c, S("a")));
	config_release(c);
	buf_finish(&b);
	draft_destroy(d);
}
END_TEST

START_TEST(a_second_reader_begins_at_the_beginning)
{
	struct draft *d = draft_create();
	int fd = memfd_create("config", MFD_CLOEXEC), i, ends[2];
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;

	draft_pack(d, &b);
	draft_destroy(d);
	ck_assert_int_eq(write(fd, b.p, b.n), (ssize_t)b.n);
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(config_read(fd, &c, &fault, &row), 0);
		config_release(c);
	}
	close(fd);
	/* What has no beginning to go back to is read as it comes. */
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(write(ends[1], b.p, b.n), (ssize_t)b.n);
	close(ends[1]);
	ck_assert_int_eq(config_read(ends[0], &c, &fault, &row), 0);
	config_release(c);
	close(ends[0]);
	ck_assert_int_eq(config_read(ends[0], &c, &fault, &row), -EBADF);
	ck_assert_str_eq(fault.rule, "cannot be read");
	buf_finish(&b);
}
END_TEST

/* ---- mistakes ------------------------------------------------------------------------- */

START_TEST(a_ceiling_stands_before_grants_or_behind_them)
{
	static const char *const rows[] = { "BLCGCE", "BGCLCE", "BLCE" };
	struct requirement need = { .namespace = "workspace", .action = "read" };
	const char *path[] = { "docs", "a" };
	struct standing *standing;
	struct grant_set *set;
	struct config *c;
	struct fault fault;
	const char *row, *id;
	size_t i;

	need.path = (struct path){ path, 2 };
	for (i = 0; i < countof(rows); i++) {
		struct context ctx = { "agent:r0", "human:operator", "human:owner", "default",
			"work", 100, 0 };
		struct buf b = { 0 };

		pack_rows(rows[i], &b);
		ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), 0);
		buf_finish(&b);
		ck_assert_uint_eq(c->ceiling.nrefused, 1);
		ck_assert_uint_eq(c->ngrants, i < 2);
		set = grant_set_create(c->revocation);
		standing = standing_create(set);
		ck_assert_int_eq(standing_replace(standing, c, 1, 1, &id), 0);
		ctx.revision = grant_set_revision(set);
		if (i < 2) /* TU-44 */
			ck_assert_int_eq(authority_decide(set, &ctx, &need, 100).verdict,
			    VERDICT_host_policy_denied);
		grant_set_destroy(set);
		standing_destroy(standing);
		config_release(c);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("broker_config");
	TCase *good = tcase_create("good");
	SRunner *r;
	int failed;

	tcase_add_test(good, a_good_configuration_is_read_whole);
	tcase_add_test(good, what_was_read_can_be_decided_with);
	tcase_add_test(good, tools_are_found_by_their_whole_name);
	tcase_add_test(good, what_has_long_been_so_is_told_and_changes_no_digest);
	tcase_add_test(good, since_when_is_said_of_each_row_and_never_of_the_future);
	tcase_add_test(good, what_makes_the_same_processes_is_found_from_either_side);
	tcase_add_test(good, rows_are_the_same_by_id_wherever_they_stand);
	tcase_add_test(good, an_empty_configuration_is_one);
	tcase_add_test(good, a_ceiling_stands_before_grants_or_behind_them);
	tcase_add_test(good, a_second_reader_begins_at_the_beginning);
	suite_add_tcase(s, good);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
