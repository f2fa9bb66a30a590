#include "supervisor/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/child_env.h"
#include "supervisor/children.h"
#include "supervisor/launch.h"
#include "supervisor/peer.h"
#include "supervisor/uid.h"

#define PING_MS		  1000
#define PINGS_MISSED_MAX  5
#define GRACE_MS	  3000 /* a broker may settle, a ledger may catch up for this long */
#define RESTARTS_MAX	  5 /* deaths of a broker ... */
#define RESTARTS_MS	  10000 /* ... within this time are too many */
#define BACK_OFF_FIRST_MS 100
#define BACK_OFF_LAST_MS  5000

enum service_id {
	BROKER,
	LEDGER,
	SERVICES
};

/* One of the two processes of ours. */
struct service {
	struct host *host;
	enum service_id id;
	struct launch *launch; /* NULL: not running */
	struct peer *peer;
	struct uid_claim uid;
	unsigned unanswered; /* pings; a clock of ours that stood still adds none */
	bool started; /* the exec happened */
};

enum stage {
	STAGE_RUNNING,
	STAGE_SETTLING, /* the broker was told to end, or is being killed */
	STAGE_CLOSING, /* the ledger reads to the end */
	STAGE_OVER,
};

struct host {
	struct event_base *base;
	struct host_options o;
	struct peer *client;
	struct control client_facts; /* uid, gid, pid of the client, as the kernel gave them */
	struct service services[SERVICES];
	struct children *children;
	enum stage stage;
	int status;
	bool ready; /* this broker's CONTROL_READY has come */
	uint64_t death_at_ms[RESTARTS_MAX]; /* of brokers, a ring */
	unsigned deaths;
	unsigned back_off_ms; /* of the ledger */
	struct event *ping, *deadline, *ledger_again;
};

static void start_broker(struct host *h);
static void start_ledger(struct host *h);
static void go_on(struct host *h);

static const char *const names[SERVICES] = { "broker", "ledger" };
static const char *const programs[SERVICES] = { "/libexec/caisson-broker",
	"/libexec/caisson-ledger" };

static void
arm(struct event *e, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(e, &tv);
}

/* Nothing can be started (any more): says why, and ends everything with 125. */
static void
fail(struct host *h, enum layer layer, int error)
{
	struct control m = { .verb = CONTROL_FAILED, .layer = layer, .error = error };

	if (h->status == 0)
		peer_send(h->client, &m, NULL, 0);
	h->status = 125;
	host_shutdown(h);
	if (h->services[BROKER].launch)
		launch_kill(h->services[BROKER].launch, ENDING_host_lost);
}

/* ---- links between the three --------------------------------------------------------------- */

/* A link, one end to each of two peers, with what else they are told. */
static void
connect_peers(struct host *h, struct peer *a, struct control *to_a, struct peer *b,
    struct control *to_b)
{
	int a_fd, b_fd, r;

	r = peer_pair(SOCK_STREAM, true, true, &a_fd, &b_fd);
	if (r < 0) {
		log_error("cannot make a link: %s", strerror(-r));
		fail(h, LAYER_DESCRIPTORS, -r);
		return;
	}
	peer_send(a, to_a, &a_fd, 1);
	peer_send(b, to_b, &b_fd, 1);
}

static void
connect_ledger(struct host *h)
{
	struct control to_broker = { .verb = CONTROL_LEDGER };
	struct control to_ledger = { .verb = CONTROL_CLIENT, .flags = 1 };

	if (!h->services[BROKER].peer || !h->services[LEDGER].peer)
		return;
	connect_peers(
	    h, h->services[BROKER].peer, &to_broker, h->services[LEDGER].peer, &to_ledger);
}

static void
connect_client(struct host *h)
{
	struct control to_client = { .verb = CONTROL_BROKER };

	STOP_POINT("supervisor.before_client");
	connect_peers(h, h->services[BROKER].peer, &h->client_facts, h->client, &to_client);
	STOP_POINT("supervisor.after_client");
}

/* ---- what the broker asks for -------------------------------------------------------------- */

/*
 * The broker asks for its first segment too: only once the ledger has said where the record
 * ends, as the ledger counts every segment that it finds.
 */
