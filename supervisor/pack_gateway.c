#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/limits.h"
#include "common/util.h"
#include "supervisor/pack.h"

/* A certificate or key, whole; what it holds is between its owner and the gateway. */
struct pem {
	uint8_t bytes[METADATA_MAX + 1];
	size_t n;
};

struct packer {
	struct buf *out;
	const char *file;
	char *err;
};

static int
read_whole(int fd, struct pem *ret)
{
	ssize_t n;

	for (ret->n = 0; ret->n < sizeof(ret->bytes); ret->n += (size_t)n) {
		n = read(fd, ret->bytes + ret->n, sizeof(ret->bytes) - ret->n);
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
	}
	return 0;
}

static int
read_pem(struct packer *k, const char *path, bool secret, struct node_at at, const char *key,
    struct pem *ret)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || (r = read_whole(fd, ret)) < 0)
		return conf_refuse(k->err, k->file, at, "%s: %.300s: %s", key, path,
		    strerror(errno));
	if (!S_ISREG(st.st_mode))
		return conf_refuse(
		    k->err, k->file, at, "%s: %.300s: is no regular file", key, path);
	if (secret && (st.st_mode & S_IRWXO))
		return conf_refuse(k->err, k->file, at,
		    "%s: %.300s: is open to everybody: take that away (chmod o=)", key, path);
	if (ret->n == 0 || ret->n > METADATA_MAX)
		return conf_refuse(k->err, k->file, at,
		    "%s: %.300s: is not 1 to %u bytes long", key, path, METADATA_MAX);
	return 0;
}

static int
pack_tls(struct packer *k, const struct conf_tls *t, size_t i, struct msg_config_listener *m)
{
	/* Large, and one gateway is packed at a time. */
	static struct pem certificate, secret;
	char key[60];
	int r;

	snprintf(key, sizeof(key), "gateway.listen[%zu].tls.certificate", i);
	r = read_pem(k, t->certificate, false, t->at_certificate, key, &certificate);
	if (r == 0) {
		snprintf(key, sizeof(key), "gateway.listen[%zu].tls.key", i);
		r = read_pem(k, t->key, true, t->at_key, key, &secret);
	}
	if (r == 0) {
		m->has_certificate = m->has_key = m->has_askCertificate = true;
		m->certificate = (struct slice){ certificate.bytes, certificate.n };
		m->key = (struct slice){ secret.bytes, secret.n };
		m->askCertificate = t->clients;
		r = protocol_notify(k->out, MSG_config_listener, m);
	}
	explicit_bzero(&secret, sizeof(secret));
	return r;
}

static int
pack_listener(struct packer *k, const struct conf_listener *l, size_t i)
{
	struct msg_config_listener m = { .kind = listener_kind_public };

	return l->has_tls ? pack_tls(k, &l->tls, i, &m)
			  : protocol_notify(k->out, MSG_config_listener, &m);
}

static int
pack_limits(struct buf *out, const struct conf_namespace *c)
{
	const struct conf_gateway *g = &c->gateway;
	struct msg_config_gateway m = {
		.namespace = slice_of(c->namespace),
		.connections = g->connections,
		.requests = g->requests,
		.headerBytes = g->header,
		.bodyBytes = g->body,
		.headerTimeoutMs = g->header_timeout,
		.idleTimeoutMs = g->idle_timeout,
		.writeTimeoutMs = g->write_timeout,
		.pingIntervalMs = g->ping_interval,
	};

	return protocol_notify(out, MSG_config_gateway, &m);
}

int
pack_gateway(struct buf *out, const struct conf_namespace *c, const char *file,
    char err[CONF_ERROR_MAX])
{
	struct packer k = { .out = out, .file = file, .err = err };
	struct msg_config_listener monitor = { .kind = listener_kind_monitor };
	struct msg_config_end end = { 0 };
	size_t i;
	int r;

	*err = '\0';
	r = pack_limits(out, c);
	for (i = 0; i < c->gateway.listen.n && r == 0; i++)
		r = pack_listener(&k, &c->gateway.listen.v[i], i);
	if (r == 0 && c->gateway.monitor)
		r = protocol_notify(out, MSG_config_listener, &monitor);
	if (r == 0)
		r = protocol_notify(out, MSG_config_end, &end);
	if (r < 0 && !*err)
		conf_refuse(err, file, c->at_gateway, "gateway: %s", strerror(-r));
	return r;
}
