/* config: every kind of mistake with its place, and what stands for what is not said. */
#include "supervisor/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "common/walk.h"
#include "supervisor/pack.h"

static struct conf_namespace c;
static char err[CONF_ERROR_MAX];

static int
parse(const char *text)
{
	conf_finish(&c);
	*err = '\0';
	return conf_read("/dir/t.yaml", text, strlen(text), &c, err);
}

static void
teardown(void)
{
	conf_finish(&c);
}

#define RUNTIME	 "runtimes:\n  - { id: a, command: [x] }\n"
#define PROVIDER "providers:\n  - { id: p, command: [x] }\n"
#define FILES	 "providers:\n  - { id: files, builtin: files, root: . }\n"
#define TOOL(path, more)                                                                       \
	"tools:\n  - { name: t, provider: p, namespace: n, effect: read,\n"                    \
	"      input: { type: object, properties: { path: { type: string } } },\n"             \
	"      requires: { action: read, resource: { namespace: w, path: \"" path              \
	"\" } }" more " }\n"
#define GRANT(cap, constraints)                                                                \
	"grants:\n  - id: g\n    subject: agent:a\n    issuer: human:o\n    namespace: "       \
	"default\n"                                                                            \
	"    capabilities:\n      - " cap "\n    constraints: { " constraints " }\n"
#define CAP "{ resource: { namespace: w, path: d, scope: exact }, actions: [read] }"

