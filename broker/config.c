#include "broker/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/config_rows.h"
#include "common/sha256.h"
#include "common/util.h"

#define READ_FIRST (64u << 10) /* bytes */

/* ---- the frames ----------------------------------------------------------------------- */

static int
take_row(struct config_reader *r, const struct message *m)
{
	return config_row(m->type)->take(r, m);
}

/* The first time round: is it in its place, and how many of each kind are there? */
static int
count_row(struct config_reader *r, const struct message *m)
{
	const struct config_row *row = config_row(m->type);
	struct config *c = r->config;

	config_set_row(r, protocol_name(m->type), r->rows, NULL);
	if (row == NULL)
		return config_fail(r, NULL, "is not a row of a configuration");
	if (!r->begun && row->part != PART_BROKER)
		return config_fail(r, NULL, "stands before config.broker");
	if (r->begun && row->part == PART_BROKER)
		return config_fail(r, NULL, "is the second one");
	if (row->part < r->part)
		return config_fail(r, NULL, "is out of order");
	if (row->type == MSG_config_capability && r->part != PART_GRANTS)
		return config_fail(r, NULL, "has no grant or ceiling before it");
	r->begun = true;
	r->part = row->part;
	c->nruntimes += row->type == MSG_config_runtime;
	c->nprincipals += row->type == MSG_config_principal;
	c->nproviders += row->type == MSG_config_provider;
	c->ntools += row->type == MSG_config_tool;
	c->ngrants += row->type == MSG_config_grant;
	return 0;
}

/* Calls `fn` for every frame up to and including config.end, which must be the last. */
static int
each_frame(struct config_reader *r, struct slice bytes, config_row_fn *fn)
{
	const uint8_t *p = bytes.p, *end = bytes.p + bytes.n;
	struct message m = { .type = MSG_TYPE_MAX };
	const char *rule;
	uint32_t n;

	for (r->rows = 1; p < end; r->rows++) {
		config_set_row(r, "frame", r->rows, NULL);
		if (m.type == MSG_config_end)
			return config_fail(r, NULL, "stands behind config.end");
		if (end - p < 4)
			return config_fail(r, NULL, "is cut short");
		n = protocol_length(p);
		p += 4;
		if (n > FRAME_MAX)
			return config_fail(r, NULL, "is too long");
		if (n > (size_t)(end - p))
			return config_fail(r, NULL, "is cut short");
		if (protocol_decode(p, n, ROLE_SUPERVISOR, ROLE_BROKER, LINK_NEW, NULL, NULL,
			&m, r->fault) < 0) {
			if (r->fault->method != NULL)
				config_set_row(r, r->fault->method, r->rows, NULL);
			rule = r->fault->rule;
			return config_fail(
			    r, r->fault->field, rule != NULL ? rule : "cannot be read");
		}
		if (fn(r, &m) < 0)
			return r->error;
		p += n;
	}
	config_set_row(r, "frame", r->rows, NULL);
	return m.type == MSG_config_end
		   ? 0
		   : config_fail(r, NULL, "is missing: the last is config.end");
}

/* ---- names ---------------------------------------------------------------------------- */

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Elements of `size` bytes that begin with their name: no two may have the same. */
static int
check_unique(
    struct config_reader *r, const char *kind, const void *elements, size_t n, size_t size)
{
	cleanup_free const char **names = calloc(n + 1, sizeof(*names));
	size_t i;

	if (names == NULL)
		return config_out_of_memory(r);
	for (i = 0; i < n; i++)
		names[i] = *(const char *const *)((const char *)elements + i * size);
	/* Not qsort(): glibc's asks the kernel how much memory there is, which our list
	 * forbids. */
	if (heapsort(names, n, sizeof(*names), compare_names) < 0)
		return config_out_of_memory(r);
	for (i = 1; i < n; i++) {
		if (strcmp(names[i - 1], names[i]) != 0)
			continue;
		config_set_row(r, kind, 0, names[i]);
		return config_fail(
		    r, strcmp(kind, "config.tool") == 0 ? "name" : "id", "stands twice");
	}
	return 0;
}

static int
compare_tools(const void *a, const void *b)
{
	return strcmp((*(const struct config_tool *const *)a)->name,
	    (*(const struct config_tool *const *)b)->name);
}

