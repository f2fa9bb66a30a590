/*
 * A subverted broker: takes the place of caisson-broker and sends its supervisor what no
 * sound one would.  Which attack, says the name of the namespace in its configuration.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/child.h"
#include "common/control.h"
#include "common/endings.h"
#include "common/util.h"

static const struct attack {
	const char *name;
	struct control orders[2];
} attacks[] = {
	{ "spawn-index", { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .index = 1 } } },
	{ "spawn-index-max",
	    { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .index = UINT32_MAX } } },
	{ "spawn-provider", { { .verb = CONTROL_SPAWN, .kind = CHILD_PROVIDER, .index = 0 } } },
	{ "spawn-kind-0", { { .verb = CONTROL_SPAWN, .kind = 0 } } },
	{ "spawn-kind-9", { { .verb = CONTROL_SPAWN, .kind = 9 } } },
	/* a program without a link, from a configuration of runtimes that have one */
	{ "spawn-command", { { .verb = CONTROL_SPAWN, .kind = CHILD_COMMAND } } },
	{ "spawn-flags", { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .flags = 2 } } },
	{ "spawn-input",
	    { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .flags = CONTROL_WITH_INPUT } } },
	{ "spawn-twice", { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .session = 1 },
			     { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .session = 1 } } },
	{ "kill-cause-0", { { .verb = CONTROL_KILL, .kind = CHILD_TURN } } },
	{ "kill-cause-max",
	    { { .verb = CONTROL_KILL, .kind = CHILD_TURN, .cause = UINT32_MAX } } },
	{ "kill-index", { { .verb = CONTROL_KILL,
			    .kind = CHILD_TURN,
			    .index = 5,
			    .cause = ENDING_canceled } } },
	{ "signal-kill",
	    { { .verb = CONTROL_SIGNAL, .kind = CHILD_COMMAND, .error = SIGKILL } } },
	{ "signal-turn", { { .verb = CONTROL_SIGNAL, .kind = CHILD_TURN, .error = SIGINT } } },
	{ "more-too-much", { { .verb = CONTROL_MORE, .count = UINT64_MAX } } },
	{ "ready-twice", { { .verb = CONTROL_READY }, { .verb = CONTROL_READY } } },
	{ "settled-unasked", { { .verb = CONTROL_SETTLED } } },
	{ "client-gone", { { .verb = CONTROL_READY }, { .verb = CONTROL_CLIENT_GONE } } },
	{ "client-taken", { { .verb = CONTROL_READY }, { .verb = CONTROL_CLIENT_TAKEN } } },
	{ "spawn-generation",
	    { { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .generation = 1 } } },
	{ "kill-generation", { { .verb = CONTROL_KILL,
				 .kind = CHILD_TURN,
				 .generation = UINT64_MAX,
				 .cause = ENDING_canceled } } },
	{ "config-unasked", { { .verb = CONTROL_READY }, { .verb = CONTROL_CONFIG_TAKEN } } },
	{ "config-unasked-next", { { .verb = CONTROL_READY },
				     { .verb = CONTROL_CONFIG_TAKEN, .generation = 1 } } },
	{ "workspace-0", { { .verb = CONTROL_WORKSPACE } } },
	{ "workspace-twice", { { .verb = CONTROL_WORKSPACE, .workspace = 5 },
				 { .verb = CONTROL_WORKSPACE, .workspace = 5 } } },
	{ "workspace-drop", { { .verb = CONTROL_WORKSPACE_DROP, .workspace = 9 } } },
	{ "workspace-drop-twice", { { .verb = CONTROL_WORKSPACE_DROP, .workspace = 1 },
				      { .verb = CONTROL_WORKSPACE_DROP, .workspace = 1 } } },
	{ "workspace-shown", { { .verb = CONTROL_WORKSPACE, .workspace = 6 },
				 { .verb = CONTROL_SPAWN,
				     .kind = CHILD_WORKSPACE,
				     .session = 1,
				     .workspace = 7 } } },
	{ "workspace-none-shown",
	    { { .verb = CONTROL_SPAWN, .kind = CHILD_WORKSPACE, .session = 1 } } },
	{ "workspace-found", { { .verb = CONTROL_WORKSPACE_FOUND, .workspace = 6 } } },
	{ "config-over", { { .verb = CONTROL_CONFIG_OVER } } },
	{ "config-over-unknown", { { .verb = CONTROL_CONFIG_OVER, .generation = 1 } } },
	{ "a-verb-of-ours", { { .verb = CONTROL_SHUTDOWN } } },
	{ "no-verb", { { .verb = 0 } } },
};

static void
say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(3);
}

static bool
is_asked(const char *config, size_t n, const char *name)
{
	char key[64];

	/* A string of MessagePack ends where the next key's header begins: compare with it. */
	snprintf(key, sizeof(key),
	    "%s\xa9"
	    "authority",
	    name);
	return memmem(config, n, key, strlen(key)) != NULL;
}

