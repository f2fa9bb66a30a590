/*
 * bench_rest: what connections to the gateway cost that do nothing (T21), and what TLS adds.
 *
 *	bench_rest [NAME...]	only these targets
 *
 * Reads server.pem and server.key in the working directory.  Clients are on CPU 1, servers on
 * CPU 0.
 */
#include <openssl/ssl.h>

#include "tests/bench/edge.h"

#define PASSES	    15
#define CONNECTIONS 64 /* before those that are counted */
#define IDLE	    1000
/* Of a connection of libwebsockets 4.1.6 (its test server), measured once. */
#define LWS_BYTES     5222
#define LWS_TLS_BYTES 19579 /* the same over OpenSSL, TLS 1.3 */

/* ---- TLS: connections a second --------------------------------------------------------------- */

#define HANDSHAKES 30 /* a pass */
#define ASK	   "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

static SSL *
tls_connect(SSL_CTX *ctx, int fd)
{
	SSL *s = SSL_new(ctx);

	if (s == NULL || SSL_set_fd(s, fd) != 1 || SSL_connect(s) != 1)
		die("TLS");
	return s;
}

/* What OpenSSL alone needs for the same; `keep`: connections stay, and nothing is said. */
static _Noreturn void
tls_floor(int listener, bool keep)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	char in[1024];
	SSL *s;
	int fd;

	if (ctx == NULL || SSL_CTX_use_certificate_file(ctx, "server.pem", SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(ctx, "server.key", SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1)
		die("TLS");
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	for (;;) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		s = SSL_new(ctx);
		if (SSL_set_fd(s, fd) != 1 || SSL_accept(s) != 1)
			die("TLS");
		if (keep)
			continue;
		if (SSL_read(s, in, sizeof in) > 0 && SSL_write(s, TEXT, (int)strlen(TEXT)) > 0)
			SSL_shutdown(s);
		SSL_free(s);
		close(fd);
	}
}

static pid_t
tls_floor_open(uint16_t *ret_port, bool keep)
{
	int listener = listen_on(ret_port);
	pid_t pid = fork_on(SERVER_CPU);

	if (pid == 0)
		tls_floor(listener, keep);
	close(listener);
	return pid;
}

static struct pace
tls_pass(SSL_CTX *tls, pid_t server, uint16_t port)
{
	double cpu = cpu_ns(server);
	uint64_t start = now_ns();
	char in[4096];
	SSL *s;
	int fd;

	for (int i = 0; i < HANDSHAKES; i++) {
		fd = connect_to(port);
		s = tls_connect(tls, fd);
		if (SSL_write(s, ASK, (int)strlen(ASK)) <= 0 || SSL_read(s, in, sizeof in) <= 0)
			die("an answer through TLS");
		SSL_free(s);
		close(fd);
	}
	return (struct pace){ HANDSHAKES * 1e9 / (double)(now_ns() - start),
		(cpu_ns(server) - cpu) / HANDSHAKES };
}

static void
measure_tls(int argc, char **argv, struct edge *api, SSL_CTX *tls)
{
	struct figures figures = { 0 };
	uint16_t port;
	pid_t pid;

	if (!wanted(argc, argv, "TLS"))
		return;
	pid = tls_floor_open(&port, false);
	for (int pass = 0; pass < PASSES; pass++) {
		struct pace p = tls_pass(tls, api->gateway, api->tls_port);

		add_pace(&figures, p, tls_pass(tls, pid, port));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	print_series("TLS", "conns/s", &figures.rate, "connections with a request, by TLS 1.3");
	print_series("TLSc", "us", &figures.cpu, "the same: the server's CPU a connection");
}

/* ---- T21: memory of those who rest ------------------------------------------------------------ */

/* Private memory in use, from a file that anybody may read. */
static double
memory_bytes(pid_t pid)
{
	char path[64], text[4096], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		die(path);
	close(fd);
	text[n] = '\0';
	at = strstr(text, "RssAnon:");
	return at == NULL ? 0 : strtod(at + 8, NULL) * 1024;
}

/* Bytes of each of `IDLE` connections that rest at a server. */
static double
idle_bytes(pid_t server, uint16_t port, bool websocket, SSL_CTX *tls)
{
	static int fds[IDLE + CONNECTIONS];
	static SSL *ssl[IDLE + CONNECTIONS];
	double before = 0, after;
	char in[1024];

	for (int i = 0; i < IDLE + CONNECTIONS; i++) {
		if (i == CONNECTIONS)
			before = memory_bytes(server);
		fds[i] = connect_to(port);
		if (tls == NULL) {
			upgrade(fds[i]);
			continue;
		}
		ssl[i] = tls_connect(tls, fds[i]);
		if (websocket && (SSL_write(ssl[i], UPGRADE, (int)strlen(UPGRADE)) <= 0 ||
			SSL_read(ssl[i], in, sizeof in) <= 0 || strstr(in, " 101 ") == NULL))
			die("upgrade");
	}
	after = memory_bytes(server);
	for (int i = 0; i < IDLE + CONNECTIONS; i++) {
		SSL_free(ssl[i]);
		ssl[i] = NULL;
		close(fds[i]);
	}
	return (after - before) / IDLE;
}

/* A gateway of its own for each, as memory that was used once is not given back. */
static double
gateway_idle_bytes(SSL_CTX *tls)
{
	struct edge e = { 0 };
	double bytes;

	edge_open(&e, false);
	bytes = idle_bytes(e.gateway, tls != NULL ? e.tls_port : e.port, true, tls);
	edge_close(&e);
	return bytes;
}

static void
print_once(const char *name, double product, double base, const char *what)
{
	struct series s = { 0 };

	add(&s, product, base);
	print_series(name, "bytes", &s, what);
}

static void
measure_memory(int argc, char **argv, SSL_CTX *tls, pid_t floor, uint16_t floor_port)
{
	double bytes;

	if (wanted(argc, argv, "T21"))
		print_once("T21", gateway_idle_bytes(NULL), LWS_BYTES,
		    "an idle WebSocket, with its link to the broker");
	if (!wanted(argc, argv, "T21s"))
		return;
	bytes = gateway_idle_bytes(tls);
	print_once("T21s", bytes, LWS_TLS_BYTES, "the same through TLS, both");
	print_once("T21o", bytes, idle_bytes(floor, floor_port, false, tls),
	    "the same against what OpenSSL alone keeps of a connection");
}

int
main(int argc, char **argv)
{
	SSL_CTX *tls;
	struct rlimit files;
	struct edge api = { 0 };
	uint16_t floor_port;
	pid_t floor;

	be_important();
	pin(CLIENT_CPU);
	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		die("descriptors");
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	/* Before this process has freed anything: a child would fill those pages, which count
	 * as its own from the start. */
	floor = tls_floor_open(&floor_port, true);
	tls = SSL_CTX_new(TLS_client_method());
	if (tls == NULL)
		die("TLS");
	edge_open(&api, false);
	measure_tls(argc, argv, &api, tls);
	measure_memory(argc, argv, tls, floor, floor_port);
	edge_close(&api);
	SSL_CTX_free(tls);
	kill(floor, SIGKILL);
	waitpid(floor, NULL, 0);
	return 0;
}
