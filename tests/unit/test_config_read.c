/* config: what is read, what stands for what is not said, and what the peers get. */
#include <check.h>

#include "common/util.h"
#include "common/walk.h"
#include "tests/unit/config_fixture.h"

START_TEST(everything_is_read)
{
	ck_assert_msg(parse(whole) == 0, "%s", err);
	ck_assert_str_eq(c.owner, "human:boss");
	ck_assert_uint_eq(c.limits.turn_timeout, 1500);
	ck_assert_uint_eq(c.limits.kill_grace, 0);
	/* TU-32: the call budget's default is the step budget. */
	ck_assert_uint_eq(c.limits.max_tool_calls, 3);
	ck_assert_str_eq(c.runtimes.v[0].app, "/dir/agents");
	ck_assert_str_eq(c.runtimes.v[0].mounts.v[0].source, "/dir/../x");
	ck_assert_str_eq(c.runtimes.v[0].command.v[3], "6");
	ck_assert_str_eq(c.runtimes.v[0].version, "1.0");
	ck_assert_uint_eq(c.runtimes.v[0].memory, 64u << 20);
	ck_assert_uint_eq(c.providers.n, 2);
	ck_assert_str_eq(c.providers.v[1].root, "/srv/x");
	/* The one that was listed, and those that files brings. */
	ck_assert_uint_eq(c.tools.n, 10);
	ck_assert_str_eq(c.tools.v[0].description, "two\nlines");
	ck_assert_str_eq(c.tools.v[1].name, "files.list");
	ck_assert_str_eq(c.tools.v[1].requires.resource.namespace, "workspace");
	ck_assert_uint_eq(c.grants.v[0].constraints.maxUses, 3);
	ck_assert_uint_eq(c.grants.v[0].constraints.delegationDepth, 4);
	ck_assert_uint_eq(c.grants.v[0].constraints.notBefore, 1798761600000);
	ck_assert_str_eq(c.grants.v[1].parent, "g");
	ck_assert_uint_eq(c.grants.v[1].constraints.delegationDepth, 2);
	ck_assert_uint_eq(c.revocation, revocation_mode_next_turn);
	ck_assert(c.has_tool_namespaces && c.tool_namespaces.n == 1);
	ck_assert_uint_eq(c.ceiling.n, 1);
	ck_assert_str_eq(c.ceiling.v[0].resource.path.v[1], "x");
	ck_assert(c.tools.v[0].has_output && c.runtimes.v[0].has_metadata);
	ck_assert(!c.tools.v[0].annotations.readOnly && c.tools.v[1].annotations.readOnly);
}
END_TEST

START_TEST(what_is_not_said_is_none)
{
	ck_assert_msg(parse("version: 1\n") == 0, "%s", err);
	ck_assert_str_eq(c.namespace, "default");
	ck_assert_str_eq(c.authority, "human:operator");
	ck_assert_uint_eq(c.durability, durability_full);
	ck_assert_uint_eq(c.revocation, revocation_mode_immediate); /* D-7 */
	ck_assert(!c.has_tool_namespaces && c.ceiling.n == 0);
	ck_assert_uint_eq(c.limits.turn_timeout, 120000);
	ck_assert_uint_eq(c.limits.max_steps, 16);
	ck_assert_uint_eq(c.limits.drain_grace, 0);
	ck_assert_uint_eq(c.runtimes.n + c.providers.n + c.tools.n + c.grants.n, 0);
}
END_TEST

START_TEST(listed_tools_are_all_a_builtin_provider_offers)
{
	ck_assert_msg(
	    parse("version: 1\n" FILES
		  "tools: [{ name: files.read, provider: files, namespace: files, "
		  "effect: read, input: { properties: { path: {} } }, requires: { "
		  "action: read, resource: { namespace: w, path: \"{path}\" } } }]\n") == 0,
	    "%s", err);
	ck_assert_uint_eq(c.tools.n, 1);
}
END_TEST

