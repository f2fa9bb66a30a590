/*
 * What a reload changes: every key of the grammar is seen, by its name.
 */
#include "supervisor/config_compare.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static struct conf_namespace a, b;
static char found[4096];

static void
setup(void)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
}

static void
teardown(void)
{
	conf_finish(&a);
	conf_finish(&b);
}

static void
read_one(const char *text, struct conf_namespace *ret)
{
	char err[CONF_ERROR_MAX] = "";

	conf_finish(ret);
	ck_assert_msg(conf_read("c.yaml", text, strlen(text), ret, err) == 0, "%s", err);
}

static void
note(const struct conf_change *c, void *arg)
{
	static const char *const hows[] = { "~", "+", "-" }, *const effects[] = { "", "!", "!!" };
	size_t n = strlen(found);

	ck_assert_ptr_null(arg);
	ck_assert(c->at.line > 0 || c->how == CONF_CHANGED);
	snprintf(found + n, sizeof(found) - n, "%s%s%s%s", n ? " " : "", hows[c->how], c->key,
	    effects[c->effect]);
}

/* "~limits.max_steps +tools[t] ~socket!": changed, new, gone; restart, identity. */
static const char *
compare(const char *before, const char *after)
{
	read_one(before, &a);
	read_one(after, &b);
	found[0] = '\0';
	conf_compare(&a, &b, note, NULL);
	return found;
}

#define HEAD "version: 1\n"

START_TEST(the_same_file_has_no_change)
{
	const char *text = HEAD "authority: human:x\nlimits: { max_steps: 3 }\n"
				"runtimes:\n  - { id: a, command: [x], env: [A=1] }\n"
				"grants:\n  - { id: g, subject: agent:a, issuer: human:x, "
				"namespace: default, capabilities: [ { resource: { namespace: "
				"n, path: a/b, scope: exact }, actions: [r] } ] }\n";

	ck_assert_str_eq(compare(text, text), "");
}
END_TEST

START_TEST(where_a_key_stands_and_how_it_is_written_is_no_change)
{
	ck_assert_str_eq(compare(HEAD "purpose: p\nlimits: { turn_timeout: 60s }\n",
			     HEAD "\n# else\nlimits:\n  turn_timeout: 1m\npurpose: \"p\"\n"),
	    "");
	ck_assert_str_eq(compare(HEAD, HEAD "durability: full\nnamespace: default\n"), "");
}
END_TEST

/* Each key of the root and of limits, once. */
START_TEST(every_key_of_the_root_is_seen)
{
	static const struct {
		const char *line, *change;
	} rows[] = {
		{ "namespace: other\n", "~namespace!!" },
		{ "socket: s\n", "~socket!" },
		{ "authority: human:x\nowner: human:operator\n", "~authority!!" },
		{ "owner: human:x\n", "~owner!!" },
		{ "purpose: x\n", "~purpose" },
		{ "durability: relaxed\n", "~durability!" },
		{ "revocation: next-turn\n", "~revocation!" },
		{ "tool_namespaces: []\n", "~tool_namespaces" },
		{ "limits: { turn_timeout: 1s }\n", "~limits.turn_timeout" },
		{ "limits: { max_tool_calls: 5 }\n", "~limits.max_tool_calls" },
		{ "limits: { drain_grace: 5s }\n", "~limits.drain_grace" },
		{ "limits: { kill_grace: 5s }\n", "~limits.kill_grace" },
		{ "limits: { shutdown_grace: 5s }\n", "~limits.shutdown_grace" },
		{ "profiles:\n  - { id: p, base: native }\n", "+profiles[p]" },
		{ "runtimes:\n  - { id: a, command: [x] }\n", "+runtimes[a]" },
		{ "providers:\n  - { id: p, command: [x] }\n", "+providers[p]" },
		{ "sessions: { max: 5 }\n", "~sessions.max" },
		{ "sessions: { queue: 5 }\n", "~sessions.queue" },
		{ "sessions: { operation_timeout: 5s }\n", "~sessions.operation_timeout" },
		{ "retention: { mode: none }\n", "~retention.mode!" },
		{ "retention: { operation: 5MiB }\n", "~retention.operation" },
		{ "retention: { total: 5MiB }\n", "~retention.total" },
		{ "retention: { time: 5s }\n", "~retention.time" },
		{ "principals:\n  - { id: human:a, uids: [5] }\n", "+principals[human:a]" },
		{ "gateway: { listen: [{ socket: s }] }\n", "~gateway.listen!" },
		{ "gateway: { listen: [{ socket: s }], connections: 5, ping_interval: 5s, "
		  "monitor: '127.0.0.1:0' }\n",
		    "~gateway.listen! ~gateway.monitor! ~gateway.connections "
		    "~gateway.ping_interval" },
		{ "ceiling:\n  - { resource: { namespace: n, path: ., scope: exact }, actions: [r] "
		  "}\n", "~ceiling" },
	};
	char text[512];
	size_t i;

	for (i = 0; i < countof(rows); i++) {
		snprintf(text, sizeof(text), HEAD "%s", rows[i].line);
		ck_assert_str_eq(compare(HEAD, text), rows[i].change);
	}
}
END_TEST

