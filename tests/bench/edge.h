/*
 * edge: a gateway with everything around it scripted: this process is its clients; supervisor
 * and broker are one forked process that answers at once from frames packed beforehand.
 *
 * The gateway is the real program, or its objects with a handler that echoes in place of the API:
 * framing alone.  Both confine themselves, as in service.  Floors are floor_server()s.
 */
#ifndef TESTS_BENCH_EDGE_H
#define TESTS_BENCH_EDGE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/control.h"
#include "common/event_json.h"
#include "common/log.h"
#include "common/walk.h"
#include "gateway/confine.h"
#include "gateway/control.h"
#include "gateway/gateway.h"
#include "gateway/tls.h"
#include "gateway/websocket.h"
#include "tests/bench/wire.h"

#define SERVER_CPU  0
#define CLIENT_CPU  1
#define EDGE_MAX    4096 /* connections of one run */
#define OPERATION   "op-0123456789abcdef"
#define EVENT_DATA  45 /* bytes of an event's data: a frame of 128 B with base64 around it */
#define EVENT_BYTES 128
#define SEQUENCE    123456 /* of events: of an ordinary length */
#define TEXT   "sixty-four bytes of text, as a terminal or a person may send it."
#define BATCH_BYTES (64u << 10)
#define PATH	    "/v1/namespaces/default/runtimes/shell/sessions/s-0000000000000001/operations:ws"
#define UPGRADE                                                                                \
	"GET " PATH " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n"          \
	"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"           \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

/* What scripted ends are told while they run. */
struct edge_order {
	volatile uint64_t events; /* that follow an admission */
	volatile bool hold; /* one event does, and the operation stays active */
};

struct edge {
	pid_t gateway, broker;
	uint16_t port, tls_port;
	struct edge_order *order; /* shared */
};

/* ---- small things ------------------------------------------------------------------------- */

static int
listen_on(uint16_t *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 || listen(fd, EDGE_MAX) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		die("listen");
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static int
connect_to(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
		die("connect");
	return fd;
}

static pid_t
fork_on(int cpu)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_IGN);
		pin(cpu);
	}
	return pid;
}

static void
watch(int ep, int fd, uint32_t events, int op)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	if (epoll_ctl(ep, op, fd, &e) < 0)
		die("epoll");
}

/* One event of an operation, as it is measured. */
static struct msg_operation_event
bench_event(enum event_type type)
{
	static const uint8_t data[EVENT_DATA] = "a line of output of an ordinary length, here";
	static const uint8_t body[] = "\x81\xa6status\xa8" "complete";
	struct msg_operation_event e = { .operation = slice_of(OPERATION),
		.sequence = SEQUENCE, .type = type };

	if (type == event_type_output) {
		e.has_stream = e.has_data = true;
		e.stream = stream_stdout;
		e.data = (struct slice){ data, sizeof data };
	} else {
		e.has_body = true;
		e.body = (struct slice){ body, sizeof body - 1 };
	}
	return e;
}

/* ---- the floor: a loop over sockets --------------------------------------------------------- */

/* What is still to be pushed on a connection. */
struct pushing {
	uint64_t left; /* bytes */
};

