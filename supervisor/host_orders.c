#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/host_private.h"

/* ---- links between the three ------------------------------------------------------- */

/* A link, one end to each of two peers, with what else they are told. */
static void
connect_peers(
    struct host *h, struct peer *a, struct control *to_a, struct peer *b, struct control *to_b)
{
	int a_fd, b_fd, r;

	r = peer_pair(SOCK_STREAM, true, true, &a_fd, &b_fd);
	if (r < 0) {
		log_error("cannot make a link: %s", strerror(-r));
		host_fail(h, LAYER_DESCRIPTORS, -r);
		return;
	}
	peer_send(a, to_a, &a_fd, 1);
	peer_send(b, to_b, &b_fd, 1);
}

void
host_connect_ledger(struct host *h)
{
	struct control to_broker = { .verb = CONTROL_LEDGER };
	struct control to_ledger = { .verb = CONTROL_CLIENT, .flags = CONTROL_FROM_BROKER };

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

void
host_client(struct host *h, int fd, const struct ucred *peer)
{
	struct control m = { .verb = CONTROL_CLIENT,
		.flags = CONTROL_FROM_SOCKET,
		.uid = peer->uid,
		.gid = peer->gid,
		.pid = (uint32_t)peer->pid };

	peer_send(h->services[BROKER].peer, &m, &fd, 1);
}

/* ---- what the broker asks for ------------------------------------------------------ */

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
	if (!h->ready) {
		/* A broker cannot begin, and its client waits for that (D-17). */
		log_error("--state: cannot reserve %ju bytes for the journal: %s; "
			  "nothing starts without a record",
		    (uintmax_t)m.count, strerror(-r));
		host_fail(h, LAYER_NONE, -r);
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
	h->ready = h->begun = true;
	if (h->stage != STAGE_RUNNING)
		return 0;
	if (h->workspaces)
		workspaces_on_ready(h->workspaces);
	if (h->client)
		connect_client(h);
	else
		children_fill(h->children); /* a private run has one session only */
	host_serve_when_ready(h);
	return 0;
}

static int
handle_client_taken(struct host *h, const struct control *c)
{
	(void)c;
	return h->serving ? h->o.on_client_taken(h->o.arg) : -EPROTO;
}

static int
handle_client_gone(struct host *h, const struct control *c)
{
	return h->serving ? h->o.on_client_gone((uid_t)c->uid, h->o.arg) : -EPROTO;
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
	service_drop_peer(&h->services[BROKER]);
	return 0;
}

static int
handle_list(struct host *h, const struct control *c)
{
	(void)c;
	return host_list(h);
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
	{ CONTROL_CLIENT_TAKEN, handle_client_taken },
	{ CONTROL_CLIENT_GONE, handle_client_gone },
	{ CONTROL_LIST, handle_list },
	{ CONTROL_CONFIG_TAKEN, host_config_taken },
	{ CONTROL_CONFIG_OVER, host_config_over },
	{ CONTROL_WORKSPACE, host_workspace },
	{ CONTROL_WORKSPACE_DROP, host_workspace_drop },
};

void
service_check_order(struct service *s, const struct control *c, int error)
{
	const char *name = service_names[s->id];

	if (error >= 0 || !s->launch)
		return;
	log_error("the %s asked for what no %s may (verb %u): killed", name, name, c->verb);
	launch_kill(s->launch, ENDING_host_lost);
}

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
	service_check_order(s, c, r);
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

	/* Who connects from now on is the next one's. */
	if (s->id == BROKER)
		host_serve(s->host, false);
	if (error == 0 || !s->launch)
		return;
	log_error("the control link of the %s broke: %s: killed", service_names[s->id],
	    strerror(-error));
	launch_kill(s->launch, ENDING_host_lost);
}

const struct peer_handler service_peers[SERVICES] = {
	[BROKER] = { broker_on_control, service_on_end },
	[LEDGER] = { ledger_on_control, service_on_end },
	[GATEWAY] = { gateway_on_control, service_on_end },
};