static int
index_names(struct config_reader *r)
{
	struct config *c = r->config;
	size_t i;

	_Static_assert(offsetof(struct config_runtime, id) == 0, "check_unique()");
	_Static_assert(offsetof(struct config_principal, id) == 0, "check_unique()");
	_Static_assert(offsetof(struct config_provider, id) == 0, "check_unique()");
	_Static_assert(offsetof(struct config_tool, name) == 0, "check_unique()");
	_Static_assert(offsetof(struct grant, id) == 0, "check_unique()");
	if (check_unique(
		r, "config.runtime", c->runtimes, c->nruntimes, sizeof(*c->runtimes)) ||
	    check_unique(r, "config.principal", c->principals, c->nprincipals,
		sizeof(*c->principals)) ||
	    check_unique(
		r, "config.provider", c->providers, c->nproviders, sizeof(*c->providers)) ||
	    check_unique(r, "config.tool", c->tools, c->ntools, sizeof(*c->tools)) ||
	    check_unique(r, "config.grant", c->grants, c->ngrants, sizeof(*c->grants)))
		return r->error;
	c->by_name = zone_alloc(&c->zone, c->ntools, sizeof(*c->by_name));
	if (c->by_name == NULL)
		return config_out_of_memory(r);
	for (i = 0; i < c->ntools; i++)
		c->by_name[i] = &c->tools[i];
	return heapsort(c->by_name, c->ntools, sizeof(*c->by_name), compare_tools) < 0 ?
	    config_out_of_memory(r) : 0;
}

bool
config_is_enabled(const struct config *c, const struct config_tool *tool)
{
	size_t i;

	for (i = 0; i < c->ntool_namespaces; i++)
		if (strcmp(c->tool_namespaces[i], tool->namespace) == 0)
			return true;
	return c->tool_namespaces == NULL;
}