/* Answers what keeps it alive, until a struct with `verb` comes. */
static struct control
wait_for(uint32_t verb, unsigned *ret_nfds)
{
	struct control pong = { .verb = CONTROL_PONG }, c;
	int fds[CONTROL_FDS_MAX];
	unsigned i;

	do {
		while (control_recv(BROKER_FD_CONTROL, &c, fds, ret_nfds) == -EAGAIN) {
			fd_set set;

			FD_ZERO(&set);
			FD_SET(BROKER_FD_CONTROL, &set);
			select(BROKER_FD_CONTROL + 1, &set, NULL, NULL, NULL);
		}
		for (i = 0; i < *ret_nfds; i++)
			close(fds[i]);
		if (c.verb == CONTROL_PING)
			control_send(BROKER_FD_CONTROL, &pong, NULL, 0);
	} while (c.verb != verb);
	return c;
}

/* The allowed neighbour of all these attacks. */
static void
behave(void)
{
	struct control ready = { .verb = CONTROL_READY };
	struct control spawn = { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .session = 7 };
	struct control kill_it = {
		.verb = CONTROL_KILL, .kind = CHILD_TURN, .session = 7, .cause = ENDING_canceled
	};
	struct control list = { .verb = CONTROL_LIST };
	struct control settled = { .verb = CONTROL_SETTLED }, c;
	unsigned nfds;
	int extra = STDERR_FILENO;

	/* A descriptor that nobody asked for is closed, and no harm is done. */
	control_send(BROKER_FD_CONTROL, &ready, &extra, 1);
	control_send(BROKER_FD_CONTROL, &spawn, NULL, 0);
	wait_for(CONTROL_LINK, &nfds);
	say(nfds == 3 ? "fine: three descriptors\n" : "wrong: other descriptors\n");
	wait_for(CONTROL_STARTED, &nfds);
	control_send(BROKER_FD_CONTROL, &list, NULL, 0);
	wait_for(CONTROL_PROCESSES, &nfds);
	say(nfds == 1 ? "fine: a list\n" : "wrong: no list\n");
	control_send(BROKER_FD_CONTROL, &kill_it, NULL, 0);
	c = wait_for(CONTROL_EXIT, &nfds);
	say(c.session == 7 && c.exit.kind == EXIT_SIGNALED && c.exit.status == SIGKILL &&
		    c.exit.cause == ENDING_canceled
		? "fine: killed as ordered\n"
		: "wrong: other exit\n");
	/* Killing what is gone is no crime. */
	control_send(BROKER_FD_CONTROL, &kill_it, NULL, 0);
	wait_for(CONTROL_SHUTDOWN, &nfds);
	control_send(BROKER_FD_CONTROL, &settled, NULL, 0);
}

/* Those that wait have no session, and none whose number is 0: an order finds them by no name. */
static void
hunt(void)
{
	struct control ready = { .verb = CONTROL_READY };
	struct control kill_it = {
		.verb = CONTROL_KILL, .kind = CHILD_TURN, .cause = ENDING_canceled
	};
	struct control spawn = { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .session = 1 };
	unsigned nfds;

	control_send(BROKER_FD_CONTROL, &ready, NULL, 0);
	/* A heartbeat is a second, in which they come. */
	for (unsigned i = 0; i < 3; i++) {
		wait_for(CONTROL_PING, &nfds);
		control_send(BROKER_FD_CONTROL, &kill_it, NULL, 0);
	}
	wait_for(CONTROL_PING, &nfds);
	say("hunted\n");
	/* Two of them for one session. */
	control_send(BROKER_FD_CONTROL, &spawn, NULL, 0);
	control_send(BROKER_FD_CONTROL, &spawn, NULL, 0);
	wait_for(CONTROL_SHUTDOWN, &nfds);
}

int
main(void)
{
	off_t size = lseek(BROKER_FD_CONFIG, 0, SEEK_END);
	const char *config =
	    mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, BROKER_FD_CONFIG, 0);
	const struct attack *a;
	unsigned nfds;

	if (size <= 0 || config == MAP_FAILED)
		return 3;
	if (is_asked(config, (size_t)size, "fine")) {
		behave();
		return 0;
	}
	if (is_asked(config, (size_t)size, "hunt"))
		hunt();
	if (is_asked(config, (size_t)size, "half-a-struct"))
		send(BROKER_FD_CONTROL, "half", 4, MSG_NOSIGNAL);
	for (a = attacks; a < attacks + countof(attacks); a++)
		if (is_asked(config, (size_t)size, a->name)) {
			control_send(BROKER_FD_CONTROL, &a->orders[0], NULL, 0);
			if (a->orders[1].verb)
				control_send(BROKER_FD_CONTROL, &a->orders[1], NULL, 0);
		}
	wait_for(CONTROL_SHUTDOWN, &nfds);
	return 4;
}
