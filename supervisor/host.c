#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/host_private.h"

#define PING_MS		  1000
#define PINGS_MISSED_MAX  5
#define GRACE_MS	  3000	/* a ledger may catch up for this long at the end */
#define RESTARTS_MS	  10000 /* more than DEATHS_MAX deaths in it are too many */
#define BACK_OFF_LAST_MS  5000

const char *const service_names[SERVICES] = { "broker", "ledger", "gateway" };

/* Pings before it is ready; 0: it needs not be.  A broker's ledger may have much to read
 * first. */
static const unsigned unready_max[SERVICES] = { [BROKER] = 60, [GATEWAY] = 10 };

static void
arm(struct event *e, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(e, &tv);
}

void
host_fail(struct host *h, enum layer layer, int error)
{
	struct control m = { .verb = CONTROL_FAILED, .layer = layer, .error = error };

	if (h->status == 0)
		peer_send(h->client, &m, NULL, 0);
	h->status = 125;
	host_shutdown(h);
	if (h->services[BROKER].launch)
		launch_kill(h->services[BROKER].launch, ENDING_host_lost);
}

/* ---- births and deaths ------------------------------------------------------------- */

static void
service_on_started(struct launch *l, void *arg)
{
	struct service *s = arg;

	(void)l;
	s->started = true;
	log_debug("the %s runs", service_names[s->id]);
}

static void
log_death(const struct service *s, const struct exit_facts *exit)
{
	if (s->host->stage != STAGE_RUNNING)
		return;
	log_id("service", service_names[s->id]);
	log_warn("the %s is gone: %s %d%s", service_names[s->id],
	    !exit			  ? "killed"
	    : exit->kind == EXIT_EXITED	  ? "exited"
	    : exit->kind == EXIT_SIGNALED ? "signal"
					  : "unknown",
	    exit ? exit->status : SIGKILL, s->unanswered >= PINGS_MISSED_MAX ? ", it did not answer" : "");
}

void
host_serve(struct host *h, bool served)
{
	if (h->serving == served || !h->o.on_clients)
		return;
	h->serving = served;
	h->o.on_clients(served, h->o.arg);
}

void
host_serve_when_ready(struct host *h)
{
	if (h->ready && h->stage == STAGE_RUNNING &&
	    (!gateway_is_wanted(h) || h->gateway.spoken))
		host_serve(h, true);
}

static void
broker_gone(struct host *h)
{
	h->ready = false;
	host_serve(h, false);
	host_config_alone(h);
	if (h->workspaces)
		workspaces_on_gone(h->workspaces);
	if (h->stage == STAGE_RUNNING && deaths_note(&h->deaths, clock_ms(), RESTARTS_MS)) {
		log_error(
		    "the broker died %d times in %d s", DEATHS_MAX + 1, RESTARTS_MS / 1000);
		host_fail(h, LAYER_NONE, 0);
	}
	children_kill_all(h->children,
	    h->stage == STAGE_RUNNING || h->status ? ENDING_host_lost : ENDING_shutdown);
}

static void
ledger_gone(struct host *h)
{
	if (h->stage == STAGE_CLOSING)
		return;
	/* On a full disk, say: who waits for the beginning is told that there is none. */
	if (h->stage == STAGE_RUNNING && !h->begun && ++h->false_starts > FALSE_STARTS_MAX) {
		log_error("the ledger cannot begin: is there space for %s? Nothing starts "
			  "without a record", h->o.run->index);
		host_fail(h, LAYER_NONE, EIO);
		return;
	}
	arm(h->ledger_again, h->back_off_ms);
	h->back_off_ms *= 2;
	if (h->back_off_ms > BACK_OFF_LAST_MS)
		h->back_off_ms = BACK_OFF_LAST_MS;
}

static void (*const on_gone[SERVICES])(struct host *h) = {
	[BROKER] = broker_gone,
	[LEDGER] = ledger_gone,
	[GATEWAY] = gateway_gone,
};

/* `exit` is NULL where the launch has kept none. */
static void
service_gone(struct service *s, const struct exit_facts *exit)
{
	s->launch = NULL;
	/* Its end can be heard of before its last words, which may say why. */
	peer_drain(s->peer);
	service_drop_peer(s);
	log_death(s, exit);
	on_gone[s->id](s->host);
	host_go_on(s->host);
}

static void
service_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	(void)l;
	service_gone(arg, exit);
}

/* A program may run, and earn its kill, before its launch is known to have gone well. */
static void
service_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct service *s = arg;

	(void)l;
	if (layer == LAYER_HANDSHAKE && error == ECANCELED) {
		service_gone(s, exit);
		return;
	}
	s->launch = NULL;
	service_drop_peer(s);
	service_explain(s, layer, error);
	if (s->id == GATEWAY)
		gateway_gone(s->host);
	else
		host_fail(s->host, layer, error);
	host_go_on(s->host);
}

const struct launch_handler service_handler = {
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
		host_start_ledger(h);
	host_go_on(h);
}

static bool
is_ready(const struct service *s)
{
	return unready_max[s->id] == 0 ||
	       (s->id == BROKER ? s->host->ready : s->host->gateway.ready);
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
		if (!is_ready(s) && ++s->unready > unready_max[s->id]) {
			log_error("the %s does not become ready: killed", service_names[s->id]);
			launch_kill(s->launch, ENDING_host_lost);
			continue;
		}
		s->unanswered++;
		peer_send(s->peer, &m, NULL, 0);
	}
}

