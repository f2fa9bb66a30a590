#include "broker/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <seccomp.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/walk.h"

/* HMAC-SHA-256; the key is set once, each digest starts from a copy of that state. */
struct digest {
	EVP_MAC *mac;
	EVP_MAC_CTX *keyed;
	struct buf canonical;
};

struct digest *
digest_create(const uint8_t key[32])
{
	struct digest *d = calloc(1, sizeof *d);
	char sha256[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, sha256, 0),
		OSSL_PARAM_construct_end(),
	};

	if (d == NULL)
		return NULL;
	d->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	d->keyed = d->mac == NULL ? NULL : EVP_MAC_CTX_new(d->mac);
	if (d->keyed == NULL || EVP_MAC_init(d->keyed, key, 32, params) != 1) {
		digest_destroy(d);
		return NULL;
	}
	return d;
}

void
digest_destroy(struct digest *d)
{
	if (d == NULL)
		return;
	EVP_MAC_CTX_free(d->keyed);
	EVP_MAC_free(d->mac);
	buf_finish(&d->canonical);
	free(d);
}

int
digest_value(struct digest *d, struct slice value, uint8_t ret[32])
{
	size_t n;
	int r;

	d->canonical.n = 0;
	r = value_canonical(value, &d->canonical);
	if (r < 0)
		return r;
	if (EVP_MAC_init(d->keyed, NULL, 0, NULL) != 1 ||
	    EVP_MAC_update(d->keyed, d->canonical.p, d->canonical.n) != 1 ||
	    EVP_MAC_final(d->keyed, ret, &n, 32) != 1)
		return -EIO;
	return 0;
}

void
broker_mint(char id[40], const char *prefix)
{
	uint8_t random[16];
	int n = snprintf(id, 40, "%s-", prefix);

	arc4random_buf(random, sizeof random);
	hex_encode(random, sizeof random, id + n);
}

void
record_init(struct msg_record *r, struct broker *b, struct operation *op, const char *type,
    char id[40])
{
	memset(r, 0, sizeof *r);
	broker_mint(id, "r");
	r->id = slice_of(id);
	r->type = slice_of(type);
	r->at = clock_wall_ms();
	RECORD_TEXT(r, namespace, b->config->namespace);
	RECORD_TEXT(r, authority, b->config->authority);
	RECORD_TEXT(r, owner, b->config->owner);
	if (op == NULL)
		return;
	RECORD_TEXT(r, operation, op->id);
	RECORD_TEXT(r, trace, op->trace);
	RECORD_TEXT(r, runtime, b->config->runtimes[op->runtime].id);
	if (op->turn != NULL) {
		RECORD_TEXT(r, actor, op->turn->agent);
		RECORD_TEXT(r, purpose, b->config->purpose);
	}
}

/* The name of a system call; the caller frees it; NULL for a number nobody knows. */
static char *
syscall_name(const struct exit_facts *exit)
{
	return seccomp_syscall_resolve_num_arch(exit->arch, (int)exit->syscall);
}

void
cause_detail(const struct operation *op, char *buf, size_t cap)
{
	char *name;

	buf[0] = '\0';
	switch (op->ending) {
	case ENDING_exited: snprintf(buf, cap, "%d", op->exit.status); break;
	case ENDING_signaled:
		snprintf(buf, cap, "%d%s", op->exit.status, op->exit.core ? " core" : "");
		break;
	case ENDING_seccomp:
		name = syscall_name(&op->exit);
		snprintf(buf, cap, "%s", name != NULL ? name : "unknown");
		free(name);
		break;
	case ENDING_limit:
		snprintf(buf, cap, "%s", op->limit_name != NULL ? op->limit_name : "");
		break;
	case ENDING_runtime_protocol_violation:
		snprintf(buf, cap, "%s%s%s%s%s", op->fault.rule != NULL ? op->fault.rule : "",
		    op->fault.method != NULL ? ": " : "",
		    op->fault.method != NULL ? op->fault.method : "",
		    op->fault.field != NULL ? ": " : "",
		    op->fault.field != NULL ? op->fault.field : "");
		break;
	case ENDING_start_failed:
		snprintf(buf, cap, "%s: %s", layer_name(op->layer), strerror(op->error));
		break;
	case ENDING_completed:
		if (op->kind == operation_kind_command && op->exit.kind == EXIT_EXITED)
			snprintf(buf, cap, "%d", op->exit.status);
		break;
	default: break;
	}
}

/* How the kernel saw a command end, as {kind, code | signal, core}. */
static void
exit_pack(struct buf *b, const struct exit_facts *exit)
{
	if (exit->kind == EXIT_EXITED) {
		pack_map(b, 2);
		pack_str(b, "kind");
		pack_str(b, "exited");
		pack_str(b, "code");
		pack_int(b, exit->status);
	} else if (exit->kind == EXIT_SIGNALED) {
		pack_map(b, 3);
		pack_str(b, "kind");
		pack_str(b, "signaled");
		pack_str(b, "signal");
		pack_int(b, exit->status);
		pack_str(b, "core");
		pack_bool(b, exit->core != 0);
	} else {
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, "unknown");
	}
}

void
cause_pack(struct buf *b, const struct operation *op)
{
	const struct ending_desc *e = ending_desc(op->ending);
	char *name;

	if (op->ending == ENDING_exited || op->ending == ENDING_signaled ||
	    (op->ending == ENDING_completed && op->kind == operation_kind_command)) {
		exit_pack(b, &op->exit);
		return;
	}
	switch (op->ending) {
	case ENDING_seccomp:
		name = syscall_name(&op->exit);
		pack_map(b, 2);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "syscall");
		if (name != NULL)
			pack_str(b, name);
		else
			pack_uint(b, op->exit.syscall);
		free(name);
		break;
	case ENDING_limit:
		pack_map(b, 2);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "name");
		pack_str(b, op->limit_name != NULL ? op->limit_name : "unknown");
		break;
	case ENDING_runtime_protocol_violation:
		pack_map(b, 2u + (op->fault.method != NULL) + (op->fault.field != NULL));
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "rule");
		pack_str(b, op->fault.rule != NULL ? op->fault.rule : "unknown");
		if (op->fault.method != NULL) {
			pack_str(b, "method");
			pack_str(b, op->fault.method);
		}
		if (op->fault.field != NULL) {
			pack_str(b, "field");
			pack_str(b, op->fault.field);
		}
		break;
	case ENDING_start_failed:
		pack_map(b, 3);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "layer");
		pack_str(b, layer_name(op->layer));
		pack_str(b, "errno");
		pack_int(b, op->error);
		break;
	default:
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, e->cause);
	}
}

void
usage_pack(struct buf *b, const struct exit_facts *exit)
{
	pack_map(b, 2);
	pack_str(b, "cpuMs");
	pack_uint(b, exit->cpu_us / 1000);
	pack_str(b, "peakBytes");
	pack_uint(b, exit->peak_bytes);
}
