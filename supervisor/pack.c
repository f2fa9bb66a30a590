#include "supervisor/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util.h"
#include "common/walk.h"

static void
pack_words(struct buf *b, const struct conf_words *w)
{
	size_t i;

	pack_array(b, (uint32_t)w->n);
	for (i = 0; i < w->n; i++)
		pack_str(b, w->v[i]);
}

/* A daemon's clients come back; those of a private run end with it. */
static void
fill_sessions(struct msg_config_broker *m, const struct conf_namespace *c)
{
	m->has_sessions = m->has_queue = m->has_operationTimeoutMs = true;
	m->sessions = c->sessions.max;
	m->queue = c->sessions.queue;
	m->operationTimeoutMs = c->sessions.operation_timeout;
	m->has_retention = m->has_retentionOperation = true;
	m->has_retentionTotal = m->has_retentionMs = true;
	m->retention = (enum retention)c->retention.mode;
	m->retentionOperation = c->retention.operation;
	m->retentionTotal = c->retention.total;
	m->retentionMs = c->retention.time;
}

static void
pack_ages(struct buf *b, const uint64_t *since, size_t n)
{
	size_t i;

	pack_array(b, (uint32_t)n);
	for (i = 0; i < n; i++)
		pack_uint(b, since[i]);
}

static int
pack_head(struct buf *out, const struct conf_namespace *c, const struct pack_facts *facts)
{
	struct msg_config_broker m = {
		.namespace = slice_of(c->namespace),
		.authority = slice_of(c->authority),
		.owner = slice_of(c->owner),
		.purpose = slice_of(c->purpose),
		.key = { facts->key, PACK_KEY },
		.durability = (enum durability)c->durability,
		.revocation = (enum revocation_mode)c->revocation,
		.has_toolNamespaces = c->has_tool_namespaces,
		.maxSteps = c->limits.max_steps,
		.maxToolCalls = c->limits.max_tool_calls,
		.timeoutMs = facts->timeout_ms,
		.drainGraceMs = c->limits.drain_grace,
		.killGraceMs = c->limits.kill_grace,
		.operator= facts->operator_uid,
		.has_generation = true,
		.generation = facts->generation,
		.has_startedAt = true,
		.startedAt = facts->now_ms,
		.has_runtimesSince = facts->since != NULL,
		.has_providersSince = facts->since != NULL,
	};
	struct buf namespaces = { 0 }, runtimes = { 0 }, providers = { 0 };
	int r;

	if (facts->daemon)
		fill_sessions(&m, c);
	pack_words(&namespaces, &c->tool_namespaces);
	m.toolNamespaces = buf_slice(&namespaces);
	if (facts->since) {
		pack_ages(&runtimes, facts->since, c->runtimes.n);
		pack_ages(&providers, facts->since + c->runtimes.n, c->providers.n);
	}
	m.runtimesSince = buf_slice(&runtimes);
	m.providersSince = buf_slice(&providers);
	r = namespaces.failed || runtimes.failed || providers.failed
		? -ENOMEM
		: protocol_notify(out, MSG_config_broker, &m);
	buf_finish(&namespaces);
	buf_finish(&runtimes);
	buf_finish(&providers);
	return r;
}

static int
pack_runtimes(struct buf *out, const struct conf_namespace *c, const struct pack_facts *facts)
{
	size_t i;
	int r = 0;

	for (i = 0; i < c->runtimes.n && r == 0; i++) {
		bool builtin = c->runtimes.v[i].builtin == RUNTIME_COMMAND;
		struct msg_config_runtime m = {
			.id = slice_of(c->runtimes.v[i].id),
			.version = slice_of(c->runtimes.v[i].version),
			.kind = builtin ? operation_kind_command : facts->kind,
			.has_builtin = builtin,
			.builtin = builtin,
			.has_workspace = c->runtimes.v[i].workspace,
			.workspace = c->runtimes.v[i].workspace,
			.has_learn = facts->learn,
			.learn = facts->learn,
			.has_metadata = c->runtimes.v[i].has_metadata,
			.metadata = { c->runtimes.v[i].metadata.p, c->runtimes.v[i].metadata.n },
		};

		r = protocol_notify(out, MSG_config_runtime, &m);
	}
	return r;
}

