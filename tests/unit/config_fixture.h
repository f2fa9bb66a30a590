/*
 * config_fixture: a text that is parsed as a configuration, and texts that are good.
 */
#ifndef TESTS_UNIT_CONFIG_FIXTURE_H
#define TESTS_UNIT_CONFIG_FIXTURE_H

#include "supervisor/pack.h"

static struct conf_namespace c;
static char err[CONF_ERROR_MAX];

static inline int
parse(const char *text)
{
	conf_finish(&c);
	*err = '\0';
	return conf_read("/dir/t.yaml", text, strlen(text), &c, err);
}

static inline void
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

#define DIGEST_62 "00112233445566778899aabbccddeeff00112233445566778899aabbccddee"
#define TLS	  "{ certificate: c, key: k }"
#define LISTEN(l) "version: 1\ngateway: { listen: [{ " l " }] }\n"
#define MONITOR(m)                                                                             \
	"version: 1\ngateway: { monitor: " m ", listen: [{ address: '127.0.0.1:1' }] }\n"

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

#endif /* TESTS_UNIT_CONFIG_FIXTURE_H */