const struct config_tool *
config_tool(const struct config *c, struct slice name)
{
	size_t low = 0, high = c->ntools, middle;
	const struct config_tool *t;
	int order;

	/* The name is a peer's: no NUL at its end, and perhaps one within. */
	if (name.n == 0)
		return NULL;
	while (low < high) {
		middle = low + (high - low) / 2;
		t = c->by_name[middle];
		if (slice_is(name, t->name))
			return t;
		order = strncmp((const char *)name.p, t->name, name.n);
		if (order < 0 || (order == 0 && name.n <= strlen(t->name)))
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* ---- the whole ------------------------------------------------------------------------ */

/* Another broker may have read the same memfd before us: its offset is not ours. */
static ssize_t
read_at(int fd, void *p, size_t n, size_t offset)
{
	ssize_t got;

	do {
		got = pread(fd, p, n, (off_t)offset);
		if (got < 0 && errno == ESPIPE)
			got = read(fd, p, n);
	} while (got < 0 && errno == EINTR);
	return got;
}

static int
read_bytes(struct config_reader *r, int fd, struct slice *ret)
{
	size_t n = 0, cap = READ_FIRST;
	uint8_t *p = malloc(cap), *more;
	ssize_t got;

	while (p != NULL) {
		got = read_at(fd, p + n, cap - n, n);
		if (got <= 0)
			break;
		n += (size_t)got;
		if (n < cap)
			continue;
		cap *= 2;
		more = cap <= 2 * CONFIG_BYTES_MAX ? realloc(p, cap) : NULL;
		if (more == NULL) {
			free(p);
			return cap <= 2 * CONFIG_BYTES_MAX
				   ? config_out_of_memory(r)
				   : config_fail(r, NULL, "is too long");
		}
		p = more;
	}
	if (p == NULL)
		return config_out_of_memory(r);
	if (got < 0) {
		r->error = -errno;
		r->fault->rule = "cannot be read";
		free(p);
		return r->error;
	}
	*ret = (struct slice){ p, n };
	return 0;
}

static int
make_room(struct config_reader *r)
{
	struct config *c = r->config;

	c->runtimes = zone_alloc(&c->zone, c->nruntimes, sizeof(*c->runtimes));
	if (c->nprincipals > CONFIG_PRINCIPALS_MAX) {
		config_set_row(r, "config.principal", CONFIG_PRINCIPALS_MAX + 1, NULL);
		return config_fail(r, NULL, "is one more than there may be");
	}
	c->principals = zone_alloc(&c->zone, c->nprincipals, sizeof(*c->principals));
	c->providers = zone_alloc(&c->zone, c->nproviders, sizeof(*c->providers));
	c->tools = zone_alloc(&c->zone, c->ntools + OWN_TOOLS, sizeof(*c->tools));
	c->grants = zone_alloc(&c->zone, c->ngrants, sizeof(*c->grants));
	if (c->runtimes == NULL || c->principals == NULL || c->providers == NULL ||
	    c->tools == NULL || c->grants == NULL)
		return config_out_of_memory(r);
	return 0;
}

static void
config_destroy(struct config *c)
{
	size_t i;

	for (i = 0; c->tools != NULL && i < c->ntools; i++) {
		schema_destroy(c->tools[i].schema);
		schema_destroy(c->tools[i].result);
		requirement_destroy(c->tools[i].path);
	}
	explicit_bzero(c->key, sizeof(c->key));
	zone_finish(&c->zone);
	free(c);
}

struct config *
config_hold(struct config *c)
{
	c->users++;
	return c;
}

/* A row of `by` and the one of its id in `c`: the later one knows since when it has been so. */
static bool
is_the_same(const struct config *by, uint64_t by_since, const struct config *c, uint64_t since)
{
	return by->generation > c->generation ? by_since <= c->generation
					      : since <= by->generation;
}

bool
config_same_runtime(
    const struct config *by, uint32_t index, const struct config *c, uint32_t *ret)
{
	const struct config_runtime *r = &by->runtimes[index];
	uint32_t i = 0;

	while (i < c->nruntimes && strcmp(c->runtimes[i].id, r->id) != 0)
		i++;
	if (i == c->nruntimes)
		return false;
	*ret = i;
	return is_the_same(by, r->since, c, c->runtimes[i].since);
}

bool
config_same_provider(
    const struct config *by, uint32_t index, const struct config *c, uint32_t *ret)
{
	const struct config_provider *p = &by->providers[index];
	uint32_t i = 0;

	while (i < c->nproviders && strcmp(c->providers[i].id, p->id) != 0)
		i++;
	if (i == c->nproviders)
		return false;
	*ret = i;
	/* What its places are counted by is the same, whatever is said. */
	return c->providers[i].shared == p->shared &&
	    c->providers[i].concurrency == p->concurrency &&
	    is_the_same(by, p->since, c, c->providers[i].since);
}

void
config_release(struct config *c)
{
	if (c != NULL && --c->users == 0)
		config_destroy(c);
}

/*
 * Of all frames, as they are, but for what says when this was packed, and since when it has
 * been so, and the key: that is what it is keyed with.
 */
static int
set_digest(struct config_reader *r, struct slice bytes)
{
	static const uint8_t no_key[sizeof(r->config->key)];
	size_t head = 4 + protocol_length(bytes.p);
	struct msg_config_broker m = r->head;
	struct sha256_key key;
	struct buf b = { 0 };
	int ret;

	m.key.p = no_key;
	m.has_generation = m.has_startedAt = false;
	m.has_runtimesSince = m.has_providersSince = false;
	ret = protocol_notify(&b, MSG_config_broker, &m);
	buf_add(&b, bytes.p + head, bytes.n - head);
	if (ret == 0 && !b.failed) {
		sha256_key_init(&key, r->config->key, sizeof(r->config->key));
		sha256_keyed(&key, buf_slice(&b), r->config->digest);
		explicit_bzero(&key, sizeof(key));
	}
	ret = ret == 0 && !b.failed ? 0 : config_out_of_memory(r);
	buf_finish(&b);
	return ret;
}

uint32_t
config_users(const struct config *c)
{
	return c->users;
}

int
config_read(int fd, struct config **ret, struct fault *fault, const char **ret_row)
{
	struct slice bytes = { NULL, 0 };
	struct config_reader r = { .fault = fault };

	*fault = (struct fault){ 0 };
	config_set_row(&r, "", 0, NULL);
	*ret_row = config_row_text();
	r.config = calloc(1, sizeof(*r.config));
	if (r.config == NULL)
		return config_out_of_memory(&r);
	if (read_bytes(&r, fd, &bytes) == 0 && each_frame(&r, bytes, count_row) == 0 &&
	    make_room(&r) == 0 && each_frame(&r, bytes, take_row) == 0 &&
	    config_own_tools(&r) == 0 && config_check_principals(&r) == 0 &&
	    index_names(&r) == 0 &&
	    set_digest(&r, bytes) == 0) {
		config_set_row(&r, "", 0, NULL);
		*ret = config_hold(r.config);
	} else {
		config_destroy(r.config);
	}
	free((uint8_t *)(uintptr_t)bytes.p);
	return r.error;
}
