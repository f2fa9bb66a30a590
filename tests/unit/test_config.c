/* config: every kind of mistake is refused with its place. */
#include <check.h>

#include "common/util.h"
#include "tests/unit/config_fixture.h"

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
	{ "a missing key", "version: 1\nruntimes:\n  - command: [x]\n",
	    "3:5: runtimes[0]: id is missing" },
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
	{ "a runtime of no program", "version: 1\nruntimes:\n  - id: a\n",
	    "3:5: runtimes[0]: neither builtin nor command is there, expected one of them" },
	{ "a runtime of two programs",
	    "version: 1\nruntimes: [{ id: a, builtin: command, command: [x] }]\n",
	    "runtimes[0].command: is there beside builtin" },
	{ "the built-in runtime over an application",
	    "version: 1\nruntimes: [{ id: a, builtin: command, app: . }]\n",
	    "runtimes[0].app: is for a runtime with a command" },
	{ "the built-in runtime without a workspace",
	    "version: 1\nruntimes: [{ id: a, builtin: command, workspace: false }]\n",
	    "runtimes[0].workspace: is false, and builtin: command works in one" },
	{ "another built-in runtime", "version: 1\nruntimes: [{ id: a, builtin: shell }]\n",
	    "runtimes[0].builtin: \"shell\" is none of none or command" },
	{ "one that waits for a workspace of nobody's",
	    "version: 1\nruntimes: [{ id: a, builtin: command, warm: 1 }]\n",
	    "runtimes[0].warm: none that shows a workspace can wait" },
	{ "a mount over the workspace",
	    "version: 1\nruntimes: [{ id: a, command: [x], workspace: true, mounts: "
	    "[{ source: /, target: /workspace }] }]\n",
	    "runtimes[0].mounts[0].target: lies in the workspace" },
	{ "a mount in the workspace",
	    "version: 1\nruntimes: [{ id: a, builtin: command, mounts: "
	    "[{ source: /, target: /workspace/x }] }]\n",
	    "lies in the workspace" },
	{ "a profile's mount in the workspace",
	    "version: 1\nprofiles: [{ id: p, base: native, mounts: [{ source: /, target: "
	    "/workspace/x }] }, { id: q, base: p }]\n"
	    "runtimes: [{ id: a, builtin: command, profile: q }]\n",
	    "runtimes[0].profile: a mount of p lies in the workspace" },
	{ "programs of a workspace that is not there",
	    "version: 1\nruntimes: [{ id: a, command: [x],\n  workspace_execute: true }]\n",
	    "3:22: runtimes[0].workspace_execute: is there without workspace: true" },
	{ "programs of the workspace for a provider",
	    "version: 1\nproviders: [{ id: p, builtin: files, workspace: true,\n  "
	    "workspace_execute: true }]\n",
	    "3:3: providers[0].workspace_execute: unknown key" },
	{ "files over a root and a workspace",
	    "version: 1\nproviders: [{ id: p, builtin: files, root: ., workspace: true }]\n",
	    "providers[0].workspace: is there beside root" },
	{ "a shared provider of each session's",
	    "version: 1\nproviders: [{ id: p, builtin: files, workspace: true, scope: shared }]\n",
	    "providers[0].scope: is shared, and each session has a workspace of its own" },
	{ "a provider that waits for a workspace",
	    "version: 1\nproviders: [{ id: p, builtin: files, workspace: true, warm: 2 }]\n",
	    "providers[0].warm: none that shows a workspace can wait" },
	{ "a workspace for a provider of one's own",
	    "version: 1\nproviders: [{ id: p, command: [x], workspace: true }]\n",
	    "providers[0].workspace: is for builtin: files" },
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
	/* sessions and what is kept of them */
	{ "no sessions", "version: 1\nsessions: { max: 0 }\n",
	    "2:18: sessions.max: is out of range, expected 1 to 4096" },
	{ "a queue that holds nothing (OP-8)", "version: 1\nsessions: { queue: 0 }\n",
	    "sessions.queue: is out of range, expected 1 to " },
	{ "no time for an operation (OP-8)", "version: 1\nsessions: { operation_timeout: 0 }\n",
	    "sessions.operation_timeout: is out of range" },
	{ "an unknown key of sessions", "version: 1\nsessions: { most: 1 }\n",
	    "2:13: sessions.most: unknown key, expected one of max, queue, operation_timeout" },
	{ "another retention", "version: 1\nretention: { mode: forever }\n",
	    "retention.mode: \"forever\" is none of memory, durable or none" },
	{ "less for all than for one",
	    "version: 1\nretention: { operation: 2MiB, total: 1MiB }\n",
	    "2:38: retention.total: is less than retention.operation" },
	/* principals */
	{ "a principal of nothing", "version: 1\nprincipals: [{ id: human:a, tokens: [] }]\n",
	    "principals[0]: has neither tokens, certificates nor uids" },
	{ "a principal without a kind", "version: 1\nprincipals: [{ id: alice, uids: [1] }]\n",
	    "principals[0].id: \"alice\" is no address" },
	{ "a principal twice",
	    "version: 1\nprincipals: [{ id: human:a, uids: [1] }, { id: human:a, uids: [2] }]\n",
	    "principals[1].id: \"human:a\" is also principals[0].id" },
	{ "a token as it is", "version: 1\nprincipals: [{ id: human:a, tokens: [secret] }]\n",
	    "principals[0].tokens[0]: expected the SHA-256 of a token, 64 hexadecimal digits" },
	{ "a digest of 63 digits",
	    "version: 1\nprincipals: [{ id: human:a, certificates: [" DIGEST_62 "a] }]\n",
	    "principals[0].certificates[0]: expected the SHA-256 of a certificate" },
	{ "a digest of another alphabet",
	    "version: 1\nprincipals: [{ id: human:a, tokens: [" DIGEST_62 "xg] }]\n",
	    "principals[0].tokens[0]: expected the SHA-256" },
	{ "one token of two",
	    "version: 1\nprincipals: [{ id: human:a, tokens: [" DIGEST_62 "aa] },\n"
	    "  { id: human:b, tokens: [" DIGEST_62 "ab, " DIGEST_62 "AA] }]\n",
	    "3:26: principals[1].tokens[1]: is principals[0]'s, expected another" },
	{ "a certificate twice",
	    "version: 1\nprincipals: [{ id: human:a, certificates: [" DIGEST_62 "aa, " DIGEST_62
	    "aa] }]\n",
	    "principals[0].certificates[1]: stands there twice" },
	{ "a uid that is a name", "version: 1\nprincipals: [{ id: human:a, uids: [root] }]\n",
	    "principals[0].uids[0]: expected a uid" },
	{ "a uid of two forms",
	    "version: 1\nprincipals: [{ id: human:a, uids: [\"01\"] }]\n",
	    "principals[0].uids[0]: expected a uid" },
	{ "a uid that means nobody",
	    "version: 1\nprincipals: [{ id: human:a, uids: [4294967295] }]\n",
	    "principals[0].uids[0]: expected a uid" },
	{ "a uid of two",
	    "version: 1\nprincipals: [{ id: human:a, uids: [7] }, { id: human:b, uids: [7] }]\n",
	    "principals[1].uids[0]: is principals[0]'s" },
	{ "a runtime of a principal's that is not there",
	    "version: 1\n" RUNTIME "principals: [{ id: human:a, uids: [7], runtimes: [a, b] }]\n",
	    "principals[0].runtimes[1]: \"b\" is not there, expected the id of a runtime" },
	/* the gateway */
	{ "a gateway to nowhere", "version: 1\ngateway: { connections: 5 }\n",
	    "2:10: gateway.listen: is empty, expected an address or a socket" },
	{ "a gateway of nothing", "version: 1\ngateway: {}\n", "gateway.listen: is empty" },
	{ "a listener nowhere", "version: 1\ngateway: { listen: [{ tls: " TLS " }] }\n",
	    "gateway.listen[0]: neither address nor socket" },
	{ "a listener at two places", LISTEN("socket: s, address: '127.0.0.1:1'"),
	    "gateway.listen[0].address: is there beside socket" },
	{ "tls for a socket", LISTEN("socket: s, tls: " TLS), "gateway.listen[0].tls: is for an" },
	{ "tls without its key", LISTEN("address: '127.0.0.1:1', tls: { certificate: a }"),
	    "gateway.listen[0].tls: key is missing" },
	{ "plain TCP for everybody", LISTEN("address: '0.0.0.0:80'"),
	    "gateway.listen[0].address: without tls it is read on its way: expected tls, or a "
	    "loopback address" },
	{ "plain TCP beside the loopback", LISTEN("address: '128.0.0.1:80'"), "without tls" },
	{ "plain TCP of IPv6 for everybody", LISTEN("address: '[::]:80'"), "without tls" },
	{ "plain TCP of a mapped address", LISTEN("address: '[::ffff:127.0.0.1]:80'"),
	    "without tls" },
	{ "a host by name", LISTEN("address: 'localhost:80'"),
	    "gateway.listen[0].address: \"localhost:80\" is no address, expected a numeric host "
	    "and a port, like 127.0.0.1:8443" },
	{ "no port", LISTEN("address: 127.0.0.1"), "is no address" },
	{ "an empty port", LISTEN("address: '127.0.0.1:'"), "is no address" },
	{ "a port too high", LISTEN("address: '127.0.0.1:65536'"), "is no address" },
	{ "IPv6 without brackets", LISTEN("address: '::1:80'"), "is no address" },
	{ "half a bracket", LISTEN("address: '[::1:80'"), "is no address" },
	{ "IPv4 in brackets", LISTEN("address: '[127.0.0.1]:80'"), "is no address" },
	{ "no host", LISTEN("address: ':80'"), "is no address" },
	{ "an address twice", LISTEN("address: '[::1]:80' }, { address: '[0::1]:80'"),
	    "gateway.listen[1]: is where gateway.listen[0] is" },
	{ "a socket twice", LISTEN("socket: s }, { socket: s"),
	    "gateway.listen[1]: is where gateway.listen[0] is" },
	{ "a monitor for everybody", MONITOR("'0.0.0.0:9464'"), "gateway.monitor: without tls" },
	{ "a monitor at the gateway's own place", MONITOR("'127.0.0.1:1'"),
	    "gateway.monitor: is where gateway.listen[0] is" },
	{ "a monitor at a relative path", MONITOR("monitor.sock"), "gateway.monitor: \"monitor" },
	{ "no connections",
	    "version: 1\ngateway: { connections: 0, listen: [{ socket: s }] }\n",
	    "gateway.connections: is out of range, expected 1 to 65536" },
	{ "an unknown key of a listener", LISTEN("socket: s, mode: 5"),
	    "gateway.listen[0].mode: unknown key, expected one of socket, address, tls" },
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

/* ---- what the peers get ------------------------------------------------------------ */

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
	TCase *bad = tcase_create("mistakes");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(bad, NULL, teardown);
	tcase_add_loop_test(
	    bad, every_mistake_is_refused_with_its_place, 0, (int)countof(mistakes));
	tcase_add_test(bad, files_that_are_none_are_refused);
	tcase_add_test(bad, directories_that_are_not_there_are_named);
	tcase_add_test(bad, every_truncation_is_refused_or_read_but_never_more);
	tcase_set_timeout(bad, 60);
	suite_add_tcase(s, bad);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