START_TEST(the_root_of_a_namespace_is_said_with_a_dot_or_an_empty_list)
{
	static const char *const paths[] = { ".", "[]" };
	char text[600];
	size_t i;

	for (i = 0; i < countof(paths); i++) {
		snprintf(text, sizeof(text),
		    "version: 1\ngrants: [{ id: g, subject: agent:a, issuer: human:o, "
		    "namespace: n, "
		    "capabilities: [{ resource: { namespace: w, path: %s, scope: exact }, "
		    "actions: [\"*\"] }] }]\n",
		    paths[i]);
		ck_assert_msg(parse(text) == 0, "%s", err);
		ck_assert_uint_eq(c.grants.v[0].capabilities.v[0].resource.path.n, 0);
	}
}
END_TEST

/* A schema is a value of JSON, whichever way it is written. */
START_TEST(values_are_packed_by_their_type)
{
	static const char text[] =
	    "version: 1\n" PROVIDER "tools: [{ name: t, provider: p, namespace: n, effect: "
				    "read, input: { a: null, b: ~, "
	    "c: true, d: \"true\", e: 5, f: -5, g: 1.5, h: no, 5: five, i: [1, {}], j: '5' }, "
	    "requires: { action: a, resource: { namespace: w, path: a } } }]\n";
	static const struct {
		const char *key;
		enum value_type type;
	} expected[] = { { "a", VALUE_NIL }, { "b", VALUE_NIL }, { "c", VALUE_BOOL },
		{ "d", VALUE_STR }, { "e", VALUE_UINT }, { "f", VALUE_INT },
		{ "g", VALUE_FLOAT }, { "h", VALUE_STR }, { "5", VALUE_STR },
		{ "i", VALUE_ARRAY }, { "j", VALUE_STR } };
	struct slice schema;
	struct value v;
	size_t i;

	ck_assert_msg(parse(text) == 0, "%s", err);
	schema = (struct slice){ c.tools.v[0].input.p, c.tools.v[0].input.n };
	for (i = 0; i < countof(expected); i++) {
		ck_assert(value_get(schema, expected[i].key, &v));
		ck_assert_int_eq(v.type, expected[i].type);
	}
}
END_TEST

static char *
show(void)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	ck_assert_ptr_nonnull(f);
	conf_show(f, &c);
	fclose(f);
	return text;
}

static const char served[] =
    "version: 1\nruntimes:\n  - { id: shell, builtin: command }\n"
    "  - { id: agent, command: [x], workspace: true, workspace_execute: true,\n"
    "      profile: jit }\n"
    "providers: [{ id: files, builtin: files, workspace: true }]\n"
    "sessions: { max: 2000, queue: 4, operation_timeout: 1h }\n"
    "retention: { mode: durable, operation: 64KiB, total: 1GiB, time: 90s }\n"
    "principals:\n"
    "  - { id: human:alice, runtimes: ['*'], operator: true, sessions: 3, connections: 7,\n"
    "      tokens: [" DIGEST_62 "0f, " DIGEST_62 "1F], certificates: [" DIGEST_62 "0f] }\n"
    "  - { id: service:ci, uids: [1001, 0], runtimes: [shell, agent] }\n"
    "gateway:\n  monitor: /run/m.sock\n  connections: 5\n  requests: 6\n  header: 2KiB\n"
    "  body: 3KiB\n  header_timeout: 1s\n  idle_timeout: 2s\n  write_timeout: 3s\n"
    "  ping_interval: 4s\n  listen:\n"
    "    - { address: '0.0.0.0:8443', tls: { certificate: c.pem, key: /k.pem, clients: true } }\n"
    "    - { address: '[::1]:0' }\n    - { address: '127.0.0.9:0' }\n    - { socket: http.sock }\n";