/* What has a consequence of its own is no word that the grammar has forgotten. */
START_TEST(what_needs_a_restart_is_kept)
{
	read_one(HEAD "socket: one\n", &a);
	read_one(HEAD "socket: two\ndurability: relaxed\nrevocation: next-turn\npurpose: p\n", &b);
	ck_assert_int_eq(conf_keep(&b, &a), 0);
	found[0] = '\0';
	conf_compare(&a, &b, note, NULL);
	ck_assert_str_eq(found, "~purpose");
	ck_assert_str_eq(strrchr(b.socket, '/') ? strrchr(b.socket, '/') + 1 : b.socket, "one");
	read_one(HEAD, &a);
	ck_assert_int_eq(conf_keep(&b, &a), 0);
	ck_assert_ptr_null(b.socket);
}
END_TEST

/* Its sockets are those that it was born with, whatever the file says now. */
START_TEST(a_gateway_keeps_its_listeners_until_a_restart)
{
	read_one(HEAD "gateway: { listen: [{ address: '127.0.0.1:1', tls: { certificate: c, key: k, "
		      "clients: true } }, { socket: s }], monitor: /m }\n", &a);
	read_one(HEAD "gateway: { listen: [{ socket: t }], requests: 5 }\n"
		      "retention: { mode: durable }\n", &b);
	ck_assert_int_eq(conf_keep(&b, &a), 0);
	ck_assert(b.has_gateway && b.gateway.listen.n == 2);
	ck_assert(b.gateway.listen.v[0].has_tls && b.gateway.listen.v[0].tls.clients);
	ck_assert_str_eq(b.gateway.listen.v[0].tls.key, a.gateway.listen.v[0].tls.key);
	ck_assert_str_eq(b.gateway.monitor, "/m");
	ck_assert_uint_eq(b.gateway.requests, 5);
	found[0] = '\0';
	conf_compare(&a, &b, note, NULL);
	ck_assert_str_eq(found, "~gateway.requests");
	/* None that was not there comes, and none that was there goes. */
	read_one(HEAD, &a);
	read_one(HEAD "gateway: { listen: [{ socket: t }] }\n", &b);
	ck_assert_int_eq(conf_keep(&b, &a), 0);
	ck_assert(!b.has_gateway && b.gateway.listen.n == 0);
	read_one(HEAD "gateway: { listen: [{ socket: t }] }\n", &a);
	read_one(HEAD, &b);
	ck_assert_int_eq(conf_keep(&b, &a), 0);
	ck_assert(b.has_gateway && b.gateway.listen.n == 1);
}
END_TEST

/* One word of an element, whatever its type and however deep. */
START_TEST(every_word_of_an_element_is_seen)
{
	static const char *const runtimes[] = { "", "version: 2", "env: [A=1]", "env: [A=2]",
		"env: [A=1, B=1]", "memory: 1GiB", "cpu: 50", "pids: 9", "warm: 1", "tmp: 1MiB",
		"profile: jit", "app: /", "workspace: true", "metadata: { a: 1 }", "metadata: { a: 2 }",
		"mounts: [ { source: /usr, target: /x } ]",
		"mounts: [ { source: /usr, target: /y } ]",
		"mounts: [ { source: /usr, target: /x, writable: true } ]" };
	char before[256], after[256];
	size_t i, j;

	for (i = 0; i < countof(runtimes); i++)
		for (j = 0; j < countof(runtimes); j++) {
			snprintf(before, sizeof(before),
			    HEAD "runtimes:\n  - id: a\n    command: [x]\n    %s\n", runtimes[i]);
			snprintf(after, sizeof(after),
			    HEAD "runtimes:\n  - id: a\n    command: [x]\n    %s\n", runtimes[j]);
			ck_assert_str_eq(compare(before, after), i == j ? "" : "~runtimes[a]");
		}
}
END_TEST

#define GRANT(id, more)                                                                        \
	"  - { id: " id ", subject: agent:a, issuer: human:operator, namespace: default, "     \
	"capabilities: [ { resource: { namespace: n, path: p, scope: exact }, actions: [r] } " \
	"]" more " }\n"