static const struct mistake {
	const char *reason, *text, *expected;
} mistakes[] = {
	/* the form of the file */
	{ "nothing at all", "", "1:1: the file is empty" },
	{ "a list", "- a\n", "1:1: is a list, expected a mapping" },
	{ "a text", "hello", "1:1: is text, expected a mapping" },
	{ "no YAML", "version: [1\n", "2:1: while parsing a flow sequence" },
	{ "a tab", "version:\n\t- 1\n", "2:1: " },
	{ "bad UTF-8", "version: \"\xff\"\n", ": " },
	{ "an alias", "version: &v 1\nlimits: *v\n", "1:10: anchors (&) are not read" },
	{ "an alias to nothing", "version: *v\n", "1:10: aliases (*) are not read" },
	{ "a tag", "version: !!int 1\n", "1:10: tags (!) are not read" },
	{ "a tag of a list", "version: 1\nruntimes: !x []\n", "2:11: tags (!) are not read" },
	{ "a merge key", "version: 1\n<<: { a: 1 }\n", "2:1: merge keys" },
	{ "a directive", "%YAML 1.1\n---\nversion: 1\n", "directives" },
	{ "a second document", "version: 1\n---\nversion: 1\n", "2:1: a second document" },
#define KEY_26 "kkkkkkkkkkkkkkkkkkkkkkkkkk"
#define KEY_260 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26 KEY_26
	{ "a key too long to be written back", "version: 1\n" KEY_260 ": 1\n",
	    "2:1: kkkkkkkkkkkkkkkkkkkk...: a key of more than 256 bytes" },
	{ "a key twice", "version: 1\nversion: 1\n",
	    "2:1: version: the key stands here twice" },
	{ "a list as a key", "version: 1\n? [a]\n: 1\n", "2:3: a key is a list" },
	{ "a NUL", "version: \"\\0\"\n", "1:10: the text holds a NUL" },
	{ "too deep", "version: [[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
	    "nested deeper than 24 levels" },
	/* keys */
	{ "no version", "namespace: x\n", "1:1: version is missing, expected version: 1" },
	{ "an unknown key", "version: 1\nruntime: []\n",
	    "2:1: runtime: unknown key, expected one of version, namespace" },
	{ "an unknown key far down", "version: 1\nlimits:\n  max_step: 4\n",
	    "3:3: limits.max_step: unknown key, expected one of turn_timeout" },
	{ "a missing key", "version: 1\nruntimes:\n  - id: a\n",
	    "3:5: runtimes[0]: command is missing" },
	{ "nothing as a value", "version: 1\nlimits:\n",
	    "limits: is nothing, expected a mapping" },
	{ "nothing as a text", "version: 1\nnamespace: ~\n", "2:12: namespace: is nothing" },
	/* types */
	{ "another version", "version: 2\n",
	    "1:10: version: is out of range, expected 1 to 1" },
	{ "a quoted number", "version: \"1\"\n", "1:10: version: is not a whole number" },
	{ "a number with a zero before it", "version: 01\n", "version: is not a whole number" },
	{ "a number too many bits long", "version: 99999999999999999999\n", "is out of range" },
	{ "a boolean as a text", "version: 1\nnamespace: true\n",
	    "2:12: namespace: is a boolean, expected text (quote it)" },
	{ "a mapping as a text", "version: 1\nnamespace: {}\n", "is a mapping, expected text" },
	{ "a list as a mapping", "version: 1\nlimits: []\n",
	    "limits: is a list, expected a mapping" },
	{ "a mapping as a list", "version: 1\nruntimes: {}\n",
	    "runtimes: is a mapping, expected a list" },
	{ "an empty text", "version: 1\nnamespace: \"\"\n",
	    "namespace: is 0 bytes long, expected 1 to 256" },
	{ "lines in a name", "version: 1\nnamespace: \"a\\nb\"\n",
	    "holds a control character" },
	{ "a duration without a unit", "version: 1\nlimits: { turn_timeout: 10 }\n",
	    "2:25: limits.turn_timeout: is not a duration (250ms, 10s, 5m)" },
	{ "a duration too long (TU limits)", "version: 1\nlimits: { turn_timeout: 11m }\n",
	    "expected 1 to 600000 ms" },
	{ "a duration too short", "version: 1\nlimits: { turn_timeout: 0ms }\n",
	    "out of range" },
	{ "a drain grace too long (TU-51)", "version: 1\nlimits: { drain_grace: 601s }\n",
	    "limits.drain_grace: is out of range" },
	{ "a fractional drain grace (TU-51)", "version: 1\nlimits: { drain_grace: 1.5s }\n",
	    "limits.drain_grace: is not a duration" },
	{ "a negative drain grace (TU-51)", "version: 1\nlimits: { drain_grace: -1s }\n",
	    "limits.drain_grace: is not a duration" },
	{ "too many steps (TU limits)", "version: 1\nlimits: { max_steps: 1001 }\n",
	    "limits.max_steps: is out of range, expected 1 to 1000" },
	{ "too many calls (TU limits)", "version: 1\nlimits: { max_tool_calls: 10001 }\n",
	    "expected 1 to 10000" },
	{ "a choice that is none", "version: 1\ndurability: some\n",
	    "2:13: durability: \"some\" is none of full or relaxed" },
	{ "an address without a kind", "version: 1\nauthority: operator\n",
	    "2:12: authority: \"operator\" is no address, expected human:ID" },
	{ "an address of another kind", "version: 1\nowner: robot:x\n",
	    "owner: \"robot:x\" is no" },
	{ "an address without an id", "version: 1\nowner: \"human:\"\n", "has no id" },
	{ "a size without a unit",
	    "version: 1\nruntimes: [{ id: a, command: [x], memory: 5 }]\n",
	    "runtimes[0].memory: is not a size" },
	{ "a switch that is none",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: /a, "
	    "writable: yes }] }]\n",
	    "runtimes[0].mounts[0].writable: is not true or false" },
	/* runtimes and providers */
	{ "an empty command", "version: 1\nruntimes: [{ id: a, command: [] }]\n",
	    "runtimes[0].command: is empty, expected at least 1" },
	{ "a command of nothing", "version: 1\nruntimes: [{ id: a, command: [\"\"] }]\n",
	    "runtimes[0].command: is empty, expected a program" },
	{ "a number in a list is text, a mapping is not",
	    "version: 1\nruntimes: [{ id: a, command: [x, {}] }]\n",
	    "runtimes[0].command: is a mapping, expected text" },
	{ "an id twice",
	    "version: 1\nruntimes:\n  - { id: a, command: [x] }\n  - { id: a, command: [y] }\n",
	    "4:11: runtimes[1].id: \"a\" is also runtimes[0].id" },
	{ "a provider's profile",
	    "version: 1\nruntimes: [{ id: a, command: [x], profile: provider }]\n",
	    "runtimes[0].profile: \"provider\" is for providers" },
	{ "no such profile", "version: 1\nruntimes: [{ id: a, command: [x], profile: big }]\n",
	    "2:44: runtimes[0].profile: \"big\" is not there, expected native, interpreter, jit or "
	    "the id of one of profiles" },
	{ "a bad variable",
	    "version: 1\nruntimes: [{ id: a, command: [x], env: [\"A B=1\"] }]\n",
	    "runtimes[0].env[0]: expected NAME=VALUE or NAME" },
	{ "a relative target",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: a }] "
	    "}]\n",
	    "runtimes[0].mounts[0].target: is no absolute path" },
	{ "a target that climbs",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: "
	    "/a/../b }] }]\n",
	    "is no absolute path" },
	{ "a target twice",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: /a }, "
	    "{ source: /usr, target: /a }] }]\n",
	    "runtimes[0].mounts[1].target: is the place of another mount (/a)" },
	{ "a target where the application is",
	    "version: 1\nruntimes: [{ id: a, command: [x], app: ., mounts: [{ source: /, "
	    "target: /app }] }]\n",
	    "is the place of the application (/app)" },
	{ "a target in /proc",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: "
	    "/proc/a }] }]\n",
	    "lies in /proc" },
	{ "a target over the devices",
	    "version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: /, target: /dev }] "
	    "}]\n",
	    "is the chamber's own" },
	{ "a tool of our own name",
	    "version: 1\nproviders: [{ id: p, command: [x] }]\ntools: [{ name: "
	    "sharedos.escalate, provider: p, namespace: n, effect: read, input: { type: object }, "
	    "requires: { action: a, resource: { namespace: n, path: x } } }]\n",
	    "tools[0].name: names that begin with sharedos. are Caisson's own" }, /* TU-61 */
	{ "neither builtin nor command", "version: 1\nproviders: [{ id: p }]\n",
	    "providers[0]: neither builtin nor command" },
	{ "builtin and command",
	    "version: 1\nproviders: [{ id: p, builtin: files, root: ., command: [x] }]\n",
	    "providers[0].command: is there beside builtin" },
	{ "files without a root", "version: 1\nproviders: [{ id: p, builtin: files }]\n",
	    "providers[0].root is missing" },
	{ "a root without files", "version: 1\nproviders: [{ id: p, command: [x], root: . }]\n",
	    "providers[0].root: is for builtin: files" },
	{ "a scope that is none",
	    "version: 1\nproviders: [{ id: p, builtin: files, root: ., scope: global }]\n",
	    "scope" },
	{ "two that bring the same tools",
	    "version: 1\nproviders:\n  - { id: p, builtin: files, root: . }\n"
	    "  - { id: q, builtin: files, root: . }\n",
	    "\"files.list\" is also tools[0].name" },
	/* tools */
	{ "a provider that is not there", "version: 1\n" TOOL("a", ""),
	    "tools[0].provider: \"p\" is not there" },
	{ "an argument that the schema lacks", "version: 1\n" PROVIDER TOOL("{name}", ""),
	    "tools[0].requires.resource.path: {name} is no property of input" },
	{ "half a placeholder", "version: 1\n" PROVIDER TOOL("a/x{path}", ""),
	    "has braces within a segment" },
	{ "an empty segment", "version: 1\n" PROVIDER TOOL("a//b", ""),
	    "has an empty segment" },
	{ "a climbing template", "version: 1\n" PROVIDER TOOL("../{path}", ""),
	    "has a segment . or .." },
	{ "a schema that is no mapping",
	    "version: 1\n" PROVIDER
	    "tools: [{ name: t, provider: p, namespace: n, effect: read, "
	    "input: [], requires: { action: a, resource: { namespace: w, path: a } } }]\n",
	    "tools[0].input: is a list, expected a JSON Schema" },
	{ "no effect",
	    "version: 1\n" PROVIDER "tools: [{ name: t, provider: p, namespace: n, input: {}, "
	    "requires: { action: a, resource: { namespace: w, path: a } } }]\n",
	    "tools[0]: effect is missing" },
	{ "a tool that files lacks",
	    "version: 1\n" FILES "tools: [{ name: files.chmod, provider: files, namespace: n, "
	    "effect: write, input: {}, requires: { action: a, resource: { namespace: w, path: "
	    "a } } }]\n",
	    "tools[0].name: \"files.chmod\" is no tool of the files provider" },
	{ "a write called a read",
	    "version: 1\n" FILES "tools: [{ name: files.write, provider: files, namespace: n, "
	    "effect: read, input: {}, requires: { action: a, resource: { namespace: w, path: a "
	    "} } }]\n",
	    "tools[0].effect: files.write has the effect write" },
	{ "a read that destroys",
	    "version: 1\n" PROVIDER TOOL("a", ", annotations: { destructive: true }"),
	    "tools[0].annotations.destructive: a tool whose effect is read is not" },
	{ "a write that only reads",
	    "version: 1\n" PROVIDER "tools: [{ name: t, provider: p, namespace: n, "
	    "effect: write, annotations: { readOnly: true }, input: {}, "
	    "requires: { action: a, resource: { namespace: w, path: a } } }]\n",
	    "tools[0].annotations.readOnly: a tool whose effect is write is not" },
	{ "a second word on what may be repeated",
	    "version: 1\n" PROVIDER TOOL("a", ", annotations: { idempotent: true }"),
	    "tools[0].annotations.idempotent: unknown key, expected one of readOnly" },
	{ "a ceiling that climbs",
	    "version: 1\n" PROVIDER "tools: [{ name: t, provider: p, namespace: n, "
	    "effect: read, input: {}, requires: { action: a, ceiling: d/.., "
	    "resource: { namespace: w, path: a } } }]\n",
	    "tools[0].requires.ceiling: has a segment . or .." },
	{ "a result's schema that is no mapping",
	    "version: 1\n" PROVIDER TOOL("a", ", output: string"),
	    "tools[0].output: is text, expected a JSON Schema" },
	{ "a tool namespace without a tool",
	    "version: 1\n" PROVIDER TOOL("a", "") "tool_namespaces: [n, m]\n",
	    "tool_namespaces[1]: \"m\" is not there, expected the namespace of a tool" },
	{ "a tool namespace twice",
	    "version: 1\n" PROVIDER TOOL("a", "") "tool_namespaces: [n, n]\n",
	    "tool_namespaces[1]: stands there twice" },
	/* manifests (TU-8) */
	{ "a runtime of another protocol",
	    "version: 1\nruntimes: [{ id: a, command: [x], protocolVersion: 70000 }]\n",
	    "2:52: runtimes[0].protocolVersion: is 70000, and this Caisson speaks " },
	{ "a runtime's metadata that are no mapping",
	    "version: 1\nruntimes: [{ id: a, command: [x], metadata: [] }]\n",
	    "runtimes[0].metadata: is a list, expected a mapping" },
	{ "two runtimes of one id",
	    "version: 1\nruntimes: [{ id: a, command: [x] }, { id: a, command: [y] }]\n",
	    "runtimes[1].id: \"a\" is also runtimes[0].id, expected another" },
	/* grants */
	{ "a revocation that is none", "version: 1\nrevocation: never\n",
	    "2:13: revocation: \"never\" is none of immediate or next-turn" },
	{ "a ceiling on no action",
	    "version: 1\nceiling: [{ resource: { namespace: w, path: ., scope: exact }, "
	    "actions: [a, a] }]\n",
	    "ceiling[0].actions[1]: stands there twice" },
	{ "no capability",
	    "version: 1\ngrants: [{ id: g, subject: agent:a, issuer: human:o, namespace: n, "
	    "capabilities: [] }]\n",
	    "grants[0].capabilities: is empty" },
	{ "no path means nothing, never everything",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, scope: exact }, actions: [read] }", ""),
	    "grants[0].capabilities[0].resource: path is missing" },
	{ "no scope",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: d }, actions: [read] }", ""),
	    "scope is missing" },
	{ "no actions",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: d, scope: exact }, actions: [] }", ""),
	    "actions: is empty, expected at least 1" },
	{ "an action twice",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: d, scope: exact }, actions: [a, a] }", ""),
	    "capabilities[0].actions[1]: stands there twice" },
	{ "a path that climbs (TU-35)",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: d/.., scope: exact }, actions: [a] }", ""),
	    "path: has a segment . or .., expected segments like docs/notes" },
	{ "a path from the root (TU-35)",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: /d, scope: exact }, actions: [a] }", ""),
	    "path: has an empty segment" },
	{ "a segment with a separator (TU-35)",
	    "version: 1\n" GRANT(
		"{ resource: { namespace: w, path: [a/b], scope: exact }, actions: [a] }", ""),
	    "has a segment with a separator" },
	{ "an instant that is none", "version: 1\n" GRANT(CAP, "expiresAt: tomorrow"),
	    "constraints.expiresAt: is not an instant (2027-01-01T00:00:00Z)" },
	{ "a day that is none", "version: 1\n" GRANT(CAP, "expiresAt: 2027-02-30T00:00:00Z"),
	    "is not an instant" },
	{ "a window that is empty",
	    "version: 1\n" GRANT(
		CAP, "notBefore: 2027-01-01T00:00:00Z, expiresAt: 2027-01-01T00:00:00Z"),
	    "constraints.expiresAt: is not after notBefore" },
	{ "a chain that is too long", "version: 1\n" GRANT(CAP, "delegationDepth: 16"),
	    "delegationDepth: is out of range" },
	{ "no uses", "version: 1\n" GRANT(CAP, "maxUses: 0"), "maxUses: is out of range" },
	{ "no purposes", "version: 1\n" GRANT(CAP, "purposes: []"), "purposes: is empty" },
};

