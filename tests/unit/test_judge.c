/*
 * What a call is told, what grant.why says beforehand, and what the contract says: one answer
 * and one code, over random grant graphs (TU-13, TU-33, TU-46).
 *
 * AUTHORITY_PAIRS=n looks at n pairs of a set and a call instead of 100000.
 */
#include "broker/digest.h"
#include "broker/judge.h"
#include "tests/unit/authority_world.h"
#include "tests/unit/json_value.h"

static struct digest *digest;
static struct schema *schema;
static struct buf arguments[2]; /* of calls; what is bound to one is bound to the first */

static void
setup(void)
{
	static const uint8_t key[32] = { 7 };
	struct buf b = { 0 };
	char err[256];

	digest = digest_create(key);
	ck_assert_ptr_nonnull(digest);
	ck_assert_int_eq(
	    schema_compile(json_value(&b, "{'type':'object','required':['n'],"
					  "'properties':{'n':{'type':'integer'}}}"),
		&schema, err, sizeof(err)),
	    0);
	buf_finish(&b);
	for (int i = 0; i < 2; i++) {
		json_value(&arguments[i], i == 0 ? "{'n':1}" : "{'n':2}");
		ck_assert_int_eq(
		    digest_value(digest, buf_slice(&arguments[i]), digests[i]), 0);
	}
}

static void
teardown(void)
{
	schema_destroy(schema);
	digest_destroy(digest);
	buf_finish(&arguments[0]);
	buf_finish(&arguments[1]);
}

/* A tool whose every call needs what `r` says, in a configuration that has no other. */
static void
declare(const struct requirement *r, struct config_tool *tool, struct config *config)
{
	static const struct config_tool *by_name[1];
	char path[64] = "", err[256];
	size_t i;

	for (i = 0; i < r->path.n; i++)
		sprintf(path + strlen(path), "%s%s", i > 0 ? "/" : "", r->path.segment[i]);
	*tool = (struct config_tool){ .name = r->tool,
		.namespace = "tools",
		.schema = schema,
		.action = r->action,
		.resource = r->namespace };
	ck_assert_msg(requirement_compile(path, schema, &tool->path, err, sizeof(err)) == 0,
	    "%s", err);
	by_name[0] = tool;
	*config = (struct config){ .tools = tool, .ntools = 1, .by_name = by_name };
}

static unsigned
pairs(void)
{
	const char *text = getenv("AUTHORITY_PAIRS");

	return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 100000;
}

