/*
 * caisson-gateway FD: clients' HTTP and WebSockets to the broker's links, and back.
 *
 * It holds: descriptor 3, the control link to the supervisor, over which links to the broker
 * come; listening sockets from descriptor 4 on; until it has read it, its configuration, a
 * sealed file, at descriptor FD, and of that the keys of its TLS.
 * It may never: decide who somebody is or what he may; make a socket, open a file, run a
 * program (syscalls.def).
 * It ends: at end-of-file on the control link.  Exit status: 0 after a shutdown, 1 if the
 * supervisor is gone before, 125 if it cannot start.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/control.h"
#include "common/log.h"
#include "common/rlimit.h"
#include "common/sanitizer.h"
#include "gateway/api.h"
#include "gateway/confine.h"
#include "gateway/control.h"
#include "gateway/tls.h"

SANITIZER_DEFAULTS

#define DESCRIPTORS_OWN 128 /* listeners, the loop, the monitor's */

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

/* Each connection may have a link of its own to the broker. */
static void
check_descriptors(const struct gateway *g)
{
	uint64_t needed = (uint64_t)g->config.connections * 2 + DESCRIPTORS_OWN;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed)
		log_warn("%u connections may need %llu descriptors, and there may be %llu: who "
			 "comes then waits; raise the hard limit (LimitNOFILE) or lower "
			 "connections",
		    g->config.connections, (unsigned long long)needed,
		    (unsigned long long)limit.rlim_cur);
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
	check_descriptors(&gateway);
	r = gateway_begin(&gateway, &api_handler);
	if (r < 0)
		fatal("cannot start: %s", strerror(-r));
	r = gateway_confine(&what);
	if (r < 0)
		fatal("cannot confine itself: %s: %s; a gateway does not run without it", what,
		    strerror(-r));
	gateway_control_ready(&gateway);
	event_base_dispatch(gateway.base);
	r = gateway.settled ? 0 : 1;
	gateway_end(&gateway);
	return r;
}
