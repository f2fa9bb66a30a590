/*
 * config_rows: each row of a configuration, from its frame into struct config.
 */
#include "broker/config_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/grant_wire.h"
#include "common/util.h"
#include "common/walk.h"

#define QUEUE_DEFAULT		     32 /* OP-8 */
#define OPERATION_TIMEOUT_DEFAULT_MS 300000
/* of events, if the configuration does not say (D-16) */
#define RETENTION_OPERATION (1u << 20)
#define RETENTION_TOTAL	    (64u << 20)
#define RETENTION_MS	    900000

/* What the last failure was about: one configuration is read at a time. */
static char fault_row[384];
static char fault_rule[512];
static enum config_row_kind fault_kind;
static size_t fault_number; /* from 1; 0: none */

/* ---- failures ------------------------------------------------------------------------- */

/* The first one stands: what follows from it is not looked at. */
int
config_fail(struct config_reader *r, const char *field, const char *rule)
{
	if (r->error == 0) {
		r->error = -EINVAL;
		snprintf(fault_rule, sizeof(fault_rule), "%s", rule);
		r->fault->rule = fault_rule;
		r->fault->field = field;
	}
	return r->error;
}

int
config_out_of_memory(struct config_reader *r)
{
	if (r->error == 0) {
		r->error = -ENOMEM;
		r->fault->rule = "memory is out";
	}
	return r->error;
}

static enum config_row_kind
row_kind(const char *kind)
{
	static const struct {
		const char *name;
		enum config_row_kind kind;
	} kinds[] = {
		{ "config.runtime", CONFIG_ROW_RUNTIME },
		{ "config.provider", CONFIG_ROW_PROVIDER },
		{ "config.tool", CONFIG_ROW_TOOL },
		{ "config.grant", CONFIG_ROW_GRANT },
		{ "config.principal", CONFIG_ROW_PRINCIPAL },
	};
	size_t i;

	for (i = 0; i < countof(kinds); i++)
		if (strcmp(kind, kinds[i].name) == 0)
			return kinds[i].kind;
	return CONFIG_ROW_NONE;
}

enum config_row_kind
config_fault_row(uint32_t *ret_index)
{
	if (fault_number == 0 || fault_kind == CONFIG_ROW_NONE)
		return CONFIG_ROW_NONE;
	*ret_index = (uint32_t)fault_number - 1;
	return fault_kind;
}

void
config_set_row(struct config_reader *r, const char *kind, size_t number, const char *id)
{
	char place[24] = "";

	if (r->error != 0)
		return; /* the row that failed stands */
	r->fault->method = *kind != '\0' ? kind : NULL;
	fault_kind = row_kind(kind);
	fault_number = number;
	if (number > 0)
		snprintf(place, sizeof(place), " %zu", number);
	if (id != NULL)
		snprintf(fault_row, sizeof(fault_row), "%s%s (%s)", kind, place, id);
	else
		snprintf(fault_row, sizeof(fault_row), "%s%s", kind, place);
}

const char *
config_row_text(void)
{
	return fault_row;
}

/* ---- members -------------------------------------------------------------------------- */

const char *
config_take_text(struct config_reader *r, const char *field, struct slice s)
{
	const char *text;

	if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL) {
		config_fail(r, field, "holds a NUL");
		return "";
	}
	text = zone_text(&r->config->zone, s);
	if (text == NULL) {
		config_out_of_memory(r);
		return "";
	}
	return text;
}

const char *
config_take_address(struct config_reader *r, const char *field, struct slice s)
{
	const char *text = config_take_text(r, field, s), *fault = address_fault(text);

	if (*fault != '\0')
		config_fail(r, field, fault);
	return text;
}

const char **
config_take_list(
    struct config_reader *r, const char *field, struct slice list, size_t max, size_t *ret_n)
{
	const char **texts = NULL, *rule = NULL;
	int ret = grant_read_texts(&r->config->zone, list, max, &texts, ret_n, &rule);

	if (ret == -EINVAL)
		config_fail(r, field, rule);
	else if (ret < 0)
		config_out_of_memory(r);
	return texts;
}

static struct slice
take_packed(struct config_reader *r, struct slice s)
{
	struct slice copy = zone_bytes(&r->config->zone, s);

	if (copy.p == NULL)
		config_out_of_memory(r);
	return copy;
}

static void
take_path(struct config_reader *r, const char *field, struct slice list, struct path *ret)
{
	const char *fault;

	ret->segment = config_take_list(r, field, list, PATH_SEGMENTS_MAX, &ret->n);
	fault = r->error == 0 ? path_fault(ret) : "";
	if (*fault != '\0')
		config_fail(r, field, fault);
}

