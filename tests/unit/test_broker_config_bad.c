/*
 * The broker's configuration is checked to the bottom, and every mistake is named by row and
 * field.
 */
#include <check.h>
#include <errno.h>

#include "tests/unit/broker_config_fixture.h"

/* ---- mistakes ------------------------------------------------------------------------- */

#define MISTAKE(name, change)                                                                  \
	static void name(struct draft *d)                                                      \
	{                                                                                      \
		change;                                                                        \
	}

MISTAKE(bad_authority, d->broker.authority = S("operator"))
MISTAKE(bad_owner, d->broker.owner = S("owner:x"))
MISTAKE(nul_in_purpose, d->broker.purpose = ((struct slice){ (const uint8_t *)"a\0b", 3 }))
MISTAKE(nul_in_id, d->runtime[1].id = ((struct slice){ (const uint8_t *)"r\0", 2 }))
MISTAKE(same_runtime, d->runtime[1].id = S("r0"))
MISTAKE(same_provider, d->provider[1].id = S("p0"))
MISTAKE(same_tool, d->tool[1].name = S("files.read"))
MISTAKE(same_grant, d->grant[1].id = S("g0"))
MISTAKE(no_concurrency, d->provider[1].concurrency = 0)
MISTAKE(no_provider, d->tool[1].provider = 2)
MISTAKE(far_provider, d->tool[1].provider = UINT32_MAX)
MISTAKE(
    bad_schema, d->tool[1].input = json_value(&d->purposes,
		    "{'type':'object','properties':{'path':{'type':'string','pattern':'x)'}}}"))
MISTAKE(any_type, d->tool[1].input = json_value(&d->purposes, "{'properties':{}}"))
MISTAKE(other_argument, d->tool[0].path = S("{pth}"))
MISTAKE(dots, d->tool[0].path = S("docs/../{path}"))
MISTAKE(bad_subject, d->grant[0].subject = S("r0"))
MISTAKE(bad_issuer, d->grant[1].issuer = S("root"))
MISTAKE(never_expires, d->grant[0].has_expiresAt = true)
MISTAKE(empty_window, d->grant[1].has_notBefore = d->grant[1].has_expiresAt = true;
	d->grant[1].notBefore = d->grant[1].expiresAt = 5)
MISTAKE(own_parent, d->grant[1].parent = d->grant[1].id; d->grant[1].has_parent = true)
MISTAKE(too_deep, d->grant[1].delegationDepth = 16; d->grant[1].has_delegationDepth = true)
MISTAKE(no_uses, d->grant[1].has_maxUses = true)
MISTAKE(bad_purposes, d->grant[1].has_purposes = true;
	d->grant[1].purposes = json_value(&d->purposes, "['work',1]"))
MISTAKE(empty_purpose, d->grant[1].has_purposes = true;
	d->grant[1].purposes = json_value(&d->purposes, "['']"))
MISTAKE(bad_path, d->capability[1].path = json_value(&d->purposes, "['docs','..']"))
MISTAKE(long_path, d->capability[1].path = json_value(&d->purposes, "['a/b']"))
MISTAKE(nested_path, d->capability[1].path = json_value(&d->purposes, "[['a']]"))
MISTAKE(no_actions, d->capability[1].actions = json_value(&d->purposes, "[]"))
MISTAKE(nul_action, d->capability[1].actions = json_value(&d->purposes, "['re\\u0000']"))
MISTAKE(bad_output, d->tool[1].has_output = true;
	d->tool[1].output = json_value(&d->purposes, "{'pattern':'x)'}"))
MISTAKE(bad_ceiling, d->tool[0].has_ceiling = true;
	d->tool[0].ceiling = json_value(&d->purposes, "['..']"))
MISTAKE(writes_read, d->tool[1].effect = effect_write;
	d->tool[1].has_readOnly = d->tool[1].readOnly = true)
MISTAKE(reads_destroy, d->tool[1].has_destructive = d->tool[1].destructive = true)
MISTAKE(bad_namespaces, d->broker.has_toolNamespaces = true;
	d->broker.toolNamespaces = json_value(&d->purposes, "[1]"))
MISTAKE(other_owner, d->capability[1].has_owner = true; d->capability[1].owner = S("x"))

