/*
 * config_principals: config.principal, and what no two of them may have in common: whoever
 * shows something is one principal, or nobody.
 */
#include "broker/config_rows.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"

/* ---- one row --------------------------------------------------------------------------- */

/* Digests, 32 bytes each, in a zone. */
static const uint8_t (*take_digests(struct config_reader *r, const char *field,
    struct slice list, size_t *ret_n))[SHA256_BYTES]
{
	struct value v, head = value_next(&list);
	uint8_t(*digests)[SHA256_BYTES];

	r->proofs += head.count;
	if (r->proofs > CONFIG_PROOFS_MAX) {
		config_fail(r, field, "has more than all principals may have together");
		return NULL;
	}
	digests = zone_alloc(&r->config->zone, head.count, sizeof(*digests));
	if (digests == NULL) {
		config_out_of_memory(r);
		return NULL;
	}
	for (uint32_t i = 0; i < head.count; i++) {
		v = value_skip(&list);
		if (v.type != VALUE_BIN || v.bytes.n != SHA256_BYTES) {
			config_fail(r, field, "has an element that is not 32 bytes");
			return NULL;
		}
		memcpy(digests[i], v.bytes.p, SHA256_BYTES);
	}
	*ret_n = head.count;
	return (const uint8_t(*)[SHA256_BYTES])digests;
}

static const uint32_t *
take_uids(struct config_reader *r, struct slice list, size_t *ret_n)
{
	struct value v, head = value_next(&list);
	uint32_t *uids;

	r->uids += head.count;
	if (r->uids > CONFIG_UIDS_MAX) {
		config_fail(r, "uids", "has more than all principals may have together");
		return NULL;
	}
	uids = zone_alloc(&r->config->zone, head.count, sizeof(*uids));
	if (uids == NULL) {
		config_out_of_memory(r);
		return NULL;
	}
	for (uint32_t i = 0; i < head.count; i++) {
		v = value_skip(&list);
		/* The last number is nobody's: it says "unchanged" to the kernel. */
		if (v.type != VALUE_UINT || v.uint >= UINT32_MAX) {
			config_fail(r, "uids", "has an element that is no uid");
			return NULL;
		}
		uids[i] = (uint32_t)v.uint;
	}
	*ret_n = head.count;
	return uids;
}

static bool
has_runtime(const struct config *c, const char *id)
{
	for (size_t i = 0; i < c->nruntimes; i++)
		if (strcmp(c->runtimes[i].id, id) == 0)
			return true;
	return false;
}

static void
check_runtimes(struct config_reader *r, struct config_principal *p)
{
	for (size_t i = 0; i < p->nruntimes; i++) {
		if (strcmp(p->runtimes[i], "*") == 0)
			p->all_runtimes = true;
		else if (!has_runtime(r->config, p->runtimes[i]))
			config_fail(r, "runtimes", "names a runtime that is not configured");
	}
}

int
config_take_principal(struct config_reader *r, const struct message *m)
{
	const struct msg_config_principal *in = &m->u.config_principal;
	struct config_principal *out = &r->config->principals[r->principals++];

	config_set_row(r, "config.principal", r->principals, NULL);
	out->id = config_take_address(r, "id", in->id);
	config_set_row(r, "config.principal", r->principals, out->id);
	out->operator = in->has_operator && in->operator;
	out->tokens = take_digests(r, "tokens", in->tokens, &out->ntokens);
	out->certificates =
	    take_digests(r, "certificates", in->certificates, &out->ncertificates);
	out->uids = take_uids(r, in->uids, &out->nuids);
	out->runtimes = config_take_list(
	    r, "runtimes", in->runtimes, r->config->nruntimes + 1, &out->nruntimes);
	out->sessions = (uint32_t)in->sessions;
	out->connections = (uint32_t)in->connections;
	if (out->connections == 0)
		config_fail(r, "connections", "is 0");
	if (r->error == 0)
		check_runtimes(r, out);
	return r->error;
}

/* ---- all of them ------------------------------------------------------------------------ */

/* Something that stands in a principal's row, and may stand once. */
struct once {
	const void *value;
	size_t n; /* bytes */
	uint32_t row;
};

static int
compare_once(const void *a, const void *b)
{
	const struct once *x = a, *y = b;
	int order = memcmp(x->value, y->value, x->n);

	/* Which of two stands behind the other: that is the one to blame. */
	return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

static int
check_once(struct config_reader *r, const char *field, struct once *all, size_t n)
{
	/* Not qsort(): see check_unique(). */
	if (n > 1 && heapsort(all, n, sizeof(*all), compare_once) < 0)
		return config_out_of_memory(r);
	for (size_t i = 1; i < n; i++) {
		if (memcmp(all[i - 1].value, all[i].value, all[i].n) != 0)
			continue;
		config_set_row(r, "config.principal", all[i].row + 1,
		    r->config->principals[all[i].row].id);
		return config_fail(r, field, "has one that stands before, here or elsewhere");
	}
	return 0;
}

/* Lists of elements of `size` bytes, of all principals. */
static int
check_lists(struct config_reader *r, const char *field, size_t list, size_t count, size_t size)
{
	const struct config *c = r->config;
	cleanup_free struct once *all =
	    calloc(CONFIG_PROOFS_MAX + CONFIG_UIDS_MAX, sizeof(*all));
	size_t n = 0;

	if (all == NULL)
		return config_out_of_memory(r);
	for (uint32_t row = 0; row < c->nprincipals; row++) {
		const char *p = (const char *)&c->principals[row];
		const char *elements = *(const char *const *)(p + list);

		for (size_t i = 0; i < *(const size_t *)(p + count); i++)
			all[n++] = (struct once){ elements + i * size, size, row };
	}
	return check_once(r, field, all, n);
}

#define CHECK(r, member)                                                                   \
	check_lists(r, #member, offsetof(struct config_principal, member),                 \
	    offsetof(struct config_principal, n##member),                                  \
	    sizeof(*((struct config_principal *)NULL)->member))

int
config_check_principals(struct config_reader *r)
{
	if (r->config->nprincipals == 0)
		return 0;
	return CHECK(r, tokens) < 0 || CHECK(r, certificates) < 0 || CHECK(r, uids) < 0
		   ? r->error
		   : 0;
}
