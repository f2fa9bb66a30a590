#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/clock.h"
#include "common/request_key.h"
#include "common/util.h"

#define TIMEOUT_MS  30000
#define PAGE_LIMIT  100
#define RELEASE_MS  86400000 /* of a release that is waited for: it ends when the work does */

/* ---- a client ---------------------------------------------------------------------------- */

static int
load_certificates(
    struct caisson_client *c, const struct caisson_options *o, struct caisson_error *error)
{
	if (o->authorities != NULL
		? SSL_CTX_load_verify_locations(c->tls, o->authorities, NULL) != 1
		: SSL_CTX_set_default_verify_paths(c->tls) != 1)
		return error_set(error, "usage", "%s: no PEM file of certificates",
		    o->authorities != NULL ? o->authorities : "the system's authorities");
	if (o->certificate == NULL)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(c->tls, o->certificate) != 1)
		return error_set(error, "usage", "%s: no PEM file of a certificate", o->certificate);
	if (SSL_CTX_use_PrivateKey_file(c->tls, o->key != NULL ? o->key : o->certificate,
		SSL_FILETYPE_PEM) != 1)
		return error_set(error, "usage", "%s: no PEM file of the certificate's key",
		    o->key != NULL ? o->key : o->certificate);
	return 0;
}

static int
set_up_tls(
    struct caisson_client *c, const struct caisson_options *o, struct caisson_error *error)
{
	if (!c->target.tls) {
		if (o->certificate != NULL || o->authorities != NULL)
			return error_set(error, "usage", "certificates are for https:// targets");
		return 0;
	}
	c->tls = SSL_CTX_new(TLS_client_method());
	if (c->tls == NULL)
		return error_set(error, "usage", "TLS cannot be set up: out of memory");
	SSL_CTX_set_min_proto_version(c->tls, TLS1_2_VERSION);
	SSL_CTX_set_verify(c->tls, SSL_VERIFY_PEER, NULL);
	return load_certificates(c, o, error);
}

/* A header holds visible ASCII, and no blank in a token (RFC 6750). */
static bool
token_is_valid(const char *token)
{
	if (token[0] == '\0')
		return false;
	for (; *token != '\0'; token++)
		if (*token <= ' ' || *token > '~')
			return false;
	return true;
}

static int
client_init(
    struct caisson_client *c, const struct caisson_options *o, struct caisson_error *error)
{
	struct buf namespace = { 0 };

	if (o->target == NULL || o->target[0] == '\0')
		return error_set(error, "usage", "no target: a URL, or the path of a local socket");
	if (target_parse(o->target, &c->target, error) < 0)
		return -1;
	if (o->token != NULL && !token_is_valid(o->token))
		return error_set(error, "usage", "the token is empty or holds blanks");
	if (o->token != NULL && c->target.kind == TARGET_LOCAL)
		return error_set(error, "usage",
		    "a local socket takes no token: who asks is known from the kernel");
	if (o->token != NULL && (c->token = strdup(o->token)) == NULL)
		return error_set(error, "usage", "out of memory");
	if (o->namespace_name != NULL && !wire_is_part(o->namespace_name))
		return error_set(
		    error, "usage", "%.80s: this is no name of a namespace", o->namespace_name);
	wire_encode(&namespace, o->namespace_name != NULL ? o->namespace_name : "default");
	buf_add(&namespace, "", 1);
	c->namespace = (char *)namespace.p;
	if (namespace.failed)
		return error_set(error, "usage", "out of memory");
	c->timeout_ms = o->timeout_ms > 0 ? (uint32_t)o->timeout_ms : TIMEOUT_MS;
	return set_up_tls(c, o, error);
}

struct caisson_client *
caisson_client_create(const struct caisson_options *options, struct caisson_error *error)
{
	struct caisson_client *c = calloc(1, sizeof *c);

	if (c == NULL) {
		error_set(error, "usage", "out of memory");
		return NULL;
	}
	if (client_init(c, options, error) < 0) {
		caisson_client_destroy(c);
		return NULL;
	}
	return c;
}