START_TEST(every_mistake_is_refused_with_its_place)
{
	const struct mistake *m = &mistakes[_i];

	ck_assert_msg(parse(m->text) < 0, "%s: was read", m->reason);
	ck_assert_msg(strstr(err, m->expected), "%s: \"%s\" is not in \"%s\"", m->reason,
	    m->expected, err);
	ck_assert_msg(!strncmp(err, "/dir/t.yaml:", 12), "%s: %s", m->reason, err);
}
END_TEST

static const char whole[] =
    "version: 1\nnamespace: n\nauthority: human:boss\npurpose: 'a: b'\ndurability: relaxed\n"
    "limits: { turn_timeout: 1500ms, max_steps: 3, drain_grace: 0, kill_grace: 0ms }\n"
    "profiles:\n"
    "  - id: web.1\n    base: jit\n    memory: 1GiB\n    pids: 40\n    cpu_time: 90s\n"
    "    optional: []\n    env: [A=b]\n    mounts: [{ source: ../y, target: /y }]\n"
    "    syscalls:\n"
    "      - { name: clone3, action: EPERM }\n      - { name: ioctl, action: base }\n"
    "      - { name: ioctl, action: allow, when: [{ argument: 1, equals: 0x8004667e }] }\n"
    "      - { name: openat, action: allow, when: [{ argument: 0, equals: -100 }, "
    "{ argument: 2, masked: 0x400040, equals: 0 }] }\n"
    "  - { id: tight, base: web.1, mdwe: true, network: own, open_files: 64, "
    "file_size: 1MiB, cpu: 50, tmp: 1MiB }\n"
    "runtimes:\n"
    "  - id: acme.summarizer\n    version: 1.0\n    command: [python3, /app/a.py, \"5\", 6]\n"
    "    app: agents\n    profile: interpreter\n    env: [A=b c, HOME]\n"
    "    mounts: [{ source: ../x, target: /x, writable: true }]\n"
    "    memory: 64MiB\n    tmp: 64KiB\n    cpu: 150\n    pids: 7\n"
    "    metadata: { team: ops, n: 1 }\n" PROVIDER
    "  - { id: files, builtin: files, root: /srv/x }\n" TOOL(
	"a/{path}", ", idempotent: true, description: \"two\\nlines\", "
	"annotations: { readOnly: false }, output: { type: [string, 'null'] }")
	"ceiling: [{ resource: { namespace: w, path: d/x, scope: descendants }, "
	"actions: ['*'] }]\nrevocation: next-turn\ntool_namespaces: [sharedos]\n"
	GRANT(CAP, "maxUses: 3, delegationDepth: 4, purposes: ['a: b'], notBefore: 2027-01-01T00:00:00Z")
	"  - { id: h, subject: agent:b, issuer: agent:a, namespace: default, parent: g, "
	"capabilities: [" CAP "], constraints: { delegationDepth: 2 } }\n";

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

