/*
 * caisson-gateway FD: clients' HTTP and WebSockets to the broker's links, and back.
 *
 * It holds: descriptor 3, the control link to the supervisor, over which links to the broker come;
 * listening sockets from descriptor 4 on; until it has read it, its configuration, a sealed file,
 * at descriptor FD, and of that the keys of its TLS.
 * It may never: decide who somebody is or what he may; make a socket, open a file, run a program
 * (syscalls.def).
 * It ends: at end-of-file on the control link.  Exit status: 0 after a shutdown, 1 if the
 * supervisor is gone before, 125 if it cannot start.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/control.h"
#include "common/log.h"
#include "common/rlimit.h"
#include "common/sanitizer.h"
#include "gateway/accept.h"
#include "gateway/api.h"
#include "gateway/confine.h"
#include "gateway/conn_private.h"
#include "gateway/control.h"

SANITIZER_DEFAULTS

/* The supervisor, who knows its lines, says which of them is to blame. */
static void
refuse_config(const struct gateway_config_fault *fault)
{
	struct control c = { .verb = CONTROL_CONFIG_TAKEN, .error = EINVAL,
		.index = fault->listener };

	log_error("configuration: %s", fault->text);
	control_send(GATEWAY_FD_CONTROL, &c, NULL, 0);
	exit(125);
}

static void
read_config(struct gateway *g, int argc, char **argv)
{
	struct gateway_config_fault fault;
	char *end = NULL;
	long fd = argc == 2 ? strtol(argv[1], &end, 10) : -1;
	int r;

	if (fd < GATEWAY_FD_LISTEN || fd > 1024 || *end != '\0')
		fatal("usage: caisson-gateway DESCRIPTOR, as caissond starts it");
	r = gateway_config_read((int)fd, &g->config, &fault);
	if (r == -EINVAL)
		refuse_config(&fault);
	if (r < 0)
		fatal("cannot read the configuration: %s", strerror(-r));
	close((int)fd);
}

static struct event_base *
make_loop(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config != NULL) {
		/* Single-threaded: no locks, and no wake-up descriptor for them. */
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		base = event_base_new_with_config(config);
		event_config_free(config);
	}
	return base;
}

/* What is accepted inherits this: a frame is not held back for the next one. */
static void
send_at_once(const struct gateway *g)
{
	for (unsigned i = 0; i < g->config.nlisteners; i++)
		setsockopt(GATEWAY_FD_LISTEN + (int)i, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 },
		    sizeof(int));
}

static int
init(struct gateway *g)
{
	int r;

	g->control_fd = -1;
	TAILQ_INIT(&g->dials);
	g->handler = &api_handler;
	g->base = make_loop();
	g->alarms = g->base != NULL ? alarms_create(g->base) : NULL;
	if (g->alarms == NULL)
		return -ENOMEM;
	r = conns_init(g);
	if (r == 0)
		r = acceptors_open(g, GATEWAY_FD_LISTEN);
	return r < 0 ? r : gateway_control_open(g, GATEWAY_FD_CONTROL);
}

static void
finish(struct gateway *g)
{
	conns_finish(g);
	acceptors_close(g);
	gateway_control_close(g);
	alarms_destroy(g->alarms);
	event_base_free(g->base);
	gateway_config_finish(&g->config);
}

int
main(int argc, char **argv)
{
	static struct gateway gateway;
	const char *what;
	int r;

	log_init("caisson-gateway", LOG_INFO_);
	signal(SIGPIPE, SIG_IGN);
	rlimit_raise_descriptors();
	tls_init();
	read_config(&gateway, argc, argv);
	send_at_once(&gateway);
	r = init(&gateway);
	if (r < 0)
		fatal("cannot start: %s", strerror(-r));
	r = gateway_confine(&what);
	if (r < 0)
		fatal("cannot confine itself: %s: %s; a gateway does not run without it", what,
		    strerror(-r));
	gateway_control_ready(&gateway);
	event_base_dispatch(gateway.base);
	r = gateway.settled ? 0 : 1;
	finish(&gateway);
	return r;
}