static int
handle_more(struct host *h, const struct control *c)
{
	struct control m = { .verb = CONTROL_SEGMENT, .count = c->count };
	uint64_t number;
	int fd, r;

	if (c->count > STATE_SEGMENT_MAX)
		return -EPROTO;
	if (c->count < STATE_SEGMENT_MIN)
		m.count = STATE_SEGMENT;
	STOP_POINT("supervisor.before_segment");
	r = rundir_segment(h->o.run, m.count, &fd, &number);
	STOP_POINT("supervisor.after_segment");
	if (r == 0) {
		m.index = (uint32_t)number;
		peer_send(h->services[BROKER].peer, &m, &fd, 1);
		return 0;
	}
	log_warn("--state: cannot reserve %ju bytes for the journal: %s", (uintmax_t)m.count,
	    strerror(-r));
	m.verb = CONTROL_NO_SEGMENT;
	m.error = -r;
	peer_send(h->services[BROKER].peer, &m, NULL, 0);
	return 0;
}

static int
handle_ready(struct host *h, const struct control *c)
{
	(void)c;
	if (h->ready)
		return -EPROTO;
	h->ready = true;
	if (h->stage == STAGE_RUNNING)
		connect_client(h);
	return 0;
}

static int
handle_spawn(struct host *h, const struct control *c)
{
	struct control m = *c;

	if (h->stage == STAGE_RUNNING)
		return children_spawn(h->children, c);
	m.verb = CONTROL_REFUSED;
	m.layer = LAYER_PLAN;
	m.error = ESHUTDOWN;
	peer_send(h->services[BROKER].peer, &m, NULL, 0);
	return 0;
}

static int
handle_kill(struct host *h, const struct control *c)
{
	return children_kill(h->children, c);
}

static int
handle_signal(struct host *h, const struct control *c)
{
	return children_signal(h->children, c);
}

static int
handle_settled(struct host *h, const struct control *c)
{
	(void)c;
	if (h->stage == STAGE_RUNNING)
		return -EPROTO;
	/* End-of-file is what ends it. */
	peer_close(h->services[BROKER].peer);
	h->services[BROKER].peer = NULL;
	return 0;
}

static const struct {
	enum control_verb verb;
	int (*handle)(struct host *h, const struct control *c); /* 0, or -EPROTO: not sound */
} handlers[] = {
	{ CONTROL_READY, handle_ready },
	{ CONTROL_SPAWN, handle_spawn },
	{ CONTROL_KILL, handle_kill },
	{ CONTROL_SIGNAL, handle_signal },
	{ CONTROL_MORE, handle_more },
	{ CONTROL_SETTLED, handle_settled },
};

static void
broker_on_control(const struct control *c, void *arg)
{
	struct service *s = arg;
	struct host *h = s->host;
	size_t i;
	int r = -EPROTO;

	if (c->verb == CONTROL_PONG) {
		s->unanswered = 0;
		return;
	}
	for (i = 0; i < countof(handlers); i++)
		if (handlers[i].verb == c->verb)
			r = handlers[i].handle(h, c);
	if (r < 0 && s->launch) {
		log_error("the broker asked for what no broker may (verb %u): killed", c->verb);
		launch_kill(s->launch, ENDING_host_lost);
	}
}

static void
ledger_on_control(const struct control *c, void *arg)
{
	struct service *s = arg;

	if (c->verb != CONTROL_PONG)
		return;
	s->unanswered = 0;
	s->host->back_off_ms = BACK_OFF_FIRST_MS;
}

/*
 * At end-of-file its exit follows and says why, and one that lives on without its link
 * answers no heartbeat.  One that sent another form than ours is not waited for.
 */
static void
service_on_end(int error, void *arg)
{
	struct service *s = arg;

	if (error == 0 || !s->launch)
		return;
	log_error("the control link of the %s broke: %s: killed", names[s->id], strerror(-error));
	launch_kill(s->launch, ENDING_host_lost);
}

static const struct peer_handler service_peers[SERVICES] = {
	[BROKER] = { broker_on_control, service_on_end },
	[LEDGER] = { ledger_on_control, service_on_end },
};

/* ---- start --------------------------------------------------------------------------------- */

static const struct launch_handler service_handler;

static void
drop_peer(struct service *s)
{
	peer_close(s->peer);
	s->peer = NULL;
}