/* ---- the end ----------------------------------------------------------------------- */

/* What empties a workspace shows it, and is not waited for while we run. */
static bool
all_idle(const struct host *h)
{
	return !h->workspaces || workspaces_idle(h->workspaces);
}

/*
 * The one place that takes the next step: called after every event that could allow it.  It
 * may end in on_done(), so it is the last thing its caller does.
 */
void
host_go_on(struct host *h)
{
	struct service *broker = &h->services[BROKER], *ledger = &h->services[LEDGER];
	struct service *gateway = &h->services[GATEWAY];

	if (broker->launch || h->stage == STAGE_OVER)
		return;
	/* Those that wait never spoke with the old broker, and serve the next one. */
	if (h->stage == STAGE_RUNNING ? !children_idle(h->children)
				      : !children_empty(h->children) || !all_idle(h))
		return;
	rundir_seal(h->o.run);
	if (h->stage == STAGE_RUNNING) {
		host_start_broker(h);
		return;
	}
	if (h->stage == STAGE_SETTLING) {
		h->stage = STAGE_CLOSING;
		event_del(h->ledger_again);
		service_drop_peer(ledger);
		arm(h->deadline, GRACE_MS);
	}
	if (ledger->launch || gateway->launch)
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
	struct service *s;

	(void)fd;
	(void)events;
	for (s = h->services; s < h->services + SERVICES; s++) {
		/* The others have their time behind the broker's end. */
		if (!s->launch || (s->id == BROKER) != (h->stage != STAGE_CLOSING))
			continue;
		log_warn("the %s did not end in time: killed", service_names[s->id]);
		launch_kill(s->launch, ENDING_shutdown);
	}
}

void
host_shutdown(struct host *h)
{
	struct control m = { .verb = CONTROL_SHUTDOWN };

	if (h->stage != STAGE_RUNNING)
		return;
	h->stage = STAGE_SETTLING;
	STOP_POINT("supervisor.shutdown");
	standby_close();
	children_drain(h->children);
	if (h->workspaces)
		workspaces_end(h->workspaces);
	arm(h->deadline, (unsigned)h->config->limits.shutdown_grace);
	if (h->services[BROKER].launch)
		peer_send(h->services[BROKER].peer, &m, NULL, 0);
	else
		children_kill_all(h->children, ENDING_shutdown);
	gateway_shutdown(h);
	event_active(h->ledger_again, EV_TIMEOUT, 0); /* host_go_on(), from the loop */
}

void
host_kill(struct host *h)
{
	unsigned i;

	host_shutdown(h);
	for (i = 0; i < SERVICES; i++)
		if (h->services[i].launch)
			launch_kill(h->services[i].launch, ENDING_shutdown);
	children_kill_all(h->children, ENDING_shutdown);
}

/* ---- making it --------------------------------------------------------------------- */

static void
children_tell(const struct control *c, int *fds, unsigned nfds, void *arg)
{
	struct host *h = arg;

	peer_send(h->services[BROKER].peer, c, fds, nfds);
}

static void
children_on_empty(void *arg)
{
	host_go_on(arg);
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
	h->o.facts.now_ms = clock_wall_ms();
	h->config = o->config;
	h->generations = 1;
	h->back_off_ms = BACK_OFF_FIRST_MS;
	for (i = 0; i < SERVICES; i++)
		h->services[i] = (struct service){ .host = h, .id = i, .uid = UID_CLAIM_NONE };
	if (o->client_fd >= 0) {
		h->client_facts = read_client_facts(o->client_fd);
		h->client = peer_open(base, o->client_fd, &client_handler, h);
	}
	h->children = children_create(
	    base, o->config, o->facts.kind, o->learn, &children_handler, h);
	h->ping = event_new(base, -1, EV_PERSIST, host_on_ping, h);
	h->deadline = evtimer_new(base, host_on_deadline, h);
	h->ledger_again = evtimer_new(base, host_on_ledger_again, h);
	if ((o->client_fd >= 0 && !h->client) || !h->children || !h->ping || !h->deadline ||
	    !h->ledger_again || gateway_init(h) < 0 ||
	    (o->facts.daemon && (host_open_workspaces(h) < 0 ||
				    standby_open(base, (unsigned)o->config->standby) < 0))) {
		host_destroy(h);
		return NULL;
	}
	arm(h->ping, PING_MS);
	host_start_ledger(h);
	if (h->stage == STAGE_RUNNING)
		host_start_broker(h);
	host_start_gateway(h);
	return h;
}

void
host_destroy(struct host *h)
{
	size_t i;

	if (!h)
		return;
	standby_close();
	if (h->ping)
		event_free(h->ping);
	if (h->deadline)
		event_free(h->deadline);
	if (h->ledger_again)
		event_free(h->ledger_again);
	for (i = 0; i < SERVICES; i++) {
		service_drop_peer(&h->services[i]);
		uid_release(&h->services[i].uid);
	}
	gateway_finish(h);
	children_destroy(h->children);
	workspaces_destroy(h->workspaces);
	peer_close(h->client);
	free(h);
}
