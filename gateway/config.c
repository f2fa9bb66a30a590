#include "gateway/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util.h"
#include "gateway/tls.h"

struct reading {
	struct gateway_config *config;
	struct gateway_config_fault *fault;
	bool begun, whole;
};

static int __attribute__((format(printf, 2, 3)))
refuse(struct reading *r, const char *fmt, ...)
{
	va_list args;

	r->fault->listener = r->config->nlisteners;
	va_start(args, fmt);
	vsnprintf(r->fault->text, sizeof(r->fault->text), fmt, args);
	va_end(args);
	return -EINVAL;
}

static int
take_gateway(struct reading *r, const struct msg_config_gateway *m)
{
	struct gateway_config *c = r->config;

	if (r->begun)
		return refuse(r, "config.gateway is the second one");
	r->begun = true;
	c->namespace = slice_dup(m->namespace);
	if (c->namespace == NULL)
		return errno == EINVAL ? refuse(r, "namespace holds a NUL") : -ENOMEM;
	c->connections = (unsigned)m->connections;
	c->requests = (unsigned)m->requests;
	c->header_bytes = m->headerBytes;
	c->body_bytes = m->bodyBytes;
	c->header_timeout_ms = (unsigned)m->headerTimeoutMs;
	c->idle_timeout_ms = (unsigned)m->idleTimeoutMs;
	c->write_timeout_ms = (unsigned)m->writeTimeoutMs;
	c->ping_interval_ms = (unsigned)m->pingIntervalMs;
	if (c->connections == 0 || c->requests == 0 || c->header_bytes == 0 ||
	    c->body_bytes == 0 || c->header_timeout_ms == 0 || c->idle_timeout_ms == 0 ||
	    c->write_timeout_ms == 0 || c->ping_interval_ms == 0)
		return refuse(r, "config.gateway: a limit is 0");
	return 0;
}

static int
take_listener(struct reading *r, const struct msg_config_listener *m)
{
	struct gateway_config *c = r->config;
	struct gateway_listener *l = &c->listeners[c->nlisteners];
	const char *why;

	if (!r->begun)
		return refuse(r, "config.listener stands before config.gateway");
	if (c->nlisteners == GATEWAY_LISTENERS_MAX)
		return refuse(r, "more than %d listeners", GATEWAY_LISTENERS_MAX);
	if (m->has_certificate != m->has_key)
		return refuse(r, "a certificate needs a key, and a key a certificate");
	if (m->has_askCertificate && m->askCertificate && !m->has_certificate)
		return refuse(r, "clients cannot be asked for certificates without TLS");
	l->kind = m->kind;
	if (m->has_certificate) {
		l->tls = tls_create(m->certificate, m->key,
		    m->has_askCertificate && m->askCertificate, &why);
		if (l->tls == NULL)
			return refuse(r, "listener %u: %s", c->nlisteners + 1, why);
	}
	c->nlisteners++;
	return 0;
}

static int
take_frame(struct reading *r, const struct message *m)
{
	if (r->whole)
		return refuse(r, "a frame stands behind config.end");
	switch (m->type) {
	case MSG_config_gateway:
		return take_gateway(r, &m->u.config_gateway);
	case MSG_config_listener:
		return take_listener(r, &m->u.config_listener);
	case MSG_config_end:
		r->whole = true;
		return r->begun ? 0 : refuse(r, "config.gateway is missing");
	default:
		return refuse(r, "%s is no row of a gateway's", protocol_name(m->type));
	}
}

static int
take_bytes(struct reading *r, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;
	struct fault fault = { 0 };
	struct message m;
	uint32_t length;
	int ret;

	while (p < end) {
		if (end - p < 4)
			return refuse(r, "a frame is cut short");
		length = protocol_length(p);
		p += 4;
		if (length > FRAME_MAX || length > (size_t)(end - p))
			return refuse(r, "a frame is cut short");
		if (protocol_decode(p, length, ROLE_SUPERVISOR, ROLE_GATEWAY, LINK_NEW, NULL,
			NULL, &m, &fault) < 0)
			return refuse(r, "%s: %s: %s",
			    fault.method != NULL ? fault.method : "frame",
			    fault.field != NULL ? fault.field : "field",
			    fault.rule != NULL ? fault.rule : "cannot be read");
		ret = take_frame(r, &m);
		if (ret < 0)
			return ret;
		p += length;
	}
	return r->whole ? 0 : refuse(r, "config.end is missing");
}

int
gateway_config_read(int fd, struct gateway_config *ret, struct gateway_config_fault *ret_fault)
{
	struct gateway_config config = { 0 };
	struct reading r = { .config = &config, .fault = ret_fault };
	struct stat st;
	void *p;
	int error;

	*ret_fault = (struct gateway_config_fault){ 0 };
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size == 0)
		return refuse(&r, "config.gateway is missing");
	/* Mapped, not read: of a key there is then no copy to forget. */
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	error = take_bytes(&r, p, (size_t)st.st_size);
	munmap(p, (size_t)st.st_size);
	if (error == 0)
		*ret = config;
	else
		gateway_config_finish(&config);
	return error;
}

void
gateway_config_finish(struct gateway_config *c)
{
	for (unsigned i = 0; i < countof(c->listeners); i++)
		tls_destroy(c->listeners[i].tls);
	free(c->namespace);
	*c = (struct gateway_config){ 0 };
}