static int
claim_uid(struct service *s, struct chamber *c)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	int r;

	if (!uid_is_root())
		return 0;
	if (s->uid.lock_fd < 0) {
		r = uid_claim(&range, &s->uid);
		if (r < 0)
			return r;
		if (s->id == LEDGER) {
			r = rundir_give(s->host->o.run, s->uid.uid, s->uid.uid);
			if (r < 0)
				return r;
		}
	}
	c->uid = s->uid.uid;
	c->gid = s->uid.uid;
	return 0;
}

/* `more` are its descriptors from RUNTIME_FD_LINK + 1; they stay the caller's. */
static int
start_service(struct service *s, const struct chamber_mount *mounts, size_t nmounts,
    const int *more, size_t nmore, enum layer *ret_layer)
{
	char *const argv[] = { (char *)(uintptr_t)programs[s->id], NULL };
	char *env[] = { NULL, NULL };
	int fds[8] = { -1, -1, STDERR_FILENO, -1 }, ours;
	cleanup_fd int theirs = -1;
	struct chamber c = { .profile = names[s->id], .argv = argv, .env = env, .cwd = "/",
		.mounts = mounts, .nmounts = nmounts, .fds = fds, .nfds = 4 + nmore };
	int r;

#ifdef CAISSON_TEST_STOPS
	cleanup_free char *stop = NULL;

	if (getenv(STOP_ENV) && asprintf(&stop, STOP_ENV "=%s", getenv(STOP_ENV)) > 0)
		env[0] = stop;
#endif
	*ret_layer = LAYER_UID;
	r = claim_uid(s, &c);
	if (r < 0)
		return r;
	*ret_layer = LAYER_DESCRIPTORS;
	r = peer_pair(SOCK_SEQPACKET, true, true, &ours, &theirs);
	if (r < 0)
		return r;
	s->peer = peer_open(s->host->base, ours, &service_peers[s->id], s);
	if (!s->peer)
		return -errno;
	fds[RUNTIME_FD_LINK] = theirs;
	memcpy(fds + RUNTIME_FD_LINK + 1, more, nmore * sizeof(*more));
	s->unanswered = 0;
	s->started = false;
	r = launch_start(s->host->base, &c, &service_handler, s, &s->launch, ret_layer);
	if (r < 0)
		drop_peer(s);
	return r;
}

static void
explain(const struct service *s, enum layer layer, int error)
{
	char why[512];

	if (s->host->status) /* the first failure is the reason; what follows is its doing */
		return;
	launch_explain(layer, error, why, sizeof(why));
	log_error("cannot start the %s: %s", names[s->id], why);
}

static int
start_broker_with(struct host *h, enum layer *ret_layer)
{
	cleanup_fd int config = -1;
	struct buf b = { 0 };
	int r;

	*ret_layer = LAYER_PLAN;
	h->o.facts.now_ms = clock_wall_ms();
	r = pack_config(&b, h->o.config, &h->o.facts);
	if (r == 0)
		r = config = pack_memfd(&b);
	if (b.p)
		explicit_bzero(b.p, b.n); /* the key */
	buf_finish(&b);
	if (r < 0)
		return r;
	h->ready = false;
	return start_service(&h->services[BROKER], NULL, 0, &config, 1, ret_layer);
}

static void
start_broker(struct host *h)
{
	enum layer layer;
	int r;

	r = start_broker_with(h, &layer);
	STOP_POINT("supervisor.after_broker");
	if (r < 0) {
		explain(&h->services[BROKER], layer, -r);
		fail(h, layer, -r);
		return;
	}
	connect_ledger(h);
}

/* The ledger opens what is beneath its descriptors; the mounts say to Landlock what it may. */
static void
start_ledger(struct host *h)
{
	struct service *s = &h->services[LEDGER];
	const struct chamber_mount mounts[] = {
		{ .source = h->o.run->journal, .target = "/journal" },
		{ .source = h->o.run->index, .target = "/index", .writable = true },
	};
	const int fds[] = { h->o.run->journal_fd, h->o.run->index_fd };
	enum layer layer;
	int r;

	r = start_service(s, mounts, countof(mounts), fds, countof(fds), &layer);
	STOP_POINT("supervisor.after_ledger");
	if (r < 0) {
		explain(s, layer, -r);
		fail(h, layer, -r);
		return;
	}
	connect_ledger(h);
}