static int
pack_providers(struct buf *out, const struct conf_namespace *c)
{
	size_t i;
	int r = 0;

	for (i = 0; i < c->providers.n && r == 0; i++) {
		struct msg_config_provider m = {
			.id = slice_of(c->providers.v[i].id),
			.shared = c->providers.v[i].scope == PROVIDER_SHARED,
			.concurrency = c->providers.v[i].concurrency,
			.has_workspace = c->providers.v[i].workspace,
			.workspace = c->providers.v[i].workspace,
		};

		r = protocol_notify(out, MSG_config_provider, &m);
	}
	return r;
}

/* 64 hexadecimal digits each, which are checked. */
static void
pack_digests(struct buf *b, const struct conf_words *w)
{
	uint8_t digest[32];
	unsigned byte;
	size_t i, j;

	pack_array(b, (uint32_t)w->n);
	for (i = 0; i < w->n; i++) {
		for (j = 0; j < sizeof(digest); j++) {
			sscanf(w->v[i] + 2 * j, "%2x", &byte);
			digest[j] = (uint8_t)byte;
		}
		pack_bin(b, digest, sizeof(digest));
	}
}

static void
pack_uids(struct buf *b, const struct conf_words *w)
{
	size_t i;

	pack_array(b, (uint32_t)w->n);
	for (i = 0; i < w->n; i++)
		pack_uint(b, strtoul(w->v[i], NULL, 10));
}

static int
pack_principal(struct buf *out, const struct conf_principal *p)
{
	struct buf tokens = { 0 }, certificates = { 0 }, uids = { 0 }, runtimes = { 0 };
	struct msg_config_principal m = {
		.id = slice_of(p->id),
		.has_operator = true,
		.operator= p->operator,
		.sessions = p->sessions,
		.connections = p->connections,
	};
	int r;

	pack_digests(&tokens, &p->tokens);
	pack_digests(&certificates, &p->certificates);
	pack_uids(&uids, &p->uids);
	pack_words(&runtimes, &p->runtimes);
	m.tokens = buf_slice(&tokens);
	m.certificates = buf_slice(&certificates);
	m.uids = buf_slice(&uids);
	m.runtimes = buf_slice(&runtimes);
	r = tokens.failed || certificates.failed || uids.failed || runtimes.failed
		? -ENOMEM
		: protocol_notify(out, MSG_config_principal, &m);
	buf_finish(&tokens);
	buf_finish(&certificates);
	buf_finish(&uids);
	buf_finish(&runtimes);
	return r;
}

static int
pack_tool(struct buf *out, const struct conf_namespace *c, const struct conf_tool *t)
{
	struct msg_config_tool m = {
		.name = slice_of(t->name),
		.description = slice_of(t->description),
		.namespace = slice_of(t->namespace),
		.effect = (enum effect)t->effect,
		.idempotent = t->idempotent,
		.has_readOnly = t->annotations.has_readOnly,
		.readOnly = t->annotations.readOnly,
		.has_destructive = t->annotations.has_destructive,
		.destructive = t->annotations.destructive,
		.input = { t->input.p, t->input.n },
		.has_output = t->has_output,
		.output = { t->output.p, t->output.n },
		.action = slice_of(t->requires.action),
		.resource = slice_of(t->requires.resource.namespace),
		.path = slice_of(t->requires.resource.path),
		.has_ceiling = t->requires.has_ceiling,
	};
	struct buf ceiling = { 0 };
	int r;

	while (strcmp(c->providers.v[m.provider].id, t->provider))
		m.provider++;
	pack_words(&ceiling, &t->requires.ceiling);
	m.ceiling = buf_slice(&ceiling);
	r = ceiling.failed ? -ENOMEM : protocol_notify(out, MSG_config_tool, &m);
	buf_finish(&ceiling);
	return r;
}

