/*
 * bench_pool: a worker that waits, from the order to its first byte (T11).
 *
 *	bench_pool TARGET DYNAMIC [NAME...]
 *
 * TARGET is a static program that, with two arguments, sends back what comes over descriptor 3.
 * The product: the order of a broker, the hand-out, and one byte there and back over the link
 * that came with it.  The floor: a socketpair, clone and exec of the bare program, and the same byte.
 * Nothing is pinned.
 */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/children.h"
#include "supervisor/config.h"
#include "supervisor/process.h"
#include "tests/bench/bench.h"

#define PASSES	9
#define SAMPLES 20 /* of each side in a pass */
#define WARM	4

static const char *target;
static struct event_base *base;
static struct children *children;
static struct conf_namespace config;
static int fds[CONTROL_FDS_MAX];
static unsigned nfds, nwarm, ended;
static bool started;

static void
on_tell(const struct control *c, int *sent, unsigned n, void *arg)
{
	(void)arg;
	if (c->verb == CONTROL_LINK) {
		memcpy(fds, sent, n * sizeof(*fds));
		nfds = n;
	} else if (c->verb == CONTROL_STARTED) {
		started = true;
	} else {
		ended++;
	}
}

static void
on_empty(void *arg)
{
	(void)arg;
}

static const struct children_handler handler = { on_tell, on_empty };

static void
count_warm(const struct process *p, void *arg)
{
	(void)arg;
	nwarm += p->state == process_state_warm;
}

/* Until everybody waits again, and has nothing left to do. */
static void
settle(void)
{
	for (;;) {
		nwarm = 0;
		children_each(children, count_warm, NULL);
		if (nwarm == WARM && children_idle(children))
			return;
		event_base_loop(base, EVLOOP_ONCE);
	}
}

static void
there_and_back(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte = 'x';

	if (write(fd, &byte, 1) != 1 || poll(&p, 1, 10000) != 1 || read(fd, &byte, 1) != 1)
		die("the first byte");
}

static double
handed_out_us(void)
{
	static uint64_t session;
	struct control c = { .verb = CONTROL_SPAWN, .kind = CHILD_TURN, .session = ++session };
	uint64_t begun, end;
	unsigned i;

	settle();
	started = false;
	begun = now_ns();
	if (children_spawn(children, &c) < 0 || !started)
		die("children_spawn: none waited");
	there_and_back(fds[0]);
	end = now_ns();
	for (i = 0; i < nfds; i++)
		close(fds[i]);
	return (double)(end - begun) / 1000;
}

static double
spawned_us(void)
{
	char *argv[] = { (char *)(uintptr_t)target, (char[]){ "serve" }, (char[]){ "it" }, NULL };
	char *env[] = { NULL };
	posix_spawn_file_actions_t actions;
	uint64_t begun, end;
	int pair[2];
	pid_t pid;

	settle();
	begun = now_ns();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pair[1], RUNTIME_FD_LINK);
	if (posix_spawn(&pid, target, &actions, NULL, argv, env) != 0)
		die(target);
	close(pair[1]);
	there_and_back(pair[0]);
	end = now_ns();
	posix_spawn_file_actions_destroy(&actions);
	close(pair[0]);
	waitpid(pid, NULL, 0);
	return (double)(end - begun) / 1000;
}

static void
describe(void)
{
	const char *name = strrchr(target, '/') + 1;
	struct conf_runtime *t;
	char app[4096], program[4200], err[CONF_ERROR_MAX];
	const char *const words[] = { program, "serve", "it" };

	snprintf(app, sizeof(app), "%.*s", (int)(name - target - 1), target);
	snprintf(program, sizeof(program), "/app/%s", name);
	if (conf_init(&config) < 0)
		die("conf_init");
	t = conf_add(conf_list_section(&conf_root, "runtimes"),
	    (struct conf_list *)&config.runtimes);
	free(t->profile);
	t->id = strdup("bench");
	t->profile = strdup("native");
	t->app = strdup(app);
	t->warm = WARM;
	t->has_id = t->has_command = true;
	for (size_t i = 0; i < countof(words); i++)
		if (conf_words_add(&t->command, words[i], strlen(words[i])) < 0)
			die("conf_words_add");
	if (conf_complete(&config, NULL, err) < 0 || conf_resolve(&config, NULL, err) < 0) {
		fprintf(stderr, "bench: %s\n", err);
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	struct series s = { 0 };
	double a[SAMPLES], b[SAMPLES];

	if (argc < 3) {
		fprintf(stderr, "usage: bench_pool TARGET DYNAMIC [NAME...]\n");
		return 2;
	}
	target = argv[1];
	log_init("bench_pool", LOG_ERROR_);
	be_important();
	describe();
	base = event_base_new();
	children = children_create(base, &config, operation_kind_turn, NULL, &handler, NULL);
	if (!children)
		die("children_create");
	children_fill(children);
	handed_out_us();
	spawned_us();
	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < SAMPLES; i++) {
			a[i] = handed_out_us();
			b[i] = spawned_us();
		}
		add(&s, median(a, SAMPLES), median(b, SAMPLES));
	}
	print_series("T11", "us", &s,
	    "a worker that waited, to its first byte, against clone and exec of a bare program");
	children_drain(children);
	while (!children_empty(children))
		event_base_loop(base, EVLOOP_ONCE);
	children_destroy(children);
	cgroup_host_finish();
	event_base_free(base);
	conf_finish(&config);
	return 0;
}