START_TEST(elements_go_by_their_id)
{
	ck_assert_str_eq(
	    compare(HEAD "grants:\n" GRANT("a", "") GRANT("b", "") GRANT("c", ""),
		HEAD "grants:\n" GRANT("d", "") GRANT("c", ", constraints: { maxUses: 1 }")
		    GRANT("a", "")),
	    "-grants[b] +grants[d] ~grants[c]");
	ck_assert_str_eq(compare(HEAD "grants:\n" GRANT("a", ""), HEAD), "-grants[a]");
	/* No uses, and nothing said of uses. */
	ck_assert_str_eq(compare(HEAD "grants:\n" GRANT("a", ""),
			     HEAD "grants:\n" GRANT("a", ", constraints: { expiresAt: "
							 "2030-01-01T00:00:00Z }")),
	    "~grants[a]");
}
END_TEST

#define PROFILES                                                                                \
	"profiles:\n  - { id: base, base: native, pids: 9 }\n"                                 \
	"  - { id: mine, base: base }\n  - { id: other, base: native, pids: 7 }\n"
#define PROVIDERS "providers:\n  - { id: q, command: [x] }\n  - { id: p, command: [x] }\n"
#define RUNTIMES                                                                                \
	"runtimes:\n  - { id: z, command: [x] }\n  - { id: a, command: [x], profile: mine }\n"

START_TEST(a_row_makes_the_same_processes_only_with_the_same_profile)
{
	static const struct {
		const char *after;
		size_t runtime, provider; /* where the second of each is found */
		const char *why;
	} rows[] = {
		{ HEAD PROFILES PROVIDERS RUNTIMES, 1, 1, "nothing is different" },
		{ HEAD "purpose: x\nlimits: { max_steps: 3 }\n" PROFILES PROVIDERS RUNTIMES
			"grants: []\ntools:\n  - { name: t, provider: p, namespace: n, effect: "
			"read, description: d, input: { type: object }, requires: { action: r, "
			"resource: { namespace: n, path: x } } }\n",
		    1, 1, "nothing that a process is made of" },
		{ HEAD PROFILES "providers:\n  - { id: p, command: [x] }\n"
				"runtimes:\n  - { id: a, command: [x], profile: mine }\n",
		    0, 0, "it stands elsewhere" },
		{ HEAD "profiles:\n  - { id: base, base: native, pids: 8 }\n"
		       "  - { id: mine, base: base }\n" PROVIDERS RUNTIMES,
		    SIZE_MAX, 1, "the base of its profile is another" },
		{ HEAD "profiles:\n  - { id: base, base: native, pids: 9 }\n"
		       "  - { id: mine, base: base, tmp: 1MiB }\n" PROVIDERS RUNTIMES,
		    SIZE_MAX, 1, "its profile is another" },
		{ HEAD "profiles:\n  - { id: base, base: native, pids: 9 }\n"
		       "  - { id: mine, base: base }\n" PROVIDERS RUNTIMES,
		    1, 1, "another profile is gone" },
		{ HEAD PROFILES "providers:\n  - { id: p, command: [x], scope: shared }\n"
				"runtimes:\n  - { id: a, command: [x], profile: mine, env: [A=1] }\n",
		    SIZE_MAX, SIZE_MAX, "the rows are others" },
		{ HEAD PROFILES "providers:\n  - { id: r, command: [x] }\n"
				"runtimes:\n  - { id: b, command: [x], profile: mine }\n",
		    SIZE_MAX, SIZE_MAX, "ids of nobody" },
		{ HEAD, SIZE_MAX, SIZE_MAX, "all are gone" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		read_one(HEAD PROFILES PROVIDERS RUNTIMES, &a);
		read_one(rows[i].after, &b);
		ck_assert_msg(conf_same_runtime(&a, 1, &b) == rows[i].runtime, "%s", rows[i].why);
		ck_assert_msg(
		    conf_same_provider(&a, 1, &b) == rows[i].provider, "%s", rows[i].why);
	}
}
END_TEST

START_TEST(what_no_file_holds_is_no_change)
{
	const struct conf_section *s = conf_list_section(&conf_root, "grants");
	struct conf_grant *g;

	read_one(HEAD, &a);
	read_one(HEAD, &b);
	g = conf_add(s, (struct conf_list *)(void *)&b.grants);
	ck_assert_ptr_nonnull(g);
	g->id = strdup("run");
	found[0] = '\0';
	conf_compare(&a, &b, note, NULL);
	conf_compare(&b, &a, note, NULL);
	ck_assert_str_eq(found, "");
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("config_compare");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, the_same_file_has_no_change);
	tcase_add_test(tc, where_a_key_stands_and_how_it_is_written_is_no_change);
	tcase_add_test(tc, every_key_of_the_root_is_seen);
	tcase_add_test(tc, what_needs_a_restart_is_kept);
	tcase_add_test(tc, a_gateway_keeps_its_listeners_until_a_restart);
	tcase_add_test(tc, every_word_of_an_element_is_seen);
	tcase_add_test(tc, elements_go_by_their_id);
	tcase_add_test(tc, a_row_makes_the_same_processes_only_with_the_same_profile);
	tcase_add_test(tc, what_no_file_holds_is_no_change);
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