static void
service_on_started(struct launch *l, void *arg)
{
	struct service *s = arg;

	(void)l;
	s->started = true;
	log_debug("the %s runs", names[s->id]);
}

static void
service_on_refused(struct launch *l, enum layer layer, int error,
    const struct exit_facts *exit, void *arg)
{
	struct service *s = arg;

	(void)l;
	(void)exit;
	s->launch = NULL;
	drop_peer(s);
	explain(s, layer, error);
	fail(s->host, layer, error);
	go_on(s->host);
}

/* ---- deaths -------------------------------------------------------------------------------- */

static void
log_death(const struct service *s, const struct exit_facts *exit)
{
	if (s->host->stage != STAGE_RUNNING)
		return;
	log_warn("the %s is gone: %s %d%s", names[s->id],
	    exit->kind == EXIT_EXITED	    ? "exited"
		: exit->kind == EXIT_SIGNALED ? "signal"
					    : "unknown",
	    exit->status, s->unanswered >= PINGS_MISSED_MAX ? ", it did not answer" : "");
}

/* Notes the death of a broker; true if there were too many of late. */
static bool
too_many_deaths(struct host *h)
{
	uint64_t now_ms = clock_ms(), *oldest = &h->death_at_ms[h->deaths % RESTARTS_MAX];
	bool many = h->deaths >= RESTARTS_MAX && now_ms - *oldest < RESTARTS_MS;

	*oldest = now_ms;
	h->deaths++;
	return many;
}

static void
broker_gone(struct host *h)
{
	if (h->stage == STAGE_RUNNING && too_many_deaths(h)) {
		log_error("the broker died %d times in %d s", RESTARTS_MAX + 1, RESTARTS_MS / 1000);
		fail(h, LAYER_NONE, 0);
	}
	children_kill_all(h->children,
	    h->stage == STAGE_RUNNING || h->status ? ENDING_host_lost : ENDING_shutdown);
}

static void
ledger_gone(struct host *h)
{
	if (h->stage == STAGE_CLOSING)
		return;
	arm(h->ledger_again, h->back_off_ms);
	h->back_off_ms *= 2;
	if (h->back_off_ms > BACK_OFF_LAST_MS)
		h->back_off_ms = BACK_OFF_LAST_MS;
}

static void
service_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct service *s = arg;
	struct host *h = s->host;

	(void)l;
	s->launch = NULL;
	drop_peer(s);
	log_death(s, exit);
	if (s->id == BROKER)
		broker_gone(h);
	else
		ledger_gone(h);
	go_on(h);
}

static const struct launch_handler service_handler = {
	.on_started = service_on_started,
	.on_refused = service_on_refused,
	.on_exit = service_on_exit,
};

static void
host_on_ledger_again(evutil_socket_t fd, short events, void *arg)
{
	struct host *h = arg;

	(void)fd;
	(void)events;
	if (h->stage == STAGE_RUNNING && !h->services[LEDGER].launch)
		start_ledger(h);
	go_on(h);
}

static void
host_on_ping(evutil_socket_t fd, short events, void *arg)
{
	struct control m = { .verb = CONTROL_PING };
	struct host *h = arg;
	struct service *s;

	(void)fd;
	(void)events;
	for (s = h->services; s < h->services + SERVICES; s++) {
		if (!s->launch || !s->started || !s->peer)
			continue;
		if (s->unanswered >= PINGS_MISSED_MAX) {
			launch_kill(s->launch, ENDING_host_lost);
			continue;
		}
		s->unanswered++;
		peer_send(s->peer, &m, NULL, 0);
	}
}

/* ---- the end ------------------------------------------------------------------------------- */

/*
 * The one place that takes the next step: called after every event that could allow it.  It
 * may end in on_done(), so it is the last thing its caller does.
 */