static int
pack_capability(struct buf *out, const struct conf_capability *c)
{
	struct msg_config_capability m = {
		.namespace = slice_of(c->resource.namespace),
		.has_owner = c->resource.owner != NULL,
		.scope = (enum scope)c->resource.scope,
	};
	struct buf path = { 0 }, actions = { 0 };
	int r;

	pack_words(&path, &c->resource.path);
	pack_words(&actions, &c->actions);
	m.path = (struct slice){ path.p, path.n };
	m.actions = (struct slice){ actions.p, actions.n };
	if (m.has_owner)
		m.owner = slice_of(c->resource.owner);
	r = path.failed || actions.failed ? -ENOMEM
					  : protocol_notify(out, MSG_config_capability, &m);
	buf_finish(&path);
	buf_finish(&actions);
	return r;
}

static int
pack_grant(struct buf *out, const struct conf_grant *g)
{
	const struct conf_constraints *c = &g->constraints;
	struct buf purposes = { 0 };
	struct msg_config_grant m = {
		.id = slice_of(g->id),
		.subject = slice_of(g->subject),
		.issuer = slice_of(g->issuer),
		.namespace = slice_of(g->namespace),
		.has_issuedAt = g->has_issuedAt,
		.issuedAt = g->issuedAt,
		.has_notBefore = c->has_notBefore,
		.notBefore = c->notBefore,
		.has_expiresAt = c->has_expiresAt,
		.expiresAt = c->expiresAt,
		.has_maxUses = c->has_maxUses,
		.maxUses = c->maxUses,
		.has_purposes = c->has_purposes,
		.has_parent = g->parent != NULL,
		.has_delegationDepth = c->has_delegationDepth,
		.delegationDepth = c->delegationDepth,
	};
	size_t i;
	int r;

	pack_words(&purposes, &c->purposes);
	m.purposes = (struct slice){ purposes.p, purposes.n };
	if (m.has_parent)
		m.parent = slice_of(g->parent);
	r = purposes.failed ? -ENOMEM : protocol_notify(out, MSG_config_grant, &m);
	buf_finish(&purposes);
	for (i = 0; i < g->capabilities.n && r == 0; i++)
		r = pack_capability(out, &g->capabilities.v[i]);
	return r;
}

static int
pack_ceiling(struct buf *out, const struct conf_namespace *c)
{
	struct msg_config_ceiling m = { 0 };
	size_t i;
	int r = c->ceiling.n > 0 ? protocol_notify(out, MSG_config_ceiling, &m) : 0;

	for (i = 0; i < c->ceiling.n && r == 0; i++)
		r = pack_capability(out, &c->ceiling.v[i]);
	return r;
}

int
pack_config(struct buf *out, const struct conf_namespace *c, const struct pack_facts *facts)
{
	struct msg_config_end end = { 0 };
	size_t i;
	int r;

	r = pack_head(out, c, facts);
	if (r == 0)
		r = pack_runtimes(out, c, facts);
	for (i = 0; facts->daemon && i < c->principals.n && r == 0; i++)
		r = pack_principal(out, &c->principals.v[i]);
	if (r == 0)
		r = pack_providers(out, c);
	for (i = 0; i < c->tools.n && r == 0; i++)
		r = pack_tool(out, c, &c->tools.v[i]);
	if (r == 0)
		r = pack_ceiling(out, c);
	for (i = 0; i < c->grants.n && r == 0; i++)
		r = pack_grant(out, &c->grants.v[i]);
	return r == 0 ? protocol_notify(out, MSG_config_end, &end) : r;
}

int
pack_memfd(const struct buf *b)
{
	cleanup_fd int fd = memfd_create("caisson-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t done = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (done < b->n) {
		n = pwrite(fd, b->p + done, b->n - done, (off_t)done);
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) <
	    0)
		return -errno;
	return steal_fd(&fd);
}

int
pack_sealed(const struct conf_namespace *c, const struct pack_facts *facts)
{
	struct buf b = { 0 };
	int r = pack_config(&b, c, facts);

	if (r == 0)
		r = pack_memfd(&b);
	if (b.p)
		explicit_bzero(b.p, b.n);
	buf_finish(&b);
	return r;
}
