/*
 * caisson-ledger: keeps the record that the broker of its namespace writes.
 *
 * It may read the segments of the journal, keep an index and a head in a directory of its own,
 * and answer questions on links that are handed to it.  It may never change the journal, open
 * a socket or run a program (ledger/confine.h).  No effect waits for it: it may die and come
 * back at any time, and catches up.
 *
 * Descriptors: common/child.h.  With --read-only it answers one client and writes nothing.
 * Exit status: 0 when the supervisor or client is gone or said so, 125 if it cannot start, 111
 * if the system failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/log.h"
#include "common/sanitizer.h"
#include "ledger/confine.h"
#include "ledger/service.h"

SANITIZER_DEFAULTS

#define EXIT_SYSTEM 111

static struct event_base *
make_loop(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config) {
		/* Single-threaded: no locks, and no wake-up descriptor for them. */
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		base = event_base_new_with_config(config);
		event_config_free(config);
	}
	return base;
}

int
main(int argc, char **argv)
{
	bool readonly = argc == 2 && strcmp(argv[1], "--read-only") == 0;
	struct event_base *base;
	struct service *service;
	struct ledger ledger;
	const char *what;
	int ret, index_fd = LEDGER_FD_INDEX;

	log_init("caisson-ledger", LOG_INFO_);
	if (argc > 1 && !readonly)
		fatal("usage: caisson-ledger [--read-only]");
	signal(SIGPIPE, SIG_IGN);
	base = make_loop();
	if (!base)
		fatal("cannot start: out of memory");
	/* A record that no ledger has kept yet may be read all the same. */
	if (readonly && fcntl(index_fd, F_GETFD) < 0)
		index_fd = -1;
	ret = confine_ledger(LEDGER_FD_JOURNAL, index_fd, readonly, &what);
	if (ret < 0)
		fatal("cannot confine itself: %s: %s", what, strerror(-ret));
	ret = ledger_init(&ledger, LEDGER_FD_JOURNAL, index_fd, readonly);
	if (ret < 0)
		fatal("cannot open the index (" INDEX_FILE "): %s", strerror(-ret));
	service = service_create(base, &ledger, LEDGER_FD_CONTROL);
	if (!service)
		fatal("cannot serve: %s", strerror(errno));
	ret = event_base_dispatch(base);
	service_destroy(service);
	ledger_finish(&ledger);
	event_base_free(base);
	return ret < 0 ? EXIT_SYSTEM : 0;
}
