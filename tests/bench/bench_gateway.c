/*
 * bench_gateway: what the gateway adds to a socket (T18 to T20).
 *
 *	bench_gateway [NAME...]	only these targets
 *
 * Reads server.pem and server.key in the working directory.  Clients, the broker's script
 * among them, are on CPU 1; the gateway, or the floor's server, has CPU 0.
 */
#include "tests/bench/edge.h"

#define PASSES	    15
#define PASS_NS	    120000000u
#define MESSAGES_MIN 1000 /* that a pass counts */
#define CONNECTIONS 64
#define EVENTS	    40000
/* as long as TEXT */
#define SEND   "{\"type\":\"send\",\"operation\":{\"turn\":{\"message\":\"a short question\"}}}"
#define CANCEL "{\"type\":\"cancel\",\"operationID\":\"" OPERATION "\"}"

/* ---- clients --------------------------------------------------------------------------------- */

/* Connections to one server, which all say and hear the same. */
struct side {
	pid_t server;
	int fd[EDGE_MAX];
	int n;
	struct buf request; /* `flight` of them, one after the other */
	size_t request_bytes, reply_bytes; /* of one */
};

static void
add_frame(struct buf *out, const char *text)
{
	const uint8_t mask[4] = { 0x12, 0x34, 0x56, 0x78 };
	size_t n = strlen(text);
	uint8_t head[2] = { 0x81, (uint8_t)(0x80 | n) };

	if (n > 125)
		die("text");
	buf_add(out, head, sizeof head);
	buf_add(out, mask, sizeof mask);
	for (size_t i = 0; i < n; i++) {
		uint8_t byte = (uint8_t)text[i] ^ mask[i % 4];

		buf_add(out, &byte, 1);
	}
}

static size_t
framed_bytes(size_t n)
{
	return (n < 126 ? 2 : 4) + n;
}

static size_t
event_bytes(enum event_type type)
{
	struct msg_operation_event e = bench_event(type);
	struct buf json = { 0 };
	size_t n;

	event_json_write(&e, &json);
	n = framed_bytes(json.n);
	buf_finish(&json);
	return n;
}

/* `text` is said `flight` times at once; NULL: 64 bytes to the floor. */
static void
side_open(struct side *s, pid_t server, uint16_t port, int connections, unsigned flight,
    const char *text, size_t reply_bytes)
{
	*s = (struct side){ .server = server, .n = connections };
	for (int i = 0; i < connections; i++) {
		s->fd[i] = connect_to(port);
		if (text != NULL)
			upgrade(s->fd[i]);
	}
	for (unsigned i = 0; i < flight; i++)
		if (text != NULL)
			add_frame(&s->request, text);
		else
			buf_add(&s->request, TEXT, strlen(TEXT));
	s->request_bytes = s->request.n / flight;
	s->reply_bytes = reply_bytes;
}

static void
side_close(struct side *s)
{
	for (int i = 0; i < s->n; i++)
		close(s->fd[i]);
	buf_finish(&s->request);
}

struct load {
	struct side *side;
	struct epoll_event ev[64];
	size_t held[EDGE_MAX]; /* of a reply that is not whole */
	int ep;
	uint64_t messages;
};

/* Takes what is there; with `more`, as many requests follow as replies have come. */
static void
load_turn(struct load *l, bool more)
{
	static uint8_t in[1 << 18];
	struct side *s = l->side;
	int n = epoll_wait(l->ep, l->ev, 64, 10000);

	if (n <= 0)
		die("a server that answers");
	for (int i = 0; i < n; i++) {
		uint32_t c = l->ev[i].data.u32;
		ssize_t r = read(s->fd[c], in, sizeof in);
		size_t got;

		if (r <= 0)
			die("a server that stays");
		got = (l->held[c] + (size_t)r) / s->reply_bytes;
		l->held[c] = (l->held[c] + (size_t)r) % s->reply_bytes;
		l->messages += got;
		if (more && got > 0)
			write_all(s->fd[c], s->request.p, got * s->request_bytes);
	}
}

