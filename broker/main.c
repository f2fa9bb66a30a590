/*
 * caisson-broker: decides, numbers, routes, times out, and appends to the journal.
 *
 * It holds: descriptor 3, the control link to the supervisor, over which every other link
 * and every segment of the journal comes; descriptor 4, its configuration; its links to
 * workers, providers and clients; the end of the journal.
 * It may never: open a file, a socket or a program; its own filter (syscalls.def) has none
 * of these, and nothing that changes what is written.
 * With --check it reads its configuration, says whether it takes it, and ends.
 * It ends: when it has settled after CONTROL_SHUTDOWN, and at end-of-file on the control
 * link, after settling what is open.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/config.h"
#include "broker/confine.h"
#include "broker/journal.h"
#include "common/child.h"
#include "common/control.h"
#include "common/link.h"
#include "common/log.h"
#include "common/sanitizer.h"
#include "common/stop.h"

SANITIZER_DEFAULTS

/* How long the last words to the supervisor and to clients may take. */
#define GOODBYE_MS 500
/* How long endings wait for a journal that can be written, at the end: beyond the second
 * after which it asks for a segment again, and within what the supervisor allows. */
#define LATE_MS 1500

static void main_on_settled(struct broker *b);

static void
main_confine(enum confine_step step)
{
	int r = confine_self(step);

	if (r < 0)
		fatal("cannot load the filter: %s; a broker does not run without it",
		    strerror(-r));
}

static void
main_on_journal(struct broker *b)
{
	(void)b;
	main_confine(CONFINE_READY);
}

static void
main_on_late(evutil_socket_t fd, short events, void *arg)
{
	struct broker *b = arg;

	(void)fd;
	(void)events;
	b->late = true;
	main_on_settled(b);
}

/* Endings that could not be recorded get one more chance: a segment is on its way. */
static bool
main_waits_for_journal(struct broker *b)
{
	static bool waiting;
	const struct timeval bound = { LATE_MS / 1000, LATE_MS % 1000 * 1000 };

	if (b->journal == NULL || !journal_holds(b->journal) || b->late)
		return false;
	if (!waiting)
		waiting =
		    event_base_once(b->base, -1, EV_TIMEOUT, main_on_late, b, &bound) == 0;
	return waiting;
}

static void
main_on_settled(struct broker *b)
{
	struct control settled = { .verb = CONTROL_SETTLED };
	struct timeval goodbye = { 0, GOODBYE_MS * 1000 };
	struct client *c;

	if (b->settled || main_waits_for_journal(b))
		return;
	b->settled = true;
	STOP_POINT("broker.settled");
	control_tell(b, &settled);
	TAILQ_FOREACH (c, &b->clients, entry)
		link_close_drained(c->link, GOODBYE_MS);
	/* The last client's end ends the loop (client.c), or this does. */
	event_base_loopexit(b->base, TAILQ_EMPTY(&b->clients) ? NULL : &goodbye);
}

/* The supervisor, who knows its lines, says which of them is to blame. */
static void __attribute__((noreturn))
refuse_config(const struct fault *fault, const char *row)
{
	struct control c = { .verb = CONTROL_CONFIG_TAKEN, .error = EINVAL };

	log_error("configuration: %s: %s: %s", row,
	    fault->field != NULL ? fault->field : "frame",
	    fault->rule != NULL ? fault->rule : "unknown");
	c.kind = config_fault_row(&c.index);
	control_send(BROKER_FD_CONTROL, &c, NULL, 0);
	exit(125);
}

static struct config *
read_config(void)
{
	const char *row = "";
	struct fault fault = { 0 };
	struct config *config;
	int r = config_read(BROKER_FD_CONFIG, &config, &fault, &row);

	if (r == -EINVAL)
		refuse_config(&fault, row);
	if (r < 0)
		fatal("cannot read the configuration: %s", strerror(-r));
	close(BROKER_FD_CONFIG);
	return config;
}

/* One that decides nothing: it never has more than its configuration. */
static int
main_check(void)
{
	const struct control taken = { .verb = CONTROL_CONFIG_TAKEN };

	main_confine(CONFINE_READY);
	config_release(read_config());
	return control_send(BROKER_FD_CONTROL, &taken, NULL, 0) < 0;
}

static void
main_init(struct broker *b)
{
	int r;

	b->journal_io = &journal_io_system;
	b->on_journal = main_on_journal;
	b->on_settled = main_on_settled;
	b->config = read_config();
	r = broker_init(b, BROKER_FD_CONTROL);
	if (r < 0)
		fatal("cannot start: %s", strerror(-r));
}

int
main(int argc, char **argv)
{
	static struct broker broker;
	int r;

	log_init("caisson-broker", LOG_WARN_);
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && strcmp(argv[1], BROKER_WORD_CHECK) == 0)
		return main_check();
	main_init(&broker);
	main_confine(CONFINE_START);
	event_base_dispatch(broker.base);
	r = control_is_lost(&broker) ? 1 : 0;
	broker_finish(&broker);
	return r;
}