/* ---- rows ----------------------------------------------------------------------------- */

static void
take_retention(struct config_reader *r, const struct msg_config_broker *b)
{
	struct config *c = r->config;

	c->retention = b->has_retention ? b->retention : retention_memory;
	c->retained = (struct event_limits){
		.operation_bytes =
		    b->has_retentionOperation ? b->retentionOperation : RETENTION_OPERATION,
		.total_bytes = b->has_retentionTotal ? b->retentionTotal : RETENTION_TOTAL,
		.time_ms = b->has_retentionMs ? b->retentionMs : RETENTION_MS,
	};
	if (c->retention == retention_none) /* but for an ending that somebody waits for */
		c->retained.operation_bytes = 0;
}

/* Of so many rows as there are, none in the future. */
static struct slice
take_ages(struct config_reader *r, const char *field, struct slice list, size_t rows)
{
	struct value v = value_open(&list);
	struct slice rest = list;

	if (v.count != rows)
		config_fail(r, field, "has not one element for each");
	for (size_t i = 0; r->error == 0 && i < rows; i++) {
		v = value_skip(&rest);
		if (v.type != VALUE_UINT || v.uint > r->config->generation)
			config_fail(r, field, "has an element that is no generation so far");
	}
	return list;
}

/* Of the next row; where nothing is said it is new. */
static uint64_t
take_age(const struct config_reader *r, bool said, struct slice *ages)
{
	return said ? value_next(ages).uint : r->config->generation;
}

static int
take_broker(struct config_reader *r, const struct message *m)
{
	const struct msg_config_broker *b = &m->u.config_broker;
	struct config *c = r->config;

	config_set_row(r, "config.broker", 1, NULL);
	r->head = *b;
	c->namespace = config_take_text(r, "namespace", b->namespace);
	c->authority = config_take_address(r, "authority", b->authority);
	c->owner = config_take_address(r, "owner", b->owner);
	c->purpose = config_take_text(r, "purpose", b->purpose);
	memcpy(c->key, b->key.p, sizeof(c->key));
	c->durability = b->durability;
	c->revocation = b->revocation == revocation_mode_next_turn ? REVOCATION_next_turn
								    : REVOCATION_immediate;
	if (b->has_toolNamespaces)
		c->tool_namespaces = config_take_list(r, "toolNamespaces", b->toolNamespaces,
		    TOOL_NAMESPACES_MAX, &c->ntool_namespaces);
	c->max_steps = (uint32_t)b->maxSteps;
	c->max_tool_calls = (uint32_t)b->maxToolCalls;
	c->timeout_ms = (uint32_t)b->timeoutMs;
	c->drain_grace_ms = (uint32_t)b->drainGraceMs;
	c->kill_grace_ms = (uint32_t)b->killGraceMs;
	c->operator=(uint32_t) b->operator;
	c->sessions = b->has_sessions ? (uint32_t)b->sessions : 0;
	c->queue = b->has_queue ? (uint32_t)b->queue : QUEUE_DEFAULT;
	c->operation_timeout_ms = b->has_operationTimeoutMs ? (uint32_t)b->operationTimeoutMs
							    : OPERATION_TIMEOUT_DEFAULT_MS;
	if (c->queue == 0)
		config_fail(r, "queue", "is 0");
	if (c->operation_timeout_ms == 0)
		config_fail(r, "operationTimeoutMs", "is 0");
	take_retention(r, b);
	c->generation = b->has_generation ? b->generation : 0;
	c->started_at_ms = b->has_startedAt ? b->startedAt : 0;
	if (b->has_runtimesSince)
		r->runtimes_since =
		    take_ages(r, "runtimesSince", b->runtimesSince, c->nruntimes);
	if (b->has_providersSince)
		r->providers_since =
		    take_ages(r, "providersSince", b->providersSince, c->nproviders);
	return r->error;
}

static int
take_runtime(struct config_reader *r, const struct message *m)
{
	const struct msg_config_runtime *in = &m->u.config_runtime;
	struct config_runtime *out = &r->config->runtimes[r->runtimes++];

	config_set_row(r, "config.runtime", r->runtimes, NULL);
	out->id = config_take_text(r, "id", in->id);
	config_set_row(r, "config.runtime", r->runtimes, out->id);
	out->version = config_take_text(r, "version", in->version);
	out->kind = in->kind;
	out->learn = in->has_learn && in->learn;
	out->builtin = in->has_builtin && in->builtin;
	out->workspace = out->builtin || (in->has_workspace && in->workspace);
	if (out->builtin && out->kind != operation_kind_command)
		config_fail(r, "builtin", "is true for a turn");
	if (in->has_metadata)
		out->metadata = take_packed(r, in->metadata);
	out->since = take_age(r, r->head.has_runtimesSince, &r->runtimes_since);
	return r->error;
}