/* Puts events into a batch, one by one, and writes it: what any server has to do. */
static inline void
floor_push(int ep, int fd, struct pushing *p)
{
	static uint8_t event[EVENT_BYTES], batch[BATCH_BYTES];
	ssize_t r;

	while (p->left > 0) {
		size_t n = 0, skip = (EVENT_BYTES - p->left % EVENT_BYTES) % EVENT_BYTES;

		for (; n + EVENT_BYTES <= sizeof batch && n < p->left + skip; n += EVENT_BYTES)
			memcpy(batch + n, event, EVENT_BYTES);
		r = write(fd, batch + skip, n - skip);
		if (r < 0) {
			watch(ep, fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return;
		}
		p->left -= (uint64_t)r;
	}
	watch(ep, fd, EPOLLIN, EPOLL_CTL_MOD);
}

/* Echoes; 'P' in front asks for order->events events of EVENT_BYTES instead. */
static inline _Noreturn void
floor_server(int listener, const struct edge_order *order)
{
	static struct pushing pushing[EDGE_MAX * 4];
	static uint8_t in[BATCH_BYTES];
	struct epoll_event ev[64];
	int ep = epoll_create1(EPOLL_CLOEXEC), n, fd;
	ssize_t r;

	watch(ep, listener, EPOLLIN, EPOLL_CTL_ADD);
	for (;;) {
		n = epoll_wait(ep, ev, 64, -1);
		for (int i = 0; i < n; i++) {
			fd = ev[i].data.fd;
			if (fd == listener) {
				fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
				watch(ep, fd, EPOLLIN, EPOLL_CTL_ADD);
				continue;
			}
			if (ev[i].events & EPOLLOUT)
				floor_push(ep, fd, &pushing[fd]);
			if (!(ev[i].events & EPOLLIN))
				continue;
			r = read(fd, in, sizeof in);
			if (r <= 0) {
				close(fd);
			} else if (in[0] == 'P') {
				pushing[fd].left = order->events * EVENT_BYTES;
				floor_push(ep, fd, &pushing[fd]);
			} else {
				write_all(fd, in, (size_t)r);
			}
		}
	}
}

/* ---- the gateway ------------------------------------------------------------------------------ */

static void
echo_on_request(struct conn *c, const struct request *r)
{
	(void)r;
	if (ws_check(c))
		ws_accept(c, NULL);
}

static const struct conn_handler echo_handler = { .on_request = echo_on_request,
	.on_text = ws_send_text };

static _Noreturn void
echo_process(int config_fd)
{
	static struct gateway g;
	struct gateway_config_fault fault;
	const char *what;

	log_init("bench-gateway", LOG_ERROR_);
	tls_init();
	if (gateway_config_read(config_fd, &g.config, &fault) < 0 ||
	    gateway_begin(&g, &echo_handler) < 0 || gateway_confine(&what) < 0)
		die("gateway");
	gateway_control_ready(&g);
	event_base_dispatch(g.base);
	_exit(0);
}

static struct buf
file_content(const char *path)
{
	struct buf b = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *p = buf_reserve(&b, 65536);
	ssize_t n = fd < 0 || p == NULL ? -1 : read(fd, p, 65536);

	if (n <= 0)
		die(path);
	buf_end(&b, p + n);
	close(fd);
	return b;
}

static int
edge_config(void)
{
	struct buf out = { 0 }, certificate = file_content("server.pem"),
		   key = file_content("server.key");
	/* No time passes while it is measured. */
	struct msg_config_gateway gateway = { .namespace = slice_of("default"),
		.connections = EDGE_MAX, .requests = EDGE_MAX, .headerBytes = 16384,
		.bodyBytes = 1 << 20, .headerTimeoutMs = 600000, .idleTimeoutMs = 600000,
		.writeTimeoutMs = 600000, .pingIntervalMs = 600000 };
	struct msg_config_listener plain = { .kind = listener_kind_public }, tls = plain;
	struct msg_config_end end;
	int fd = memfd_create("config", MFD_CLOEXEC);

	tls.has_certificate = tls.has_key = true;
	tls.certificate = buf_slice(&certificate);
	tls.key = buf_slice(&key);
	if (protocol_notify(&out, MSG_config_gateway, &gateway) < 0 ||
	    protocol_notify(&out, MSG_config_listener, &plain) < 0 ||
	    protocol_notify(&out, MSG_config_listener, &tls) < 0 ||
	    protocol_notify(&out, MSG_config_end, &end) < 0 || fd < 0)
		die("configuration");
	write_all(fd, out.p, out.n);
	lseek(fd, 0, SEEK_SET);
	buf_finish(&out);
	buf_finish(&certificate);
	buf_finish(&key);
	return fd;
}

/* Born with control link, two listeners and its configuration, as the supervisor does it. */
static _Noreturn void
gateway_process(bool echo, const int given[4])
{
	int high[4];
	char path[4096], number[] = "6", *argv[] = { path, number, NULL }, *none[] = { NULL };

	snprintf(path, sizeof path, "%s/libexec/caisson-gateway", getenv("CAISSON_BUILD"));
	for (int i = 0; i < 4; i++)
		high[i] = fcntl(given[i], F_DUPFD, 100);
	for (int i = 0; i < 4; i++)
		if (dup2(high[i], GATEWAY_FD_CONTROL + i) < 0)
			die("dup2");
	syscall(SYS_close_range, GATEWAY_FD_CONTROL + 4, ~0u, 0);
	if (echo)
		echo_process(GATEWAY_FD_CONTROL + 3);
	execve(path, argv, none);
	die(path);
	abort();
}

/* ---- supervisor and broker -------------------------------------------------------------------- */

/* A reply but for its message id, and a whole event. */
struct script {
	struct buf hello, prove, show, submit, stop;
	struct buf event, done, batch;
};

/* Everything behind the message id. */
static void
script_reply(struct buf *tail, enum msg_type type, const void *m)
{
	struct buf frame = { 0 };

	if (protocol_reply(&frame, type, FIRST_ID, m) < 0)
		die("reply");
	buf_add(tail, frame.p + 4 + 2 + 5, frame.n - 4 - 2 - 5);
	buf_finish(&frame);
}

static void
script_init(struct script *s)
{
	struct msg_hello_reply hello = { .protocol = PROTOCOL_VERSION, .frameMax = FRAME_MAX };
	struct msg_principal_prove_reply prove = { .principal = slice_of("human:bench") };
	struct msg_session_show_reply show;
	struct msg_operation_submit_reply submit = { .operation = slice_of(OPERATION) };
	struct msg_operation_cancel_reply stop;
	struct msg_operation_event event = bench_event(event_type_output),
				   done = bench_event(event_type_completed);
	struct buf session = { 0 };

	pack_map(&session, 2);
	pack_str(&session, "id");
	pack_str(&session, "s-0000000000000001");
	pack_str(&session, "runtime");
	pack_str(&session, "shell");
	show.session = buf_slice(&session);
	script_reply(&s->hello, MSG_hello_reply, &hello);
	script_reply(&s->prove, MSG_principal_prove_reply, &prove);
	script_reply(&s->show, MSG_session_show_reply, &show);
	script_reply(&s->submit, MSG_operation_submit_reply, &submit);
	script_reply(&s->stop, MSG_operation_cancel_reply, &stop);
	if (protocol_notify(&s->event, MSG_operation_event, &event) < 0 ||
	    protocol_notify(&s->done, MSG_operation_event, &done) < 0)
		die("event");
	while (s->batch.n + s->event.n <= BATCH_BYTES)
		buf_add(&s->batch, s->event.p, s->event.n);
	buf_finish(&session);
}

static void
reply_to(struct buf *out, const uint8_t *msgid, const struct buf *tail)
{
	size_t width = uint_width(msgid);
	uint8_t head[4 + 2] = { 0, 0, 0, 0, 0x94, 1 };

	put_u32(head, (uint32_t)(2 + width + tail->n));
	buf_add(out, head, sizeof head);
	buf_add(out, msgid, width);
	buf_add(out, tail->p, tail->n);
}

/* Writes what is left of the events, from wherever one of them stands. */
static void
broker_push(const struct script *s, int ep, int fd, struct pushing *p)
{
	ssize_t r;

	while (p->left > 0) {
		size_t skip = (s->event.n - p->left % s->event.n) % s->event.n;
		size_t n = s->batch.n - skip;

		r = write(fd, s->batch.p + skip, n < p->left ? n : p->left);
		if (r < 0) {
			watch(ep, fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return;
		}
		p->left -= (uint64_t)r;
	}
	watch(ep, fd, EPOLLIN, EPOLL_CTL_MOD);
	while (write(fd, s->done.p, s->done.n) < 0)
		poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
}

struct scripted {
	struct script script;
	const struct edge_order *order;
	int ep, control;
	struct pushing pushing[EDGE_MAX * 4];
};

/* Answers the requests of one read; returns whether events are to follow. */
static bool
broker_answer(struct scripted *b, const uint8_t *in, size_t n, struct buf *out)
{
	const struct script *s = &b->script;
	bool push = false;

	for (size_t at = 0; at < n; at += 4 + get_u32(in + at)) {
		const uint8_t *msgid = in + at + 4 + 2, *name = msgid + uint_width(msgid) + 1;

		if (n - at < 4 || n - at < 4 + get_u32(in + at))
			die("half a frame");
		if (memcmp(name, "operation.submit", 16) == 0) {
			reply_to(out, msgid, &s->submit);
			push = b->order->events > 0;
			if (b->order->hold)
				buf_add(out, s->event.p, s->event.n);
			else if (!push)
				buf_add(out, s->done.p, s->done.n);
		} else if (memcmp(name, "operation.stop", 14) == 0) {
			reply_to(out, msgid, &s->stop);
		} else if (memcmp(name, "session.show", 12) == 0) {
			reply_to(out, msgid, &s->show);
		} else if (memcmp(name, "principal.prove", 15) == 0) {
			reply_to(out, msgid, &s->prove);
		} else {
			reply_to(out, msgid, &s->hello);
		}
	}
	return push;
}

static void
broker_serve(struct scripted *b, int fd)
{
	static uint8_t in[BATCH_BYTES];
	static struct buf out;
	ssize_t r = read(fd, in, sizeof in);
	bool push;

	if (r <= 0) {
		close(fd);
		return;
	}
	push = broker_answer(b, in, (size_t)r, &out);
	send_buf(fd, &out);
	if (push) {
		b->pushing[fd].left = b->order->events * b->script.event.n;
		broker_push(&b->script, b->ep, fd, &b->pushing[fd]);
	}
}

static void
supervise(struct scripted *b)
{
	struct control c, dialed = { .verb = CONTROL_DIALED };
	int fds[CONTROL_FDS_MAX], link[2];
	unsigned n;

	if (control_recv(b->control, &c, fds, &n) <= 0)
		_exit(0);
	if (c.verb != CONTROL_DIAL)
		return;
	pair(SOCK_STREAM, link, true);
	fcntl(link[0], F_SETFL, O_NONBLOCK);
	dialed.index = c.index;
	if (control_send(b->control, &dialed, &link[1], 1) < 0)
		die("control");
	close(link[1]);
	watch(b->ep, link[0], EPOLLIN, EPOLL_CTL_ADD);
}

static _Noreturn void
broker_script(int control, const struct edge_order *order)
{
	static struct scripted b;
	struct epoll_event ev[64];
	int n;

	script_init(&b.script);
	b.order = order;
	b.control = control;
	b.ep = epoll_create1(EPOLL_CLOEXEC);
	watch(b.ep, control, EPOLLIN, EPOLL_CTL_ADD);
	for (;;) {
		n = epoll_wait(b.ep, ev, 64, -1);
		for (int i = 0; i < n; i++)
			if (ev[i].data.fd == control)
				supervise(&b);
			else if (ev[i].events & EPOLLIN)
				broker_serve(&b, ev[i].data.fd);
			else
				broker_push(&b.script, b.ep, ev[i].data.fd,
				    &b.pushing[ev[i].data.fd]);
	}
}

static void
edge_open(struct edge *e, bool echo)
{
	int control[2], given[4];

	e->order = shared(sizeof *e->order);
	pair(SOCK_SEQPACKET, control, true);
	given[0] = control[1];
	given[1] = listen_on(&e->port);
	given[2] = listen_on(&e->tls_port);
	given[3] = edge_config();
	e->gateway = fork_on(SERVER_CPU);
	if (e->gateway == 0)
		gateway_process(echo, given);
	for (int i = 0; i < 4; i++)
		close(given[i]);
	e->broker = fork_on(CLIENT_CPU);
	if (e->broker == 0)
		broker_script(control[0], e->order);
	close(control[0]);
}

static void
edge_close(struct edge *e)
{
	kill(e->gateway, SIGKILL);
	kill(e->broker, SIGKILL);
	waitpid(e->gateway, NULL, 0);
	waitpid(e->broker, NULL, 0);
	munmap(e->order, sizeof *e->order);
}

/* ---- its clients ------------------------------------------------------------------------------ */

static inline bool
wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

static inline double
cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		die("clock of the server");
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void
upgrade(int fd)
{
	char in[1024];
	size_t n = 0;
	ssize_t r;

	write_all(fd, UPGRADE, strlen(UPGRADE));
	do {
		r = read(fd, in + n, sizeof in - 1 - n);
		if (r <= 0)
			die("upgrade");
		n += (size_t)r;
		in[n] = '\0';
	} while (strstr(in, "\r\n\r\n") == NULL);
	if (strncmp(in, "HTTP/1.1 101", 12) != 0) {
		fprintf(stderr, "bench: %s\n", in);
		exit(1);
	}
}

/* What one pass of a side came to. */
struct pace {
	double rate; /* messages a second */
	double cpu_ns; /* of the server, a message */
};

struct figures {
	struct series rate, cpu;
};

static inline void
add_pace(struct figures *f, struct pace product, struct pace base)
{
	add(&f->rate, product.rate, base.rate);
	add(&f->cpu, product.cpu_ns / 1000, base.cpu_ns / 1000);
}

#endif /* TESTS_BENCH_EDGE_H */
