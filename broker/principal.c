#include "broker/principal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/record.h"
#include "common/link.h"
#include "common/log.h"

/* ---- the objects ------------------------------------------------------------------------ */

static struct principal *
principal_create(struct broker *b, struct slice id, bool local)
{
	struct principal *p = calloc(1, sizeof *p);

	if (p != NULL)
		p->id = slice_dup(id);
	if (p == NULL || p->id == NULL) {
		free(p);
		return NULL;
	}
	p->local = local;
	TAILQ_INSERT_TAIL(&b->principals, p, entry);
	return p;
}

static void
principal_destroy(struct broker *b, struct principal *p)
{
	TAILQ_REMOVE(&b->principals, p, entry);
	free(p->id);
	free(p);
}

/* The operator at the local socket is another than a principal of the same name. */
static struct principal *
principal_find(const struct broker *b, struct slice id, bool local)
{
	struct principal *p;

	TAILQ_FOREACH (p, &b->principals, entry)
		if (p->local == local && slice_is(id, p->id))
			return p;
	return NULL;
}

struct principal *
principal_named(struct broker *b, struct slice id)
{
	struct principal *p = principal_find(b, id, false);

	if (p == NULL)
		p = principal_find(b, id, true);
	return p != NULL ? p : principal_create(b, id, false);
}

struct principal *
principal_hold(struct principal *p)
{
	p->users++;
	return p;
}

static void
principal_drop_unused(struct broker *b, struct principal *p)
{
	if (p->users == 0 && p->row == NULL && !p->local)
		principal_destroy(b, p);
}

void
principal_release(struct broker *b, struct principal *p)
{
	if (p == NULL)
		return;
	p->users--;
	principal_drop_unused(b, p);
}

struct asker
asker_of(const struct client *c)
{
	return (struct asker){ c->uid, principal_hold(c->principal) };
}

struct asker
asker_copy(const struct asker *a)
{
	return (struct asker){ a->uid, principal_hold(a->principal) };
}

void
asker_forget(struct broker *b, struct asker *a)
{
	principal_release(b, a->principal);
	a->principal = NULL;
}

void
asker_record(struct msg_record *m, const struct asker *a)
{
	m->has_by = a->uid != UID_NONE;
	m->by = a->uid;
	if (!m->has_by)
		RECORD_TEXT(m, principal, a->principal->id);
}

bool
principal_is_operator(const struct principal *p)
{
	return p != NULL && (p->local || (p->row != NULL && p->row->operator));
}

bool
principal_may_runtime(const struct principal *p, const char *runtime)
{
	const struct config_principal *row = p != NULL ? p->row : NULL;

	if (principal_is_operator(p))
		return true;
	if (row == NULL)
		return false;
	for (size_t i = 0; i < row->nruntimes; i++)
		if (strcmp(row->runtimes[i], runtime) == 0)
			return true;
	return row->all_runtimes;
}

bool
principal_sees(const struct principal *p, const struct principal *owner)
{
	if (principal_is_operator(p))
		return true;
	return p != NULL && owner != NULL && strcmp(p->id, owner->id) == 0;
}

bool
principal_session_open(struct principal *p, bool recorded)
{
	/* The operator at the local socket has the bound of all. */
	if (!recorded && !p->local && (p->row == NULL || p->sessions >= p->row->sessions))
		return false;
	p->sessions++;
	return true;
}

void
principal_session_close(struct principal *p)
{
	p->sessions--;
}

/* ---- who shows what ---------------------------------------------------------------------- */

static bool
uid_is_operator(const struct config *config, uint32_t uid)
{
	/* Nobody's own daemon has no other operator than itself: it is what is left where there
	 * is nobody to ask. */
	return uid == config->operator || (uid == 0 && config->operator != UID_NOBODY);
}

static const char *
id_of_uid(const struct config *config, uint32_t uid)
{
	for (size_t i = 0; i < config->nprincipals; i++)
		for (size_t k = 0; k < config->principals[i].nuids; k++)
			if (config->principals[i].uids[k] == uid)
				return config->principals[i].id;
	return NULL;
}

/*
 * Whose digest it is; NULL: nobody's.  All are looked at, each to its end, so that the time
 * says nothing of how much of which one was right.
 */
static const char *
id_of_digest(const struct config *config, bool certificates, const uint8_t digest[SHA256_BYTES])
{
	const char *found = NULL;

	for (size_t i = 0; i < config->nprincipals; i++) {
		const struct config_principal *p = &config->principals[i];
		const uint8_t(*all)[SHA256_BYTES] = certificates ? p->certificates : p->tokens;
		size_t n = certificates ? p->ncertificates : p->ntokens;
		int right = 0;

		for (size_t k = 0; k < n; k++)
			right |= CRYPTO_memcmp(all[k], digest, SHA256_BYTES) == 0;
		if (right)
			found = p->id;
	}
	return found;
}

/* All that is shown has to be one and the same principal's. */
static struct principal *
principal_shown(const struct broker *b, const struct proof *proof)
{
	const struct config *config = b->config;
	const char *token = NULL, *certificate = NULL, *id = NULL;

	if (proof->by_uid && uid_is_operator(config, proof->uid))
		return principal_find(b, slice_of(config->authority), true);
	if (proof->by_uid)
		id = id_of_uid(config, proof->uid);
	if (proof->by_token)
		id = token = id_of_digest(config, false, proof->token);
	if (proof->by_certificate)
		id = certificate = id_of_digest(config, true, proof->certificate);
	if (proof->by_token && proof->by_certificate &&
	    (token == NULL || certificate == NULL || strcmp(token, certificate) != 0))
		return NULL;
	return id != NULL ? principal_find(b, slice_of(id), false) : NULL;
}