START_TEST(what_clients_need_is_read)
{
	ck_assert_msg(parse(served) == 0, "%s", err);
	/* Implied by what it is. */
	ck_assert(c.runtimes.v[0].workspace);
	ck_assert_str_eq(c.runtimes.v[0].profile, "interpreter");
	ck_assert(!c.runtimes.v[0].workspace_execute && c.runtimes.v[1].workspace_execute);
	ck_assert(c.providers.v[0].workspace && !c.providers.v[0].root);
	ck_assert_uint_eq(c.sessions.max, 2000);
	ck_assert_uint_eq(c.sessions.operation_timeout, 3600000);
	ck_assert_uint_eq(c.retention.mode, retention_durable);
	ck_assert_uint_eq(c.retention.total, 1u << 30);
	ck_assert(c.principals.v[0].operator&& !c.principals.v[1].operator);
	ck_assert_uint_eq(c.principals.v[1].sessions, 64);
	ck_assert(c.has_gateway && c.gateway.listen.n == 4);
	ck_assert(c.gateway.listen.v[0].tls.clients && !c.gateway.listen.v[1].has_tls);
	ck_assert_str_eq(c.gateway.listen.v[0].tls.certificate, "/dir/c.pem");
	ck_assert_str_eq(c.gateway.listen.v[3].socket, "/dir/http.sock");
	ck_assert_uint_eq(c.gateway.ping_interval, 4000);
}
END_TEST

/* What a daemon that says nothing of it serves: nobody but the operator, and no network. */
START_TEST(without_a_word_there_is_no_gateway_and_no_principal)
{
	ck_assert_msg(parse("version: 1\n" RUNTIME) == 0, "%s", err);
	ck_assert(!c.has_gateway && c.principals.n == 0);
	ck_assert(!c.runtimes.v[0].workspace);
	ck_assert_uint_eq(c.sessions.max, 1024);
	ck_assert_uint_eq(c.sessions.queue, 32);
	ck_assert_uint_eq(c.sessions.operation_timeout, 300000);
	ck_assert_uint_eq(c.retention.mode, retention_memory);
	ck_assert_uint_eq(c.gateway.body, 1u << 20);
}
END_TEST

static const char *const shown[] = { whole, "version: 1\n", "version: 1\n" FILES, served,
	"version: 1\nnamespace: \"yes\"\npurpose: \"\\\"\\\\ #\"\n" RUNTIME };

START_TEST(what_is_shown_reads_back_as_the_same)
{
	cleanup_free char *first = NULL, *second = NULL;

	ck_assert_msg(parse(shown[_i]) == 0, "%s", err);
	first = show();
	ck_assert_msg(parse(first) == 0, "%s in:\n%s", err, first);
	second = show();
	ck_assert_str_eq(first, second);
}
END_TEST