void
caisson_client_destroy(struct caisson_client *c)
{
	if (c == NULL)
		return;
	wire_close(c->calls);
	SSL_CTX_free(c->tls);
	target_finish(&c->target);
	if (c->token != NULL)
		OPENSSL_cleanse(c->token, strlen(c->token));
	free(c->token);
	free(c->namespace);
	free(c);
}

/* One that the other end has closed meanwhile took nothing of ours with it. */
static void
drop_stale(struct caisson_client *c)
{
	struct caisson_error ignored;

	if (c->calls == NULL)
		return;
	if (channel_step(c->calls->ch, &ignored) == 0 && !c->calls->ch->ended)
		return;
	wire_close(c->calls);
	c->calls = NULL;
}

int
caisson_client_connect(struct caisson_client *c, struct caisson_error *error)
{
	drop_stale(c);
	if (c->calls == NULL)
		c->calls = wire_open(c, NULL, NULL, error);
	return c->calls != NULL ? 0 : -1;
}

/* After these the connection stands at no known place. */
static bool
is_over(const struct caisson_error *e)
{
	return strcmp(e->code, "transport") == 0 || strcmp(e->code, "protocol") == 0;
}

int
client_call(struct caisson_client *c, const struct call *call, struct buf *ret,
    struct caisson_error *error)
{
	int r;

	if (caisson_client_connect(c, error) < 0)
		return -1;
	c->calls->at_ms = clock_ms() + (call->wait ? RELEASE_MS : c->timeout_ms);
	r = c->calls->ops->call(c->calls, call, ret, error);
	if (r < 0 && is_over(error)) {
		wire_close(c->calls);
		c->calls = NULL;
	}
	return r;
}

/* The answer as a text of its own. */
static char *
call_text(struct caisson_client *c, const struct call *call, struct caisson_error *error)
{
	struct buf text = { 0 };

	if (client_call(c, call, &text, error) < 0) {
		buf_finish(&text);
		return NULL;
	}
	buf_add(&text, "", 1);
	if (text.failed) {
		buf_finish(&text);
		error_set(error, "transport", "out of memory");
		return NULL;
	}
	return (char *)text.p;
}

char *
caisson_list(struct caisson_client *c, const char *runtime, uint32_t limit, const char *cursor,
    struct caisson_error *error)
{
	struct call call = { .verb = VERB_LIST,
		.runtime = runtime,
		.limit = limit > 0 ? limit : PAGE_LIMIT,
		.cursor = cursor };

	return call_text(c, &call, error);
}

/* ---- sandboxes --------------------------------------------------------------------------- */

struct caisson_sandbox *
caisson_sandbox_find(struct caisson_client *c, const char *runtime, const char *id,
    struct caisson_error *error)
{
	struct caisson_sandbox *s = calloc(1, sizeof *s);

	if (s != NULL) {
		s->client = c;
		s->runtime = strdup(runtime);
		s->id = strdup(id);
	}
	if (s != NULL && s->runtime != NULL && s->id != NULL)
		return s;
	error_set(error, "usage", "out of memory");
	caisson_sandbox_destroy(s);
	return NULL;
}

void
caisson_sandbox_destroy(struct caisson_sandbox *s)
{
	if (s == NULL)
		return;
	free(s->runtime);
	free(s->id);
	free(s);
}

const char *
caisson_sandbox_id(const struct caisson_sandbox *s)
{
	return s->id;
}

int
check_key(const char *key, struct caisson_error *error)
{
	if (key == NULL || request_key_is_valid(slice_of(key)))
		return 0;
	return error_set(error, "usage", "the idempotency key is not " REQUEST_KEY_RULE);
}

struct caisson_sandbox *
caisson_acquire(struct caisson_client *c, const struct caisson_acquire *acquire,
    struct caisson_error *error)
{
	struct call call = { .verb = VERB_ACQUIRE,
		.runtime = acquire->runtime,
		.key = acquire->idempotency_key,
		.lease_ms = acquire->lease_ms,
		.timeout_ms = acquire->timeout_ms,
		.queue = acquire->queue };
	struct caisson_sandbox *s = NULL;
	cleanup_free char *text = NULL;
	char id[65];