/* False: it has as many links as it may. */
static bool
client_become(struct client *c, struct principal *p, const struct proof *proof)
{
	if (!p->local && p->clients >= p->row->connections)
		return false;
	p->clients++;
	c->principal = principal_hold(p);
	c->proof = *proof;
	c->proof.operator = principal_is_operator(p);
	return true;
}

static void
client_be_nobody(struct client *c)
{
	struct principal *p = c->principal;

	if (p == NULL)
		return;
	c->principal = NULL;
	p->clients--;
	principal_release(c->broker, p);
}

/* ---- clients ----------------------------------------------------------------------------- */

static void
client_set_local(struct client *c)
{
	const struct proof proof = { .by_uid = true, .uid = c->uid };
	struct principal *p = principal_shown(c->broker, &proof);

	c->full = p != NULL && !client_become(c, p, &proof);
}

void
principal_on_client(struct client *c)
{
	if (c->gateway)
		c->uid = c->gid = UID_NONE;
	else
		client_set_local(c);
}

void
principal_on_client_end(struct client *c)
{
	client_be_nobody(c);
}

/* One that nobody has is an attack, or a mistake; neither is told which. */
static void
refuse_proof(struct client *c, uint32_t msgid, const char *code, const char *message)
{
	c->broker->stats.proofs_wrong += strcmp(code, "unauthenticated") == 0;
	link_refuse(c->link, msgid, code, message, false);
	if (++c->proofs_failed < PROOFS_FAILED_MAX)
		return;
	log_info("a client of the gateway has shown %d times what is nobody's, and is dropped",
	    PROOFS_FAILED_MAX);
	link_close(c->link);
}

void
principal_prove(struct client *c, uint32_t msgid, const struct msg_principal_prove *m)
{
	static const struct slice nothing;
	struct msg_principal_prove_reply reply = { 0 };
	struct proof proof = { .by_token = m->has_token, .by_certificate = m->has_certificate };
	struct principal *p;

	if (!c->gateway || c->principal != NULL) {
		link_refuse(c->link, msgid, "failed_precondition",
		    c->gateway ? "it is proven who this is, and proven once a connection"
			       : "the kernel says who a local client is",
		    false);
		return;
	}
	if (!m->has_token && !m->has_certificate) {
		refuse_proof(
		    c, msgid, "invalid_argument", "show a token, a certificate or both");
		return;
	}
	if (m->has_token)
		sha256(m->token, nothing, proof.token);
	if (m->has_certificate)
		memcpy(proof.certificate, m->certificate.p, SHA256_BYTES);
	p = principal_shown(c->broker, &proof);
	if (p == NULL) {
		refuse_proof(c, msgid, "unauthenticated",
		    "no principal has this token or certificate; the operator can name one in "
		    "the configuration");
	} else if (!client_become(c, p, &proof)) {
		refuse_proof(c, msgid, "resource_exhausted",
		    "this principal has as many connections as it may; close one");
	} else {
		c->broker->stats.proofs_right++;
		reply.principal = slice_of(p->id);
		reply.operator = principal_is_operator(p);
		link_reply(c->link, MSG_principal_prove_reply, msgid, &reply);
	}
	explicit_bzero(&proof, sizeof proof);
}

/* ---- the configuration ------------------------------------------------------------------- */

static void
drop_unused(struct broker *b)
{
	struct principal *p, *next;

	for (p = TAILQ_FIRST(&b->principals); p != NULL; p = next) {
		next = TAILQ_NEXT(p, entry);
		principal_drop_unused(b, p);
	}
}

int
principals_prepare(struct broker *b, const struct config *next)
{
	drop_unused(b); /* of one that was refused after this */
	for (size_t i = 0; i < next->nprincipals; i++) {
		struct slice id = slice_of(next->principals[i].id);

		if (principal_find(b, id, false) == NULL &&
		    principal_create(b, id, false) == NULL)
			return -ENOMEM;
	}
	return 0;
}

static void
principals_set_rows(struct broker *b)
{
	struct principal *p;

	TAILQ_FOREACH (p, &b->principals, entry)
		p->row = NULL;
	for (size_t i = 0; i < b->config->nprincipals; i++) {
		const struct config_principal *row = &b->config->principals[i];

		principal_find(b, slice_of(row->id), false)->row = row;
	}
	drop_unused(b);
}

int
principals_start(struct broker *b)
{
	TAILQ_INIT(&b->principals);
	if (principal_create(b, slice_of(b->config->authority), true) == NULL ||
	    principals_prepare(b, b->config) < 0)
		return -ENOMEM;
	principals_set_rows(b);
	return 0;
}

static void
client_check(struct client *c)
{
	struct principal *was = c->principal;

	if (was == NULL) {
		if (!c->gateway)
			client_set_local(c);
		return;
	}
	if (principal_shown(c->broker, &c->proof) == was &&
	    (was->local || was->clients <= was->row->connections) &&
	    (principal_is_operator(was) || !c->proof.operator)) {
		c->proof.operator = principal_is_operator(was);
		return;
	}
	log_info("a client of %s is cut off: by the configuration it is nobody, or less, or one "
		 "too many", was->id);
	client_be_nobody(c);
	c->cut = true;
	link_close(c->link);
}

void
principals_apply(struct broker *b)
{
	struct client *c;

	principals_set_rows(b);
	TAILQ_FOREACH (c, &b->clients, entry)
		if (!c->cut)
			client_check(c);
}

void
principals_finish(struct broker *b)
{
	struct principal *p;

	while ((p = TAILQ_FIRST(&b->principals)) != NULL)
		principal_destroy(b, p);
}