static int
take_provider(struct config_reader *r, const struct message *m)
{
	const struct msg_config_provider *in = &m->u.config_provider;
	struct config_provider *out = &r->config->providers[r->providers++];

	config_set_row(r, "config.provider", r->providers, NULL);
	out->id = config_take_text(r, "id", in->id);
	config_set_row(r, "config.provider", r->providers, out->id);
	out->shared = in->shared;
	out->concurrency = (uint32_t)in->concurrency;
	if (out->concurrency == 0)
		config_fail(r, "concurrency", "is 0");
	out->workspace = in->has_workspace && in->workspace;
	if (out->workspace && out->shared)
		config_fail(r, "workspace", "is true for a shared provider");
	out->since = take_age(r, r->head.has_providersSince, &r->providers_since);
	return r->error;
}

static int
compile_schema(
    struct config_reader *r, const char *field, struct slice packed, struct schema **ret_schema)
{
	char err[sizeof(fault_rule)] = "";
	int ret = schema_compile(packed, ret_schema, err, sizeof(err));

	if (ret == -EINVAL)
		return config_fail(r, field, err);
	return ret < 0 ? config_out_of_memory(r) : 0;
}

/* The schemas, then the template, which names properties of the first. */
int
config_compile_tool(struct config_reader *r, struct config_tool *t, const char *path)
{
	char err[sizeof(fault_rule)] = "";
	int ret;

	if (compile_schema(r, "input", t->input, &t->schema) < 0 ||
	    (t->output.n > 0 && compile_schema(r, "output", t->output, &t->result) < 0))
		return r->error;
	if (!schema_is_of_objects(t->schema))
		return config_fail(r, "input", "/: has no type object");
	ret = requirement_compile(path, t->schema, &t->path, err, sizeof(err));
	if (ret == -EINVAL)
		return config_fail(r, "path", err);
	return ret < 0 ? config_out_of_memory(r) : 0;
}

static int
take_tool(struct config_reader *r, const struct message *m)
{
	const struct msg_config_tool *in = &m->u.config_tool;
	struct config_tool *out = &r->config->tools[r->tools++];
	const char *path;

	config_set_row(r, "config.tool", r->tools, NULL);
	out->name = config_take_text(r, "name", in->name);
	config_set_row(r, "config.tool", r->tools, out->name);
	out->description = config_take_text(r, "description", in->description);
	out->namespace = config_take_text(r, "namespace", in->namespace);
	out->effect = in->effect;
	out->idempotent = in->idempotent;
	out->read_only = in->has_readOnly ? in->readOnly : in->effect == effect_read;
	out->destructive = in->has_destructive && in->destructive;
	if (out->read_only && in->effect != effect_read)
		config_fail(r, "readOnly", "is true for a write");
	if (out->destructive && in->effect == effect_read)
		config_fail(r, "destructive", "is true for a read");
	out->action = config_take_text(r, "action", in->action);
	out->resource = config_take_text(r, "resource", in->resource);
	path = config_take_text(r, "path", in->path);
	out->input = take_packed(r, in->input);
	if (in->has_output)
		out->output = take_packed(r, in->output);
	if (in->has_ceiling)
		take_path(r, "ceiling", in->ceiling, &out->ceiling);
	if (in->provider >= r->config->nproviders)
		return config_fail(r, "provider", "is the index of no provider");
	out->provider = (uint32_t)in->provider;
	return r->error < 0 ? r->error : config_compile_tool(r, out, path);
}

/* The rules for a capability are those of a grant that holds it (TU-38). */
static int
close_ceiling(struct config_reader *r, const struct capability *all)
{
	struct config *c = r->config;
	const struct grant shell = { .id = "ceiling", .subject = c->authority,
		.issuer = c->authority, .namespace = c->namespace, .capabilities = all,
		.ncapabilities = r->ncapabilities };
	const char *field = NULL, *fault = grant_fault(&shell, &field);

	c->ceiling = (struct ceiling){ true, all, r->ncapabilities };
	config_set_row(r, "config.ceiling", 1, NULL);
	return *fault == '\0' ? 0 : config_fail(r, field, fault);
}

