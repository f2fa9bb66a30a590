/*
 * The broker's configuration: what the supervisor packs is read whole, checked to the
 * bottom, and every mistake is named by row and field.
 */
#include "broker/config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/authority/set.h"
#include "broker/standing.h"
#include "common/util.h"
#include "tests/unit/json_value.h"

/* What a test can change of a configuration; the rest is good. */
struct draft {
	struct msg_config_broker broker;
	struct msg_config_runtime runtime[2];
	struct msg_config_provider provider[2];
	struct msg_config_tool tool[2];
	struct msg_config_grant grant[2];
	struct msg_config_capability capability[2]; /* one for each grant */
	struct buf input, path, purposes, actions, namespaces, more, output, ceiling;
};

static const uint8_t key[32] = { 1, 2, 3, [31] = 32 };

#define S(text) slice_of(text)

static struct draft *
draft_create(void)
{
	struct draft *d = calloc(1, sizeof(*d));
	int i;

	ck_assert_ptr_nonnull(d);
	d->broker = (struct msg_config_broker){ .namespace = S("default"),
		.authority = S("human:operator"),
		.owner = S("human:owner"),
		.purpose = S("work"),
		.key = { key, 32 },
		.durability = durability_relaxed,
		.maxSteps = 16,
		.maxToolCalls = 17,
		.timeoutMs = 120000,
		.drainGraceMs = 5,
		.killGraceMs = 2000,
		.operator= 1000 };
	for (i = 0; i < 2; i++) {
		d->runtime[i] = (struct msg_config_runtime){ .id = S(i == 0 ? "r0" : "r1"),
			.version = S("1.0.0"),
			.kind = operation_kind_turn };
		d->provider[i] = (struct msg_config_provider){
			.id = S(i == 0 ? "p0" : "p1"), .concurrency = 4, .shared = i == 1
		};
		d->tool[i] = (struct msg_config_tool){ .name = S(i == 0 ? "files.read" : "a"),
			.description = S("reads"),
			.namespace = S("files"),
			.provider = (uint64_t)i,
			.effect = effect_read,
			.idempotent = true,
			.input = json_value(&d->input,
			    "{'type':'object','properties':{'path':{'type':'string'}}}"),
			.action = S("read"),
			.resource = S("workspace"),
			.path = S("{path}") };
		d->grant[i] = (struct msg_config_grant){ .id = S(i == 0 ? "g0" : "g1"),
			.subject = S("agent:r0"),
			.issuer = S("human:operator"),
			.namespace = S("default"),
			.has_issuedAt = true,
			.issuedAt = 7 };
		d->capability[i] = (struct msg_config_capability){ .namespace = S("workspace"),
			.path = json_value(&d->path, "['docs','a']"),
			.scope = scope_descendants,
			.actions = json_value(&d->actions, "['read','list']") };
		/* Both rows share one buffer: what was packed first would be gone. */
		d->tool[0].input = d->tool[i].input;
		d->capability[0].path = d->capability[i].path;
		d->capability[0].actions = d->capability[i].actions;
	}
	return d;
}

static void
draft_destroy(struct draft *d)
{
	buf_finish(&d->input);
	buf_finish(&d->path);
	buf_finish(&d->purposes);
	buf_finish(&d->actions);
	buf_finish(&d->namespaces);
	buf_finish(&d->more);
	buf_finish(&d->output);
	buf_finish(&d->ceiling);
	free(d);
}

static void
draft_pack(const struct draft *d, struct buf *b)
{
	int i, r = 0;

	r |= protocol_notify(b, MSG_config_broker, &d->broker);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_runtime, &d->runtime[i]);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_provider, &d->provider[i]);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_tool, &d->tool[i]);
	for (i = 0; i < 2; i++) {
		r |= protocol_notify(b, MSG_config_grant, &d->grant[i]);
		r |= protocol_notify(b, MSG_config_capability, &d->capability[i]);
	}
	r |= protocol_notify(b, MSG_config_end, &(struct msg_config_end){ 0 });
	ck_assert_int_eq(r, 0);
}

/* Reads `n` bytes as a configuration, out of a memfd whose offset stands at its end. */
static int
read_bytes(const void *p, size_t n, struct config **ret, struct fault *fault, const char **row)
{
	int fd = memfd_create("config", MFD_CLOEXEC), r;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, n), (ssize_t)n);
	r = config_read(fd, ret, fault, row);
	close(fd);
	return r;
}

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

/* Rows by their letter: Broker, Runtime, Provider, Tool, Grant, Capability, End; L: ceiling,
 * x: hello. */
static void
pack_rows(const char *letters, struct buf *b)
{
	struct draft *d = draft_create();
	int r = 0;

	for (; *letters != '\0'; letters++) {
		switch (*letters) {
		case 'B': r |= protocol_notify(b, MSG_config_broker, &d->broker); break;
		case 'R': r |= protocol_notify(b, MSG_config_runtime, &d->runtime[0]); break;
		case 'P': r |= protocol_notify(b, MSG_config_provider, &d->provider[0]); break;
		case 'T': r |= protocol_notify(b, MSG_config_tool, &d->tool[0]); break;
		case 'G': r |= protocol_notify(b, MSG_config_grant, &d->grant[0]); break;
		case 'L':
			r |= protocol_notify(
			    b, MSG_config_ceiling, &(struct msg_config_ceiling){ 0 });
			break;
		case 'C':
			r |= protocol_notify(b, MSG_config_capability, &d->capability[0]);
			break;
		case 'E':
			r |= protocol_notify(b, MSG_config_end, &(struct msg_config_end){ 0 });
			break;
		case 'x':
			r |= protocol_request(
			    b, MSG_hello, 1, &(struct msg_hello){ .protocol = 1 });
			break;
		}
	}
	ck_assert_int_eq(r, 0);
	draft_destroy(d);
}

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
	Suite *s = suite_create("broker_config");
	TCase *good = tcase_create("good"), *bad = tcase_create("mistakes");
	SRunner *r;
	int failed;

	tcase_add_test(good, a_good_configuration_is_read_whole);
	tcase_add_test(good, what_was_read_can_be_decided_with);
	tcase_add_test(good, tools_are_found_by_their_whole_name);
	tcase_add_test(good, what_has_long_been_so_is_told_and_changes_no_digest);
	tcase_add_test(good, since_when_is_said_of_each_row_and_never_of_the_future);
	tcase_add_test(good, an_empty_configuration_is_one);
	tcase_add_test(good, a_ceiling_stands_before_grants_or_behind_them);
	tcase_add_test(good, a_second_reader_begins_at_the_beginning);
	suite_add_tcase(s, good);
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
