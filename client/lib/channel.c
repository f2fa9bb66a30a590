#include "client/lib/channel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "common/clock.h"
#include "common/local_socket.h"
#include "common/utf8.h"
#include "common/util.h"

#define READ_BYTES (64u << 10) /* room for each read */

/* `text` on one line that no terminal obeys, as much of it as `ret` has room for. */
static void
escape(const char *text, char *ret, size_t room)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t n = strlen(text), at = 0;

	for (size_t i = 0; i < n;) {
		uint32_t c;
		int length = utf8_next(p + i, n - i, &c);
		bool plain = length > 0 && !utf8_is_control(c);
		size_t bytes = length > 0 ? (size_t)length : 1;

		if (length == 0 || at + (plain ? bytes : 4 * bytes) >= room)
			break; /* cut, and not within a character */
		if (plain)
			memcpy(ret + at, p + i, bytes);
		for (size_t k = 0; k < bytes && !plain; k++)
			snprintf(ret + at + 4 * k, 5, "\\x%02x", p[i + k]);
		at += plain ? bytes : 4 * bytes;
		i += bytes;
	}
	ret[at] = '\0';
}

int
error_set(struct caisson_error *error, const char *code, const char *fmt, ...)
{
	char text[sizeof error->message];
	va_list ap;

	*error = (struct caisson_error){ 0 };
	snprintf(error->code, sizeof error->code, "%s", code);
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	/* Some of it is what the other end says. */
	for (char *p = error->code; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			*p = '_';
	escape(text, error->message, sizeof error->message);
	return -1;
}

/* ---- connecting -------------------------------------------------------------------------- */

static int
wait_fd(int fd, short events, uint64_t at_ms)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		uint64_t now = clock_ms();
		uint64_t left = at_ms > now ? at_ms - now : 0;
		int r = poll(&p, 1, at_ms == 0 ? -1 : (int)(left < INT32_MAX ? left : INT32_MAX));

		if (r >= 0)
			return r;
		if (errno != EINTR)
			return -errno;
	}
}

/* `fd` is connecting.  0 or a negative errno. */
static int
finish_connect(int fd, uint64_t at_ms)
{
	int error = 0, r = wait_fd(fd, POLLOUT, at_ms);
	socklen_t n = sizeof error;

	if (r <= 0)
		return r < 0 ? r : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
		return -errno;
	return -error;
}

static int
connect_to(int family, const struct sockaddr *address, socklen_t n, uint64_t at_ms)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, address, n) < 0)
		r = errno == EINPROGRESS ? finish_connect(fd, at_ms) : -errno;
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

static int
connect_unix(const char *path, uint64_t at_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof address.sun_path)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	return connect_to(AF_UNIX, (struct sockaddr *)&address, sizeof address, at_ms);
}

static int
connect_tcp(const struct target *t, uint64_t at_ms, struct caisson_error *error)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *a;
	int r = getaddrinfo(t->host, t->port, &hints, &list), fd = -EHOSTUNREACH;

	if (r != 0)
		return error_set(error, "transport", "%s: %s", t->host,
		    r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	for (a = list; a != NULL && fd < 0; a = a->ai_next)
		fd = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen, at_ms);
	freeaddrinfo(list);
	if (fd < 0)
		return error_set(
		    error, "transport", "cannot connect to %s: %s", t->authority, strerror(-fd));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	return fd;
}

static int
connect_target(const struct target *t, uint64_t at_ms, struct caisson_error *error)
{
	uint64_t now = clock_ms();
	struct ucred peer;
	int fd;

	if (t->kind == TARGET_TCP)
		return connect_tcp(t, at_ms, error);
	fd = t->kind == TARGET_LOCAL
	    ? local_socket_connect(t->path, at_ms > now ? (unsigned)(at_ms - now) : 1, &peer)
	    : connect_unix(t->path, at_ms);
	if (fd == -EKEYREJECTED)
		return error_set(error, "transport",
		    "%s: whoever listens there is neither you nor root: nothing was sent", t->path);
	if (fd < 0)
		return error_set(
		    error, "transport", "cannot connect to %s: %s", t->path, strerror(-fd));
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		close(fd);
		return error_set(error, "transport", "%s: %s", t->path, strerror(errno));
	}
	return fd;
}

