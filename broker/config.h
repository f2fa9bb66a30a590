/*
 * config: what a broker is told at its start, by its supervisor and nobody else.
 *
 * Read once from a descriptor that holds frames (protocol.def, "configuration") in this
 * order: config.broker, config.runtime*, config.principal*, config.provider*, config.tool*,
 * then (config.ceiling config.capability*) at most once and (config.grant config.capability*)*,
 * config.end.
 * Everything is checked here: a configuration that was read is one that can be worked with,
 * down to each tool's schema and each grant's paths.  It never changes afterwards, and lives
 * until the last who holds it releases it.  The grants that count are copies (standing.h).
 */
#ifndef BROKER_CONFIG_H
#define BROKER_CONFIG_H

#include <sys/queue.h>

#include "broker/authority/set.h"
#include "broker/event_log.h"
#include "broker/requirement.h"
#include "broker/schema.h"
#include "broker/zone.h"
#include "common/control.h"
#include "common/protocol.h"
#include "common/sha256.h"

#define CONFIG_PRINCIPALS_MAX 1024
/* tokens and certificates in all: a proof is compared with each of its kind */
#define CONFIG_PROOFS_MAX     4096
#define CONFIG_UIDS_MAX	      4096 /* in all */
#define CONFIG_BYTES_MAX (64u << 20) /* of all frames: some 100000 grants */

struct config_runtime {
	const char *id, *version;
	enum operation_kind kind;
	bool learn; /* its calls are learned, not refused */
	bool builtin; /* a command that takes what it runs from its link */
	bool workspace; /* its chamber shows the session's */
	struct slice metadata; /* of its manifest, packed; empty: none */
	uint64_t since; /* generation: so long its processes have been made as they are now */
};

/* Who may be a client, beside the operator at the local socket (D-14). */
struct config_principal {
	const char *id; /* kind:id */
	bool operator; /* over the network, too (D-18) */
	const uint8_t (*tokens)[SHA256_BYTES]; /* digests of what it may show */
	size_t ntokens;
	const uint8_t (*certificates)[SHA256_BYTES];
	size_t ncertificates;
	const uint32_t *uids;
	size_t nuids;
	const char **runtimes; /* ids of those it may acquire sessions of */
	size_t nruntimes;
	bool all_runtimes;
	uint32_t sessions, connections; /* at once */
};

struct config_provider {
	const char *id;
	bool shared; /* one for all sessions */
	uint32_t concurrency; /* calls it runs at once, 1.. */
	bool workspace; /* it serves the session's: never shared */
	uint64_t since; /* as a runtime's */
};

struct config_tool {
	const char *name, *description;
	const char *namespace; /* of the tool */
	uint32_t provider;     /* index */
	enum effect effect;
	bool idempotent, read_only, destructive;
	bool own; /* Caisson's: never executed, and no provider's */
	struct slice input, output; /* packed schemas, for the catalogue; no output: empty */
	struct schema *schema, *result; /* of arguments and results; NULL: any result */
	const char *action, *resource;	   /* required action and resource namespace */
	struct requirement_template *path; /* required path */
	struct path ceiling; /* what the path that is resolved must lie in */
};

struct config {
	const char *namespace;
	const char *authority, *owner; /* kind:id */
	const char *purpose;
	uint8_t key[32]; /* for digests in the record (D-12) */
	enum durability durability;
	enum revocation revocation;
	/* Tool namespaces that are enabled; NULL: all. */
	const char **tool_namespaces;
	size_t ntool_namespaces;
	uint32_t max_steps, max_tool_calls; /* defaults and ceilings of a turn */
	uint32_t timeout_ms; /* a turn's default and ceiling; 0 for a command: none */
	uint32_t drain_grace_ms, kill_grace_ms;
	uint32_t sessions; /* that clients may have acquired at once; 0: none */
	uint32_t queue; /* operations that may wait in one of them */
	uint32_t operation_timeout_ms; /* of an operation in one: default and ceiling */
	uint32_t operator; /* uid (D-18) */
	enum retention retention; /* where events are kept for who comes back (D-16) */
	struct event_limits retained; /* and how much of them */
	uint64_t generation;	/* how many the daemon had before it */
	uint64_t started_at_ms; /* wall clock: issuedAt of grants that do not say */
	uint8_t digest[32];	/* keyed, of all that is configured: two are the same, or not */

	struct config_runtime *runtimes;
	size_t nruntimes;
	struct config_principal *principals;
	size_t nprincipals;
	struct config_provider *providers;
	size_t nproviders;
	struct config_tool *tools; /* in the order of the frames; then Caisson's own */
	size_t ntools;
	struct grant *grants; /* in the order of the frames, none with a grant_fault() */
	size_t ngrants;
	struct ceiling ceiling; /* what is refused, whatever is granted */

	TAILQ_ENTRY(config) entry; /* its broker's, reload.c */

	/* private */
	uint32_t users; /* config_hold() */
	const struct config_tool **by_name; /* sorted */
	struct zone zone;		    /* everything above lies in it */
};

/*
 * Reads a whole configuration; the descriptor stays the caller's and is read from its
 * beginning, wherever its offset stands.  Returns 0; -EINVAL with the rule and the field
 * in `fault` and the row in `ret_row` ("config.tool 2 (files.read)"; "" if it is about
 * none), both valid until the next call; -ENOMEM; or the errno of read(2), negative.
 */
int config_read(int fd, struct config **ret, struct fault *fault, const char **ret_row);
/* The row that `ret_row` named, of those that the supervisor knows by their index; else
 * CONFIG_ROW_NONE. */
enum config_row_kind config_fault_row(uint32_t *ret_index);

/* One more, or one fewer, who needs it; it is read with one.  NULL is allowed. */
struct config *config_hold(struct config *c);
void config_release(struct config *c);
uint32_t config_users(const struct config *c);

/*
 * Does `c` make a process of its runtime as `by` made one of its runtime `index`?  Both have
 * been in force, whichever was first.  `*ret` is the runtime's index in `c` then.
 */
bool config_same_runtime(
    const struct config *by, uint32_t index, const struct config *c, uint32_t *ret);
/* Likewise of its provider `index`. */
bool config_same_provider(
    const struct config *by, uint32_t index, const struct config *c, uint32_t *ret);
/* Is the namespace of the tool, which may be another configuration's, enabled in `c`? */
bool config_is_enabled(const struct config *c, const struct config_tool *tool);
/* The tool of that name; NULL if there is none. */
const struct config_tool *config_tool(const struct config *c, struct slice name);

#endif /* BROKER_CONFIG_H */