static const struct {
	void (*change)(struct draft *d);
	const char *row, *field, *rule;
} mistakes[] = {
	{ bad_authority, "config.broker 1", "authority",
	    "does not begin with human:, agent:, group: or service:" },
	{ bad_owner, "config.broker 1", "owner",
	    "does not begin with human:, agent:, group: or service:" },
	{ nul_in_purpose, "config.broker 1", "purpose", "holds a NUL" },
	{ nul_in_id, "config.runtime 3", "id", "holds a NUL" },
	{ same_runtime, "config.runtime (r0)", "id", "stands twice" },
	{ same_provider, "config.provider (p0)", "id", "stands twice" },
	{ same_tool, "config.tool (files.read)", "name", "stands twice" },
	{ same_grant, "config.grant (g0)", "id", "stands twice" },
	{ no_concurrency, "config.provider 2 (p1)", "concurrency", "is 0" },
	{ no_provider, "config.tool 2 (a)", "provider", "is the index of no provider" },
	{ far_provider, "config.tool 2 (a)", "provider", "is the index of no provider" },
	{ bad_schema, "config.tool 2 (a)", "input",
	    "/properties/path/pattern: has a ) too many" },
	{ any_type, "config.tool 2 (a)", "input", "/: has no type object" },
	{ other_argument, "config.tool 1 (files.read)", "path",
	    "{pth} is not an argument of the tool" },
	{ dots, "config.tool 1 (files.read)", "path", "a segment is . or .." },
	{ bad_output, "config.tool 2 (a)", "output", "/pattern: has a ) too many" },
	{ bad_ceiling, "config.tool 1 (files.read)", "ceiling", "a segment is . or .." },
	{ writes_read, "config.tool 2 (a)", "readOnly", "is true for a write" },
	{ reads_destroy, "config.tool 2 (a)", "destructive", "is true for a read" },
	{ bad_namespaces, "config.broker 1", "toolNamespaces",
	    "has an element that is not a string" },
	{ bad_subject, "config.grant 1 (g0)", "subject",
	    "does not begin with human:, agent:, group: or service:" },
	{ bad_issuer, "config.grant 2 (g1)", "issuer",
	    "does not begin with human:, agent:, group: or service:" },
	{ never_expires, "config.grant 1 (g0)", "expiresAt", "is 0" },
	{ empty_window, "config.grant 2 (g1)", "expiresAt", "is not after notBefore" },
	{ own_parent, "config.grant 2 (g1)", "parent", "is the grant itself" },
	{ too_deep, "config.grant 2 (g1)", "delegationDepth", "is more than 15" },
	{ no_uses, "config.grant 2 (g1)", "maxUses", "is 0" },
	{ bad_purposes, "config.grant 2 (g1)", "purposes",
	    "has an element that is not a string" },
	{ empty_purpose, "config.grant 2 (g1)", "purposes",
	    "has a purpose that is not 1 to 512 bytes of plain text" },
	{ bad_path, "config.grant 2 (g1)", "path", "a segment is . or .." },
	{ long_path, "config.grant 2 (g1)", "path",
	    "a segment holds a separator or control character" },
	{ nested_path, "config.capability 1 (g1)", "path",
	    "has an element that is not a string" },
	{ no_actions, "config.grant 2 (g1)", "actions", "names no action" },
	{ nul_action, "config.capability 1 (g1)", "actions", "holds a NUL" },
	{ other_owner, "config.grant 2 (g1)", "owner",
	    "does not begin with human:, agent:, group: or service:" },
};

START_TEST(a_mistake_is_named_by_row_and_field)
{
	struct draft *d = draft_create();
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;

	mistakes[_i].change(d);
	draft_pack(d, &b);
	ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), -EINVAL);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(row, mistakes[_i].row);
	ck_assert_str_eq(fault.field, mistakes[_i].field);
	ck_assert_str_eq(fault.rule, mistakes[_i].rule);
	buf_finish(&b);
	draft_destroy(d);
}
END_TEST

static const struct {
	const char *rows, *row, *rule;
} orders[] = {
	{ "", "frame 1", "is missing: the last is config.end" },
	{ "E", "config.end 1", "stands before config.broker" },
	{ "RBE", "config.runtime 1", "stands before config.broker" },
	{ "BBE", "config.broker 2", "is the second one" },
	{ "BRPTGC", "frame 7", "is missing: the last is config.end" },
	{ "BTPE", "config.provider 3", "is out of order" },
	{ "BPTRE", "config.runtime 4", "is out of order" },
	{ "BGTE", "config.tool 3", "is out of order" },
	{ "BPTCE", "config.capability 4", "has no grant or ceiling before it" },
	{ "BCGE", "config.capability 2", "has no grant or ceiling before it" },
	{ "BLE", "config.ceiling 1", "names no capability" },
	{ "BLGCE", "config.ceiling 1", "names no capability" },
	{ "BLCLCE", "config.ceiling 1", "is the second one" },
	{ "BLTE", "config.tool 3", "is out of order" },
	{ "BEE", "frame 3", "stands behind config.end" },
	{ "BEGC", "frame 3", "stands behind config.end" },
	{ "BTE", "config.tool 1 (files.read)", "is the index of no provider" },
	{ "BGE", "config.grant 1 (g0)", "names no capability" },
	{ "BGGCE", "config.grant 1 (g0)", "names no capability" },
	{ "BxE", NULL, NULL },
};