static const char *const shown[] = { whole, "version: 1\n", "version: 1\n" FILES,
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
	struct pack_facts facts = { .kind = operation_kind_turn, .timeout_ms = 1, .key = key };
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

START_TEST(files_that_are_none_are_refused)
{
	ck_assert_int_lt(conf_open("/nonexistent/x.yaml", &c, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "/nonexistent/x.yaml: cannot open: No such file"));
	ck_assert_int_lt(conf_open("/", &c, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "is no regular file"));
	ck_assert_int_lt(conf_open("/dev/zero", &c, err), 0);
}
END_TEST

START_TEST(directories_that_are_not_there_are_named)
{
	static const char *const texts[] = {
		"version: 1\nruntimes: [{ id: a, command: [x], app: /nonexistent }]\n",
		"version: 1\nproviders: [{ id: a, builtin: files, root: /nonexistent }]\n",
		"version: 1\nruntimes: [{ id: a, command: [x], app: /dev/null }]\n",
		"version: 1\nruntimes: [{ id: a, command: [x], mounts: [{ source: "
		"/nonexistent, "
		"target: /x }] }]\n",
	};
	size_t i;

	for (i = 0; i < countof(texts); i++) {
		ck_assert_msg(parse(texts[i]) == 0, "%s", err);
		ck_assert_int_lt(conf_resolve(&c, "t.yaml", err), 0);
		ck_assert_ptr_nonnull(strstr(err, "t.yaml:2:"));
	}
}
END_TEST

START_TEST(every_truncation_is_refused_or_read_but_never_more)
{
	cleanup_free char *text = strdup(whole);
	size_t i, n = strlen(whole);

	for (i = 0; i < n; i++) {
		conf_finish(&c);
		if (conf_read("t.yaml", text, i, &c, err) < 0)
			ck_assert(*err);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("config");
	TCase *bad = tcase_create("mistakes"), *good = tcase_create("what is read");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(bad, NULL, teardown);
	tcase_add_loop_test(
	    bad, every_mistake_is_refused_with_its_place, 0, (int)countof(mistakes));
	tcase_add_test(bad, files_that_are_none_are_refused);
	tcase_add_test(bad, directories_that_are_not_there_are_named);
	tcase_add_test(bad, every_truncation_is_refused_or_read_but_never_more);
	tcase_set_timeout(bad, 60);
	tcase_add_checked_fixture(good, NULL, teardown);
	tcase_add_test(good, everything_is_read);
	tcase_add_test(good, what_is_not_said_is_none);
	tcase_add_test(good, listed_tools_are_all_a_builtin_provider_offers);
	tcase_add_test(good, the_root_of_a_namespace_is_said_with_a_dot_or_an_empty_list);
	tcase_add_test(good, values_are_packed_by_their_type);
	tcase_add_loop_test(good, what_is_shown_reads_back_as_the_same, 0, (int)countof(shown));
	tcase_add_loop_test(good, what_was_read_can_be_packed, 0, (int)countof(shown));
	suite_add_tcase(s, bad);
	suite_add_tcase(s, good);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