static struct load
load_begin(struct side *s)
{
	struct load l = { .side = s, .ep = epoll_create1(EPOLL_CLOEXEC) };

	for (int i = 0; i < s->n; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.u32 = (uint32_t)i };

		if (epoll_ctl(l.ep, EPOLL_CTL_ADD, s->fd[i], &e) < 0)
			die("epoll");
	}
	return l;
}

/* Keeps the same number in flight for a while. */
static struct pace
side_echo(struct side *s)
{
	struct load l = load_begin(s);
	uint64_t start = now_ns(), end = start + PASS_NS, begun = 0, first = 0, sent;
	struct pace p;
	double cpu = 0;

	for (int i = 0; i < s->n; i++)
		write_all(s->fd[i], s->request.p, s->request.n);
	/* A machine at work may give none of them a turn in that time. */
	while (now_ns() < end || begun == 0 || l.messages - first < MESSAGES_MIN) {
		load_turn(&l, true);
		if (begun == 0 && now_ns() > start + PASS_NS / 5) {
			begun = now_ns();
			first = l.messages;
			cpu = cpu_ns(s->server);
		}
	}
	p.cpu_ns = (cpu_ns(s->server) - cpu) / (double)(l.messages - first);
	p.rate = (double)(l.messages - first) * 1e9 / (double)(now_ns() - begun);
	sent = l.messages + (uint64_t)s->n * (s->request.n / s->request_bytes);
	while (l.messages < sent)
		load_turn(&l, false);
	close(l.ep);
	return p;
}

/* ---- T18, T19: there and back -------------------------------------------------------------- */

struct floor {
	pid_t pid;
	uint16_t port;
	struct edge_order *order;
};

static void
floor_open(struct floor *f)
{
	int listener = listen_on(&f->port);

	f->order = shared(sizeof *f->order);
	f->pid = fork_on(SERVER_CPU);
	if (f->pid == 0)
		floor_server(listener, f->order);
	close(listener);
}

static void
compare(struct side *product, struct side *base, struct figures *f)
{
	for (int pass = 0; pass < PASSES; pass++) {
		struct pace p = side_echo(product);

		add_pace(f, p, side_echo(base));
	}
}

/* A hold: the operation of every connection stays open, and cancels are what is measured. */
static void
hold_operations(struct edge *e, struct side *s)
{
	struct buf send = { 0 };
	uint8_t event[1024];

	e->order->hold = true;
	add_frame(&send, SEND);
	for (int i = 0; i < s->n; i++) {
		write_all(s->fd[i], send.p, send.n);
		read_all(s->fd[i], event, event_bytes(event_type_output));
	}
	buf_finish(&send);
}

static void
measure_echo(int argc, char **argv, const struct floor *f, struct edge *api, struct edge *echo)
{
	static struct side base, product;
	struct figures figures = { 0 };

	side_open(&base, f->pid, f->port, CONNECTIONS, 1, NULL, strlen(TEXT));
	if (wanted(argc, argv, "T18f")) {
		side_open(&product, echo->gateway, echo->port, CONNECTIONS, 1, TEXT,
		    framed_bytes(strlen(TEXT)));
		compare(&product, &base, &figures);
		print_series("T18f", "msgs/s", &figures.rate, "64 B, 64 connections, framing only");
		print_series("T18fc", "us", &figures.cpu, "the same: the server's CPU a message");
		side_close(&product);
	}
	if (wanted(argc, argv, "T18")) {
		memset(&figures, 0, sizeof figures);
		side_open(&product, api->gateway, api->port, CONNECTIONS, 1, SEND,
		    event_bytes(event_type_completed));
		compare(&product, &base, &figures);
		print_series("T18", "ops/s", &figures.rate,
		    "an operation: JSON, broker's answer, one event");
		print_series("T18c", "us", &figures.cpu, "the same: the gateway's CPU an operation");
		side_close(&product);
	}
	side_close(&base);
}