static void
go_on(struct host *h)
{
	struct service *broker = &h->services[BROKER], *ledger = &h->services[LEDGER];

	if (broker->launch || !children_empty(h->children) || h->stage == STAGE_OVER)
		return;
	rundir_seal(h->o.run);
	if (h->stage == STAGE_RUNNING) {
		start_broker(h);
		return;
	}
	if (h->stage == STAGE_SETTLING) {
		h->stage = STAGE_CLOSING;
		event_del(h->ledger_again);
		drop_peer(ledger);
		arm(h->deadline, GRACE_MS);
	}
	if (ledger->launch)
		return;
	h->stage = STAGE_OVER;
	event_del(h->deadline);
	event_del(h->ping);
	h->o.on_done(h->status, h->o.arg);
}

static void
host_on_deadline(evutil_socket_t fd, short events, void *arg)
{
	struct host *h = arg;
	struct service *s = &h->services[h->stage == STAGE_CLOSING ? LEDGER : BROKER];

	(void)fd;
	(void)events;
	if (!s->launch)
		return;
	log_warn("the %s did not end in time: killed", names[s->id]);
	launch_kill(s->launch, ENDING_shutdown);
}

void
host_shutdown(struct host *h)
{
	struct control m = { .verb = CONTROL_SHUTDOWN };

	if (h->stage != STAGE_RUNNING)
		return;
	h->stage = STAGE_SETTLING;
	STOP_POINT("supervisor.shutdown");
	arm(h->deadline, GRACE_MS);
	if (h->services[BROKER].launch)
		peer_send(h->services[BROKER].peer, &m, NULL, 0);
	else
		children_kill_all(h->children, ENDING_shutdown);
	event_active(h->ledger_again, EV_TIMEOUT, 0); /* go_on(), from the loop */
}

/* ---- making it ----------------------------------------------------------------------------- */

static void
children_tell(const struct control *c, int *fds, unsigned nfds, void *arg)
{
	struct host *h = arg;

	peer_send(h->services[BROKER].peer, c, fds, nfds);
}

static void
children_on_empty(void *arg)
{
	go_on(arg);
}

static const struct children_handler children_handler = { children_tell, children_on_empty };

static void
client_on_control(const struct control *c, void *arg)
{
	(void)c;
	(void)arg;
}

/* The pipe says when the client is gone: this link may be closed before. */
static void
client_on_end(int error, void *arg)
{
	(void)error;
	(void)arg;
}

static const struct peer_handler client_handler = { client_on_control, client_on_end };

static struct control
read_client_facts(int fd)
{
	struct control m = { .verb = CONTROL_CLIENT };
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		cred = (struct ucred){ .pid = getppid(), .uid = getuid(), .gid = getgid() };
	m.uid = cred.uid;
	m.gid = cred.gid;
	m.pid = (uint32_t)cred.pid;
	return m;
}

struct host *
host_create(struct event_base *base, const struct host_options *o)
{
	struct host *h = calloc(1, sizeof(*h));
	unsigned i;

	if (!h)
		return NULL;
	h->base = base;
	h->o = *o;
	h->back_off_ms = BACK_OFF_FIRST_MS;
	for (i = 0; i < SERVICES; i++)
		h->services[i] = (struct service){ .host = h, .id = i, .uid = UID_CLAIM_NONE };
	h->client_facts = read_client_facts(o->client_fd);
	h->client = peer_open(base, o->client_fd, &client_handler, h);
	h->children =
	    children_create(base, o->config, o->facts.kind, &children_handler, h);
	h->ping = event_new(base, -1, EV_PERSIST, host_on_ping, h);
	h->deadline = evtimer_new(base, host_on_deadline, h);
	h->ledger_again = evtimer_new(base, host_on_ledger_again, h);
	if (!h->client || !h->children || !h->ping || !h->deadline || !h->ledger_again) {
		host_destroy(h);
		return NULL;
	}
	arm(h->ping, PING_MS);
	start_ledger(h);
	if (h->stage == STAGE_RUNNING)
		start_broker(h);
	return h;
}

void
host_destroy(struct host *h)
{
	struct event **const events[] = { &h->ping, &h->deadline, &h->ledger_again };
	size_t i;

	if (!h)
		return;
	for (i = 0; i < countof(events); i++)
		if (*events[i])
			event_free(*events[i]);
	for (i = 0; i < SERVICES; i++) {
		drop_peer(&h->services[i]);
		uid_release(&h->services[i].uid);
	}
	children_destroy(h->children);
	peer_close(h->client);
	free(h);
}