/* The last grant, or the ceiling, is whole once another row than a capability comes. */
static int
close_grant(struct config_reader *r)
{
	const char *field = NULL, *fault;
	struct capability *all;
	struct grant *g;

	if (r->grants == 0 && !r->in_ceiling)
		return 0;
	all = zone_alloc(&r->config->zone, r->ncapabilities, sizeof(*all));
	if (all == NULL)
		return config_out_of_memory(r);
	memcpy(all, r->capabilities, r->ncapabilities * sizeof(*all));
	if (r->in_ceiling)
		return close_ceiling(r, all);
	g = &r->config->grants[r->grants - 1];
	g->capabilities = all;
	g->ncapabilities = r->ncapabilities;
	config_set_row(r, "config.grant", r->grants, g->id);
	fault = grant_fault(g, &field);
	return *fault == '\0' ? 0 : config_fail(r, field, fault);
}

static int
take_ceiling(struct config_reader *r, const struct message *m)
{
	(void)m;
	if (close_grant(r) < 0)
		return r->error;
	config_set_row(r, "config.ceiling", 1, NULL);
	if (r->has_ceiling)
		return config_fail(r, NULL, "is the second one");
	r->in_ceiling = r->has_ceiling = true;
	r->ncapabilities = 0;
	return 0;
}

static int
take_grant(struct config_reader *r, const struct message *m)
{
	const struct msg_config_grant *in = &m->u.config_grant;
	struct grant *out;

	if (close_grant(r) < 0)
		return r->error;
	r->ncapabilities = 0;
	r->in_ceiling = false;
	out = &r->config->grants[r->grants++];
	config_set_row(r, "config.grant", r->grants, NULL);
	out->id = config_take_text(r, "id", in->id);
	config_set_row(r, "config.grant", r->grants, out->id);
	out->subject = config_take_text(r, "subject", in->subject);
	out->issuer = config_take_text(r, "issuer", in->issuer);
	out->namespace = config_take_text(r, "namespace", in->namespace);
	out->issued_at_ms = in->has_issuedAt ? in->issuedAt : r->config->started_at_ms;
	if (in->has_notBefore)
		out->not_before_ms = in->notBefore;
	if (in->has_expiresAt) {
		/* 0 would mean never: what was meant to be over must not live for ever. */
		if (in->expiresAt == 0)
			config_fail(r, "expiresAt", "is 0");
		out->expires_at_ms = in->expiresAt;
	}
	out->bounded = in->has_maxUses;
	if (in->has_maxUses)
		out->max_uses = (uint32_t)in->maxUses;
	if (in->has_parent)
		out->parent = config_take_text(r, "parent", in->parent);
	if (in->has_delegationDepth)
		out->delegation_depth = (uint32_t)in->delegationDepth;
	if (in->has_purposes)
		out->purposes = config_take_list(
		    r, "purposes", in->purposes, AUTHORITY_PURPOSES_MAX, &out->npurposes);
	return r->error;
}

static int
take_capability(struct config_reader *r, const struct message *m)
{
	const struct msg_config_capability *in = &m->u.config_capability;
	const char *id = r->in_ceiling ? "ceiling" : r->config->grants[r->grants - 1].id;
	struct capability *out;

	config_set_row(r, "config.capability", r->ncapabilities + 1, id);
	if (r->ncapabilities == AUTHORITY_CAPABILITIES_MAX)
		return config_fail(r, NULL, "is one more than a grant may have");
	out = &r->capabilities[r->ncapabilities++];
	*out = (struct capability){ .descendants = in->scope == scope_descendants };
	out->namespace = config_take_text(r, "namespace", in->namespace);
	if (in->has_owner)
		out->owner = config_take_text(r, "owner", in->owner);
	out->path.segment =
	    config_take_list(r, "path", in->path, PATH_SEGMENTS_MAX, &out->path.n);
	out->actions =
	    config_take_list(r, "actions", in->actions, AUTHORITY_ACTIONS_MAX, &out->nactions);
	return r->error;
}

static int
take_end(struct config_reader *r, const struct message *m)
{
	(void)m;
	return close_grant(r);
}

/* ---- the table ------------------------------------------------------------------------- */

static const struct config_row rows[] = {
	{ MSG_config_broker, PART_BROKER, take_broker },
	{ MSG_config_runtime, PART_RUNTIMES, take_runtime },
	{ MSG_config_principal, PART_PRINCIPALS, config_take_principal },
	{ MSG_config_provider, PART_PROVIDERS, take_provider },
	{ MSG_config_tool, PART_TOOLS, take_tool },
	{ MSG_config_grant, PART_GRANTS, take_grant },
	{ MSG_config_ceiling, PART_GRANTS, take_ceiling },
	{ MSG_config_capability, PART_GRANTS, take_capability },
	{ MSG_config_end, PART_END, take_end },
};

const struct config_row *
config_row(enum msg_type type)
{
	size_t i;

	for (i = 0; i < countof(rows); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}