START_TEST(a_call_and_the_question_get_the_answer_of_the_model)
{
	unsigned round, n = pairs(), allowed = 0, offered = 0, exact = 0;
	unsigned seen[VERDICT_authority_unavailable + 1] = { 0 };
	const char *segments[MEMBERS_MAX], *cause;
	const struct grant *grant;
	enum chain_fault chain;
	enum verdict want, offer;
	struct judgement call, why;
	struct config_tool tool;
	struct config config;
	struct requirement r;
	struct slice said;
	struct world w;

	seed = 0x51ed270b9f3a1c2du;
	for (round = 0; round < n; round++) {
		random_world(&w);
		r = random_requirement(segments);
		r.owner = NULL; /* a tool names none (TU-37) */
		if (r.tool == NULL)
			r.tool = tools[0];
		said = buf_slice(&arguments[r.digest == digests[1]]);
		declare(&r, &tool, &config);
		want = model_decide(&w, &r, &grant, &chain);
		offer = judge_offer(w.set, &w.ctx, &tool, w.now_ms);
		judge_call(w.set, digest, &w.ctx, &tool, said, w.now_ms, &call);
		judge_beforehand(&config, w.set, digest, &w.ctx, slice_of(r.tool), said,
		    w.now_ms, &why, &cause);
		ck_assert(call.decided && why.decided);
		ck_assert_msg(call.decision.verdict == want && call.decision.grant == grant &&
				  call.decision.chain == chain &&
				  strcmp(call.code, verdict_name(want)) == 0,
		    "round %u: %s, not %s", round, call.code, verdict_name(want));
		ck_assert_int_eq(call.status == call_status_succeeded, want == VERDICT_allowed);
		/* What the turn is not offered it cannot call, whatever it is. */
		if (offer == VERDICT_allowed) {
			ck_assert_str_eq(why.code, call.code);
			ck_assert_int_eq(why.status, call.status);
			ck_assert(want == VERDICT_allowed
				      ? cause == NULL
				      : strcmp(cause, decision_cause(&call.decision)) == 0);
		} else {
			ck_assert_int_ne(want, VERDICT_allowed);
			ck_assert_str_eq(why.code, "tool_unavailable");
			ck_assert_int_eq(why.status, call_status_denied);
			ck_assert_str_eq(cause, verdict_name(offer));
		}
		ck_assert_ptr_eq(why.decision.grant, call.decision.grant);
		ck_assert_ptr_eq(why.decision.closest, call.decision.closest);
		allowed += want == VERDICT_allowed;
		offered += offer == VERDICT_allowed;
		exact += want == VERDICT_allowed && grant->tool != NULL;
		seen[want]++;
		judge_finish(&call);
		judge_finish(&why);
		requirement_destroy(tool.path);
		world_end(&w);
	}
	ck_assert_uint_ge(allowed, n / 40);
	ck_assert_uint_ge(offered - allowed, n / 40);
	ck_assert_uint_ge(n - offered, n / 40);
	ck_assert_uint_ge(exact, n / 1000);
	ck_assert_uint_ge(seen[VERDICT_grant_exhausted], n / 500);
	ck_assert_uint_ge(seen[VERDICT_no_matching_grant], n / 20);
	ck_assert_uint_ge(seen[VERDICT_host_policy_denied], n / 1000);
	ck_assert_uint_ge(seen[VERDICT_host_policy_unavailable], n / 1000);
	ck_assert_uint_ge(seen[VERDICT_delegation_chain_invalid], n / 100);
	ck_assert_uint_ge(seen[VERDICT_delegation_chain_unverified], n / 500);
}
END_TEST

/* What is refused before authority is asked, in the kernel's order, names no value (D-12). */
START_TEST(what_is_no_call_is_refused_before_authority)
{
	static const struct {
		const char *arguments, *code;
		enum call_status status;
	} rows[] = {
		{ "{'n':'secret'}", "invalid_tool_arguments", call_status_failed },
		{ "{}", "invalid_tool_arguments", call_status_failed },
		{ "{'n':1}", "no_matching_grant", call_status_denied },
	};
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	struct context ctx = admitted(set);
	struct requirement r = read_docs_a;
	struct config_tool tool;
	struct config config;
	struct judgement j;
	struct buf b = { 0 };
	const char *cause;

	r.tool = "t";
	declare(&r, &tool, &config);
	for (size_t i = 0; i < countof(rows); i++) {
		judge_call(set, digest, &ctx, &tool, json_value(&b, rows[i].arguments), NOW, &j);
		ck_assert_str_eq(j.code, rows[i].code);
		ck_assert_int_eq(j.status, rows[i].status);
		ck_assert_int_eq(j.decided, i == 2);
		ck_assert_ptr_null(i < 2 ? strstr(j.why, "secret") : NULL);
		judge_finish(&j);
	}
	/* A tool that does not exist, and one that nobody may use. */
	judge_beforehand(&config, set, digest, &ctx, slice_of("none"),
	    buf_slice(&arguments[0]), NOW, &j, &cause);
	ck_assert_str_eq(j.code, "tool_unavailable");
	ck_assert_str_eq(cause, "not_registered");
	ck_assert(!j.decided);
	judge_finish(&j);
	judge_beforehand(&config, set, digest, &ctx, slice_of("t"), buf_slice(&arguments[0]),
	    NOW, &j, &cause);
	ck_assert_str_eq(j.code, "tool_unavailable");
	ck_assert_str_eq(cause, "no_matching_grant");
	judge_finish(&j);
	buf_finish(&b);
	requirement_destroy(tool.path);
	grant_set_destroy(set);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("judge");
	TCase *t = tcase_create("judge");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_call_and_the_question_get_the_answer_of_the_model);
	tcase_add_test(t, what_is_no_call_is_refused_before_authority);
	tcase_set_timeout(t, 300);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