/* ---- TLS --------------------------------------------------------------------------------- */

static int
tls_fault(const struct channel *ch, struct caisson_error *error)
{
	long verify = SSL_get_verify_result(ch->ssl);
	char text[256] = "the connection was closed";
	unsigned long e = ERR_get_error();

	if (verify != X509_V_OK && !ch->connected)
		return error_set(error, "transport", "TLS: the gateway's certificate: %s",
		    X509_verify_cert_error_string(verify));
	if (e != 0)
		ERR_error_string_n(e, text, sizeof text);
	return error_set(error, "transport", "TLS: %s", text);
}

static SSL *
tls_create(const struct target *t, SSL_CTX *tls, int fd)
{
	SSL *ssl = SSL_new(tls);
	X509_VERIFY_PARAM *param;
	bool ok;

	if (ssl == NULL)
		return NULL;
	param = SSL_get0_param(ssl);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	ok = X509_VERIFY_PARAM_set1_ip_asc(param, t->host) == 1;
	if (!ok)
		ok = SSL_set1_host(ssl, t->host) == 1 && SSL_set_tlsext_host_name(ssl, t->host) == 1;
	if (!ok || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_connect_state(ssl);
	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ssl;
}

/* 1: over; 0: not yet; -1. */
static int
tls_shake(struct channel *ch, struct caisson_error *error)
{
	int r, why;

	ERR_clear_error();
	r = SSL_do_handshake(ch->ssl);
	if (r == 1) {
		ch->connected = true;
		ch->wants_write = false;
		return 1;
	}
	why = SSL_get_error(ch->ssl, r);
	ch->wants_write = why == SSL_ERROR_WANT_WRITE;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	return tls_fault(ch, error);
}

struct channel *
channel_open(
    const struct target *t, SSL_CTX *tls, uint64_t at_ms, struct caisson_error *error)
{
	int fd = connect_target(t, at_ms, error), r = 0;
	struct channel *ch;

	if (fd < 0)
		return NULL;
	ch = calloc(1, sizeof *ch);
	if (ch == NULL) {
		close(fd);
		error_set(error, "usage", "out of memory");
		return NULL;
	}
	ch->fd = fd;
	ch->connected = !t->tls;
	if (!t->tls)
		return ch;
	ch->ssl = tls_create(t, tls, fd);
	if (ch->ssl == NULL) {
		error_set(error, "usage", "TLS cannot be set up for %s", t->authority);
		channel_close(ch);
		return NULL;
	}
	while ((r = tls_shake(ch, error)) == 0)
		if ((r = channel_wait(ch, at_ms, error)) <= 0)
			break;
	if (r == 0)
		error_set(error, "transport", "%s: no TLS handshake in time", t->authority);
	if (r <= 0) {
		channel_close(ch);
		return NULL;
	}
	return ch;
}

void
channel_close(struct channel *ch)
{
	if (ch == NULL)
		return;
	if (ch->ssl != NULL && ch->connected && !ch->ended)
		SSL_shutdown(ch->ssl); /* says goodbye, and waits for nobody */
	SSL_free(ch->ssl);
	close(ch->fd);
	buf_finish(&ch->in);
	buf_finish(&ch->out);
	free(ch);
}

/* ---- bytes ------------------------------------------------------------------------------- */

short
channel_poll(const struct channel *ch)
{
	bool writes = ch->wants_write || (ch->connected && ch->out_done < ch->out.n);

	return (short)(POLLIN | (writes ? POLLOUT : 0));
}

/* As read(2): -1 with errno, EAGAIN among them, 0 at the end. */
static ssize_t
read_some(struct channel *ch, void *p, size_t n, struct caisson_error *error)
{
	int got, why;

	if (ch->ssl == NULL) {
		ssize_t r = read(ch->fd, p, n);

		if (r < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNRESET)
			error_set(error, "transport", "read: %s", strerror(errno));
		return r;
	}
	ERR_clear_error();
	got = SSL_read(ch->ssl, p, (int)n);
	if (got > 0)
		return got;
	why = SSL_get_error(ch->ssl, got);
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
	return -1;
}

static int
step_read(struct channel *ch, struct caisson_error *error)
{
	while (!ch->ended) {
		uint8_t *room = buf_reserve(&ch->in, READ_BYTES);
		ssize_t n;

		if (room == NULL)
			return error_set(error, "transport", "out of memory");
		n = read_some(ch, room, READ_BYTES, error);
		if (n > 0)
			ch->in.n += (size_t)n;
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			ch->ended = true;
		else if (n < 0 && errno == EAGAIN)
			return 0;
		else if (n < 0 && errno != EINTR)
			return -1;
		if (ch->in.n - ch->in_done >= 4 * READ_BYTES)
			return 0; /* what has come is consumed first */
	}
	return 0;
}

static ssize_t
write_some(struct channel *ch, const void *p, size_t n)
{
	int sent, why;

	if (ch->ssl == NULL)
		return send(ch->fd, p, n, MSG_NOSIGNAL);
	ERR_clear_error();
	sent = SSL_write(ch->ssl, p, (int)(n < INT32_MAX ? n : INT32_MAX));
	if (sent > 0)
		return sent;
	why = SSL_get_error(ch->ssl, sent);
	errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
	return -1;
}

int
channel_step_write(struct channel *ch, struct caisson_error *error)
{
	if (ch->out.failed)
		return error_set(error, "transport", "out of memory");
	while (ch->out_done < ch->out.n) {
		ssize_t n = write_some(ch, ch->out.p + ch->out_done, ch->out.n - ch->out_done);

		if (n > 0)
			ch->out_done += (size_t)n;
		else if (errno == EAGAIN)
			return 0;
		else if (errno == EPIPE || errno == ECONNRESET)
			return ch->ended ? 0 : error_set(error, "transport", "the connection is gone");
		else if (errno != EINTR)
			return error_set(error, "transport", "write: %s", strerror(errno));
	}
	ch->out.n = ch->out_done = 0;
	return 0;
}

int
channel_step(struct channel *ch, struct caisson_error *error)
{
	if (ch->in.failed)
		return error_set(error, "transport", "out of memory");
	/* What it has to say first: it may have said why before it went. */
	if (step_read(ch, error) < 0)
		return -1;
	return channel_step_write(ch, error);
}

bool
channel_is_pending(const struct channel *ch)
{
	return ch->ssl != NULL && ch->connected && SSL_pending(ch->ssl) > 0;
}

int
channel_wait_for(int fd, short events, uint64_t at_ms, struct caisson_error *error)
{
	int r = wait_fd(fd, events, at_ms);

	if (r < 0)
		return error_set(error, "transport", "poll: %s", strerror(-r));
	return r > 0;
}

int
channel_wait(struct channel *ch, uint64_t at_ms, struct caisson_error *error)
{
	if (channel_is_pending(ch))
		return 1;
	return channel_wait_for(ch->fd, channel_poll(ch), at_ms, error);
}

struct slice
channel_input(const struct channel *ch)
{
	return (struct slice){ ch->in.p + ch->in_done, ch->in.n - ch->in_done };
}

void
channel_consume(struct channel *ch, size_t n)
{
	ch->in_done += n;
	if (ch->in_done == ch->in.n) {
		ch->in.n = ch->in_done = 0;
	} else if (ch->in_done > READ_BYTES && ch->in_done > ch->in.n / 2) {
		memmove(ch->in.p, ch->in.p + ch->in_done, ch->in.n - ch->in_done);
		ch->in.n -= ch->in_done;
		ch->in_done = 0;
	}
}