	if (acquire->runtime == NULL) {
		error_set(error, "usage", "no runtime: say of which one");
		return NULL;
	}
	if (check_key(acquire->idempotency_key, error) < 0)
		return NULL;
	text = call_text(c, &call, error);
	if (text == NULL)
		return NULL;
	if (!answer_member(text, "id", id, sizeof id) || !wire_is_part(id))
		error_set(error, "protocol", "the answer names no session");
	else
		s = caisson_sandbox_find(c, acquire->runtime, id, error);
	if (s != NULL) {
		s->lease_known = true;
		s->lease_ms = acquire->lease_ms;
	}
	return s;
}

static int
call_quietly(struct caisson_sandbox *s, const struct call *call, struct caisson_error *error)
{
	struct buf ignored = { 0 };
	int r = client_call(s->client, call, &ignored, error);

	buf_finish(&ignored);
	return r;
}

/* A call about one sandbox. */
static struct call
call_about(const struct caisson_sandbox *s, enum verb verb)
{
	return (struct call){ .verb = verb, .runtime = s->runtime, .session = s->id };
}

int
caisson_release(struct caisson_sandbox *s, enum caisson_release_mode mode, bool wait,
    struct caisson_error *error)
{
	struct call call = call_about(s, VERB_RELEASE);

	call.immediate = mode == CAISSON_IMMEDIATE;
	call.wait = wait;
	return call_quietly(s, &call, error);
}

int
caisson_heartbeat(struct caisson_sandbox *s, struct caisson_error *error)
{
	struct call call = call_about(s, VERB_HEARTBEAT);

	return call_quietly(s, &call, error);
}

char *
caisson_show(struct caisson_sandbox *s, struct caisson_error *error)
{
	struct call call = call_about(s, VERB_SHOW);

	return call_text(s->client, &call, error);
}

char *
caisson_operations(struct caisson_sandbox *s, uint32_t limit, const char *cursor,
    struct caisson_error *error)
{
	struct call call = call_about(s, VERB_OPERATIONS);

	call.limit = limit > 0 ? limit : PAGE_LIMIT;
	call.cursor = cursor;
	return call_text(s->client, &call, error);
}

char *
caisson_operation_show(
    struct caisson_sandbox *s, const char *operation, struct caisson_error *error)
{
	struct call call = call_about(s, VERB_OPERATION);

	call.operation = operation;
	return call_text(s->client, &call, error);
}

char *
caisson_files(struct caisson_sandbox *s, const char *path, uint32_t limit, const char *cursor,
    struct caisson_error *error)
{
	struct call call = call_about(s, VERB_FILES);

	call.path = path;
	call.limit = limit > 0 ? limit : PAGE_LIMIT;
	call.cursor = cursor;
	return call_text(s->client, &call, error);
}

char *
caisson_file_stat(struct caisson_sandbox *s, const char *path, struct caisson_error *error)
{
	struct call call = call_about(s, VERB_STAT);

	call.path = path;
	return call_text(s->client, &call, error);
}

long
caisson_file_read(struct caisson_sandbox *s, const char *path, uint64_t offset, void *buf,
    size_t length, struct caisson_error *error)
{
	struct call call = call_about(s, VERB_READ);
	size_t got = 0;

	call.path = path;
	while (got < length) {
		struct buf bytes = { 0 };
		size_t n;
		int r;

		call.offset = offset + got;
		call.length = length - got;
		r = client_call(s->client, &call, &bytes, error);
		if (r == 0 && bytes.n > length - got)
			r = error_set(error, "protocol", "more bytes than were asked for");
		n = r == 0 ? bytes.n : 0;
		if (n > 0)
			memcpy((uint8_t *)buf + got, bytes.p, n);
		got += n;
		buf_finish(&bytes);
		if (r < 0)
			return -1;
		if (n == 0)
			break;
	}
	return (long)got;
}