/* Every field's range fits its row of protocol.def: what can be read can be packed. */
START_TEST(what_was_read_can_be_packed)
{
	static const uint8_t key[PACK_KEY] = { 1 };
	struct pack_facts facts = {
		.kind = operation_kind_turn, .timeout_ms = 1, .key = key, .daemon = true
	};
	struct buf b = { 0 };
	size_t n;
	int fd;

	ck_assert_msg(parse(shown[_i]) == 0, "%s", err);
	ck_assert_int_eq(pack_config(&b, &c, &facts), 0);
	fd = pack_memfd(&b);
	ck_assert_int_ge(fd, 0);
	n = b.n;
	memset(b.p, 0, b.n);
	ck_assert_int_eq(read(fd, b.p, n), (ssize_t)n);
	/* Sealed: nobody changes what the broker will read. */
	ck_assert_int_lt(write(fd, "x", 1), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	close(fd);
	buf_finish(&b);
}
END_TEST

/* ---- what the peers get ------------------------------------------------------------ */

static struct message messages[64];
static size_t nmessages;

/* Takes the frames apart, as their reader would. */
static void
unpack(const struct buf *b, enum role to)
{
	const uint8_t *p = b->p, *end = b->p + b->n;
	struct fault fault;
	uint32_t n;

	for (nmessages = 0; p < end; p += n) {
		n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
		p += 4;
		ck_assert_uint_lt(nmessages, countof(messages));
		ck_assert_int_eq(
		    protocol_decode(p, n, ROLE_SUPERVISOR, to, LINK_NEW, NULL, NULL,
			&messages[nmessages], &fault),
		    0);
		nmessages++;
	}
}

static const struct message *
message_of(enum msg_type type, size_t nth)
{
	size_t i;

	for (i = 0; i < nmessages; i++)
		if (messages[i].type == type && nth-- == 0)
			return &messages[i];
	return NULL;
}

START_TEST(a_broker_learns_who_may_be_a_client_by_digests)
{
	static const uint8_t key[PACK_KEY] = { 1 };
	struct pack_facts facts = { .key = key, .daemon = true };
	struct value list, v;
	struct buf b = { 0 };
	struct slice s;

	ck_assert_msg(parse(served) == 0, "%s", err);
	ck_assert_int_eq(pack_config(&b, &c, &facts), 0);
	unpack(&b, ROLE_BROKER);
	ck_assert_uint_eq(message_of(MSG_config_broker, 0)->u.config_broker.sessions, 2000);
	ck_assert(message_of(MSG_config_runtime, 0)->u.config_runtime.builtin);
	ck_assert_int_eq(message_of(MSG_config_runtime, 0)->u.config_runtime.kind,
	    operation_kind_command);
	ck_assert_int_eq(
	    message_of(MSG_config_runtime, 1)->u.config_runtime.kind, operation_kind_turn);
	ck_assert(message_of(MSG_config_provider, 0)->u.config_provider.workspace);
	s = message_of(MSG_config_principal, 0)->u.config_principal.tokens;
	list = value_next(&s);
	ck_assert_uint_eq(list.count, 2);
	v = value_next(&s);
	ck_assert(v.type == VALUE_BIN && v.bytes.n == 32);
	ck_assert_uint_eq(v.bytes.p[1], 0x11);
	ck_assert_uint_eq(v.bytes.p[31], 0x0f);
	v = value_next(&s);
	ck_assert_uint_eq(v.bytes.p[31], 0x1f);
	/* A private run has one client, and no session is acquired there. */
	buf_finish(&b);
	facts.daemon = false;
	ck_assert_int_eq(pack_config(&b, &c, &facts), 0);
	unpack(&b, ROLE_BROKER);
	ck_assert_ptr_null(message_of(MSG_config_principal, 0));
	ck_assert(!message_of(MSG_config_broker, 0)->u.config_broker.has_sessions);
	buf_finish(&b);
}
END_TEST

/* Two files of `mode` beside a configuration that names them. */
static void
write_pems(char dir[32], const char *key, mode_t mode)
{
	static const char *const names[] = { "cert.pem", "key.pem" };
	char path[64], text[300];
	size_t i;
	FILE *f;

	strcpy(dir, "/tmp/caisson-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	for (i = 0; i < countof(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		f = fopen(path, "w");
		ck_assert_ptr_nonnull(f);
		fputs(i ? key : "CERTIFICATE", f);
		fclose(f);
		ck_assert_int_eq(chmod(path, i ? mode : 0644), 0);
	}
	snprintf(text, sizeof(text),
	    "version: 1\ngateway:\n  monitor: '127.0.0.1:0'\n  listen:\n"
	    "    - { address: '127.0.0.1:0', tls: { certificate: %s/cert.pem, key: %s/key.pem, "
	    "clients: true } }\n    - { socket: /s }\n",
	    dir, dir);
	ck_assert_msg(parse(text) == 0, "%s", err);
}

static void
remove_pems(const char *dir)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/cert.pem", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/key.pem", dir);
	unlink(path);
	rmdir(dir);
}