static void
measure_pipelined(
    int argc, char **argv, const struct floor *f, struct edge *api, struct edge *echo)
{
	static struct side base, product;
	struct figures figures = { 0 };

	side_open(&base, f->pid, f->port, 16, 32, NULL, strlen(TEXT));
	if (wanted(argc, argv, "T19")) {
		side_open(&product, echo->gateway, echo->port, 16, 32, TEXT,
		    framed_bytes(strlen(TEXT)));
		compare(&product, &base, &figures);
		print_series("T19", "msgs/s", &figures.rate, "32 in flight, framing only");
		print_series("T19c", "us", &figures.cpu, "the same: the server's CPU a message");
		side_close(&product);
	}
	if (wanted(argc, argv, "T19j")) {
		memset(&figures, 0, sizeof figures);
		side_open(&product, api->gateway, api->port, 16, 32, CANCEL,
		    framed_bytes(strlen(CANCEL)));
		hold_operations(api, &product);
		compare(&product, &base, &figures);
		print_series("T19j", "msgs/s", &figures.rate,
		    "32 cancels in flight: JSON, and the broker's answer to each");
		print_series("T19jc", "us", &figures.cpu, "the same: the gateway's CPU a message");
		side_close(&product);
		api->order->hold = false;
	}
	side_close(&base);
}

/* ---- T20: events pushed ---------------------------------------------------------------------- */

/* Asks on every connection, and reads until `bytes` have come on each. */
static struct pace
side_push(struct side *s, const void *request, size_t n, uint64_t bytes, uint64_t events)
{
	struct load l = load_begin(s);
	uint64_t start = now_ns();
	double cpu = cpu_ns(s->server);
	struct pace p;

	s->reply_bytes = bytes;
	for (int i = 0; i < s->n; i++)
		write_all(s->fd[i], request, n);
	while (l.messages < (uint64_t)s->n)
		load_turn(&l, false);
	p.cpu_ns = (cpu_ns(s->server) - cpu) / (double)(events * (uint64_t)s->n);
	p.rate = (double)(events * (uint64_t)s->n) * 1e9 / (double)(now_ns() - start);
	close(l.ep);
	return p;
}

static void
measure_push(int argc, char **argv, const struct floor *f, struct edge *api, const char *name,
    int subscribers, const char *what)
{
	static struct side base, product;
	uint64_t events = EVENTS / (uint64_t)(subscribers > 8 ? subscribers / 8 : 1);
	struct series cpu = { 0 };

	if (!wanted(argc, argv, name))
		return;
	side_open(&base, f->pid, f->port, subscribers, 1, NULL, 1);
	side_open(&product, api->gateway, api->port, subscribers, 1, SEND, 1);
	f->order->events = api->order->events = events;
	for (int pass = 0; pass < PASSES; pass++) {
		struct pace p = side_push(&product, product.request.p, product.request.n,
		    events * event_bytes(event_type_output) + event_bytes(event_type_completed),
		    events);
		struct pace q = side_push(&base, "P", 1, events * EVENT_BYTES, events);

		add(&cpu, p.cpu_ns, q.cpu_ns);
	}
	f->order->events = api->order->events = 0;
	print_series(name, "ns", &cpu, what);
	side_close(&product);
	side_close(&base);
}

int
main(int argc, char **argv)
{
	struct edge api = { 0 }, echo = { 0 };
	struct floor f = { 0 };

	be_important();
	pin(CLIENT_CPU);
	signal(SIGPIPE, SIG_IGN);
	floor_open(&f);
	edge_open(&api, false);
	edge_open(&echo, true);
	measure_echo(argc, argv, &f, &api, &echo);
	measure_pipelined(argc, argv, &f, &api, &echo);
	measure_push(argc, argv, &f, &api, "T20", 1, "an event of 128 B, one subscriber");
	measure_push(argc, argv, &f, &api, "T20m", 64, "the same, 64 subscribers");
	edge_close(&echo);
	edge_close(&api);
	kill(f.pid, SIGKILL);
	waitpid(f.pid, NULL, 0);
	return 0;
}