START_TEST(rows_stand_in_their_order)
{
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;

	pack_rows(orders[_i].rows, &b);
	ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), -EINVAL);
	ck_assert_ptr_null(c);
	if (orders[_i].row != NULL) {
		ck_assert_str_eq(row, orders[_i].row);
		ck_assert_str_eq(fault.rule, orders[_i].rule);
	}
	buf_finish(&b);
}
END_TEST

START_TEST(a_grant_has_at_most_64_capabilities)
{
	char letters[AUTHORITY_CAPABILITIES_MAX + 5] = "BG";
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;
	size_t i;

	for (i = 0; i < AUTHORITY_CAPABILITIES_MAX; i++)
		strcat(letters, "C");
	pack_rows(letters, &b);
	pack_rows("E", &b);
	ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), 0);
	ck_assert_uint_eq(c->grants[0].ncapabilities, AUTHORITY_CAPABILITIES_MAX);
	config_release(c);
	buf_finish(&b);
	c = NULL;
	pack_rows(letters, &b);
	pack_rows("CE", &b);
	ck_assert_int_eq(read_bytes(b.p, b.n, &c, &fault, &row), -EINVAL);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(row, "config.capability 65 (g0)");
	buf_finish(&b);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
	struct draft *d = draft_create();
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;
	uint8_t *exact;
	size_t n;

	draft_pack(d, &b);
	draft_destroy(d);
	for (n = 0; n < b.n; n++) {
		exact = malloc(n + 1);
		memcpy(exact, b.p, n);
		ck_assert_int_eq(read_bytes(exact, n, &c, &fault, &row), -EINVAL);
		ck_assert_ptr_null(c);
		ck_assert_ptr_nonnull(fault.rule);
		ck_assert_str_ne(row, "");
		free(exact);
	}
	buf_finish(&b);
}
END_TEST

START_TEST(no_flipped_bit_does_harm)
{
	struct draft *d = draft_create();
	struct config *c = NULL;
	struct buf b = { 0 };
	struct fault fault;
	const char *row;
	size_t bit;

	draft_pack(d, &b);
	draft_destroy(d);
	for (bit = 0; bit < b.n * 8; bit += 3) {
		b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (read_bytes(b.p, b.n, &c, &fault, &row) == 0)
			config_release(c);
		else
			ck_assert_ptr_nonnull(fault.rule);
		b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	buf_finish(&b);
}
END_TEST

START_TEST(a_frame_longer_than_a_frame_may_be_is_refused)
{
	const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0x93 };
	const uint8_t over[] = { 0x00, 0x10, 0x00, 0x01, 0x93 };
	struct config *c = NULL;
	struct fault fault;
	const char *row;

	ck_assert_int_eq(read_bytes(huge, sizeof(huge), &c, &fault, &row), -EINVAL);
	ck_assert_str_eq(fault.rule, "is too long");
	ck_assert_int_eq(read_bytes(over, sizeof(over), &c, &fault, &row), -EINVAL);
	ck_assert_str_eq(fault.rule, "is too long");
	ck_assert_str_eq(row, "frame 1");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("broker_config_bad");
	TCase *bad = tcase_create("mistakes");
	SRunner *r;
	int failed;

	tcase_set_timeout(bad, 120);
	tcase_add_loop_test(bad, a_mistake_is_named_by_row_and_field, 0, countof(mistakes));
	tcase_add_loop_test(bad, rows_stand_in_their_order, 0, countof(orders));
	tcase_add_test(bad, a_grant_has_at_most_64_capabilities);
	tcase_add_test(bad, every_truncation_is_refused);
	tcase_add_test(bad, no_flipped_bit_does_harm);
	tcase_add_test(bad, a_frame_longer_than_a_frame_may_be_is_refused);
	suite_add_tcase(s, bad);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