START_TEST(a_gateway_gets_its_listeners_in_the_order_of_their_sockets)
{
	const struct message *m;
	struct buf b = { 0 };
	char dir[32];

	write_pems(dir, "SECRET", 0640);
	ck_assert_int_eq(conf_resolve(&c, "t.yaml", err), 0);
	ck_assert_msg(pack_gateway(&b, &c, "t.yaml", err) == 0, "%s", err);
	unpack(&b, ROLE_GATEWAY);
	ck_assert_uint_eq(nmessages, 5);
	ck_assert_int_eq(messages[0].type, MSG_config_gateway);
	ck_assert_uint_eq(messages[0].u.config_gateway.headerTimeoutMs, 10000);
	m = message_of(MSG_config_listener, 0);
	ck_assert(m->u.config_listener.has_key && m->u.config_listener.askCertificate);
	ck_assert(slice_is(m->u.config_listener.key, "SECRET"));
	ck_assert(slice_is(m->u.config_listener.certificate, "CERTIFICATE"));
	m = message_of(MSG_config_listener, 1);
	ck_assert(!m->u.config_listener.has_key && m->u.config_listener.kind == listener_kind_public);
	m = message_of(MSG_config_listener, 2);
	ck_assert(!m->u.config_listener.has_key && m->u.config_listener.kind == listener_kind_monitor);
	ck_assert_int_eq(messages[4].type, MSG_config_end);
	buf_finish(&b);
	remove_pems(dir);
}
END_TEST

START_TEST(a_key_that_cannot_serve_is_refused_with_its_place)
{
	static char large[METADATA_MAX + 2];
	static const struct {
		const char *key, *expected;
		mode_t mode;
	} rows[] = {
		{ "SECRET", "is open to everybody", 0604 },
		{ "", "is not 1 to ", 0600 },
		{ large, "is not 1 to ", 0600 },
	};
	struct buf b = { 0 };
	char dir[32];
	size_t i;

	memset(large, 'k', sizeof(large) - 1);
	for (i = 0; i < countof(rows); i++) {
		write_pems(dir, rows[i].key, rows[i].mode);
		ck_assert_int_lt(pack_gateway(&b, &c, "t.yaml", err), 0);
		ck_assert_msg(strstr(err, rows[i].expected) != NULL, "%s", err);
		ck_assert_msg(
		    !strncmp(err, "t.yaml:5:", 9) && strstr(err, "gateway.listen[0].tls.key"), "%s",
		    err);
		remove_pems(dir);
		buf_finish(&b);
	}
	ck_assert_int_lt(conf_resolve(&c, "t.yaml", err), 0);
	ck_assert_ptr_nonnull(strstr(err, "gateway.listen[0].tls.certificate: "));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("config_read");
	TCase *good = tcase_create("what is read");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(good, NULL, teardown);
	tcase_add_test(good, everything_is_read);
	tcase_add_test(good, what_is_not_said_is_none);
	tcase_add_test(good, what_clients_need_is_read);
	tcase_add_test(good, without_a_word_there_is_no_gateway_and_no_principal);
	tcase_add_test(good, a_broker_learns_who_may_be_a_client_by_digests);
	tcase_add_test(good, a_gateway_gets_its_listeners_in_the_order_of_their_sockets);
	tcase_add_test(good, a_key_that_cannot_serve_is_refused_with_its_place);
	tcase_add_test(good, listed_tools_are_all_a_builtin_provider_offers);
	tcase_add_test(good, the_root_of_a_namespace_is_said_with_a_dot_or_an_empty_list);
	tcase_add_test(good, values_are_packed_by_their_type);
	tcase_add_loop_test(good, what_is_shown_reads_back_as_the_same, 0, (int)countof(shown));
	tcase_add_loop_test(good, what_was_read_can_be_packed, 0, (int)countof(shown));
	suite_add_tcase(s, good);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
