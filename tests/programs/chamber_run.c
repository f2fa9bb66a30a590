/*
 * chamber_run: launches one program in a chamber and says how it ended, in JSON on
 * descriptor 3 of its own or on standard error.
 *
 *   chamber_run [-p PROFILE] [-m SOURCE:TARGET[:w]]... [-t TMP_BYTES] [-n PIDS] [-M MEMORY]
 *       [-c CPU_SECONDS] [-C CPU_PERCENT] [-k MS] [-I] [-N] [-L] [-l]
 *       [-r LAYER,...] [-a ARGUMENT] [-S] -- PROGRAM [ARGUMENT]...
 *
 * -l: with a link as descriptor 3.
 * -L: say how far each layer holds; -r: these are required.
 * -a: a neighbour: first PROGRAM ARGUMENT, in a chamber of the same kind and the same supervisor,
 * which stays until the end; it is waited for until it has said something.
 * -S, or CHAMBER_STANDS in the environment: it is one that stood by, if there may be one of its
 * kind; the one before it, which it stands by after, had twice the limits.
 * -k: kill with ENDING_canceled that many ms after the start; -I: no init; -N: the host's
 * network.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "supervisor/launch.h"
#include "supervisor/peer.h"
#include "supervisor/profiles.h"
#include "supervisor/standby.h"
#include "supervisor/uid.h"

static int status = 125;
static long kill_ms = -1;
static bool show_layers, stood;
static struct event *kill_timer;

/* The chamber next door. */
static struct {
	struct launch *launch; /* NULL: there is none, or not any more */
	struct event *ready;
	int said_fd;
} neighbour;

/* What is launched when the neighbour has spoken. */
static struct {
	struct event_base *base;
	struct chamber *chamber;
	const struct launch_handler *handler;
} waiting;

static void
on_timer(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	launch_kill(arg, ENDING_canceled);
}

/* Where it is absent, with the reason. */
static void
print_layers(pid_t pid, const struct launch_layers *l)
{
	char why[512];

	fprintf(stderr, "{\"event\": \"layers\", \"pid\": %d", (int)pid);
	for (uint32_t i = 0; i < LAYER_MAX; i++) {
		fprintf(stderr, ", \"%s\": %d", layer_name(i), l->state[i]);
		if (l->state[i] >= 0)
			continue;
		launch_explain(i, -l->state[i], why, sizeof(why));
		fprintf(stderr, ", \"%s why\": \"%s\"", layer_name(i), why);
	}
	fprintf(stderr, "}\n");
}

static void
on_started(struct launch *l, void *arg)
{
	struct timeval tv = { kill_ms / 1000, kill_ms % 1000 * 1000 };

	standby_renew(0); /* nobody comes after it */
	if (show_layers)
		print_layers(launch_pid(l), launch_layers(l));
	if (kill_ms < 0)
		return;
	kill_timer = event_new(arg, -1, 0, on_timer, l);
	event_add(kill_timer, &tv);
}

static void
print_facts(const char *what, const struct exit_facts *f)
{
	const struct ending_desc *d = ending_desc(f->cause);
	const struct limit_desc *limit = limit_desc(f->limit);

	fprintf(stderr,
	    "{\"event\": \"%s\", \"stood\": %s, \"kind\": %u, \"status\": %d, \"cause\": \"%s\", "
	    "\"limit\": \"%s\", \"syscall\": \"%s\", \"told\": %u, \"meter\": %u, "
	    "\"cpu_us\": %llu, \"peak_bytes\": %llu, \"read_bytes\": %llu, "
	    "\"written_bytes\": %llu, \"processes\": %llu}\n",
	    what, stood ? "true" : "false", f->kind, f->status, d != NULL ? d->cause : "",
	    limit != NULL ? limit->name : "",
	    f->cause == ENDING_seccomp ? profile_syscall_name(f->arch, f->syscall) : "",
	    f->told, f->meter, (unsigned long long)f->cpu_us,
	    (unsigned long long)f->peak_bytes, (unsigned long long)f->read_bytes,
	    (unsigned long long)f->written_bytes, (unsigned long long)f->processes);
}

static void
on_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	char why[512];

	(void)l;
	launch_explain(layer, error, why, sizeof(why));
	fprintf(stderr,
	    "{\"event\": \"refused\", \"layer\": \"%s\", \"error\": %d, \"why\": \"%s\", "
	    "\"status\": %d}\n",
	    layer_name(layer), error, why, exit != NULL ? exit->status : 0);
	event_base_loopexit(arg, NULL);
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	(void)l;
	print_facts("exit", exit);
	status = exit->kind == EXIT_EXITED ? exit->status : 128 + exit->status;
	if (kill_timer != NULL)
		event_free(kill_timer);
	if (neighbour.launch != NULL)
		launch_kill(neighbour.launch, ENDING_canceled);
	else
		event_base_loopexit(arg, NULL);
}

static void
launch_now(struct event_base *base, struct chamber *c, const struct launch_handler *handler)
{
	enum layer layer;
	struct launch *l;
	int ret = launch_start(base, c, handler, base, &l, &layer);

	if (ret < 0)
		on_refused(NULL, layer, -ret, NULL, base);
	else
		stood = launch_stood_by(l);
}

/* ---- the one before ---- */

static void
on_maker_started(struct launch *l, void *arg)
{
	(void)l;
	(void)arg;
}

static void
on_maker_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	bool *over = arg;

	(void)l;
	(void)layer;
	(void)error;
	(void)exit;
	*over = true;
}

static void
on_maker_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	bool *over = arg;

	(void)l;
	(void)exit;
	*over = true;
}

/* Leaves one that waits, of the kind of `c`, if that may stand by. */
static void
stand_by(struct event_base *base, const struct chamber *c, const struct uid_claim *claim)
{
	static const struct launch_handler handler = { on_maker_started, on_maker_refused,
		on_maker_exit };
	char *argv[] = { (char[]){ "/bin/true" }, NULL };
	struct chamber maker = *c;
	enum layer layer;
	struct launch *l;
	bool over = false;

	if (standby_open(base, 1) < 0)
		abort();
	maker.argv = argv;
	maker.nfds = 0;
	maker.init = true;
	maker.learn = NULL;
	maker.pids *= 2;
	maker.memory_bytes *= 2;
	maker.uid = maker.gid = claim->uid;
	if (launch_start(base, &maker, &handler, &over, &l, &layer) < 0)
		return;
	while (!over)
		event_base_loop(base, EVLOOP_ONCE);
	standby_fill();
	while (standby_count(true) < standby_count(false))
		event_base_loop(base, EVLOOP_ONCE);
}

/* ---- the neighbour ---- */

static void
on_neighbour_started(struct launch *l, void *arg)
{
	(void)l;
	(void)arg;
}

static void
on_neighbour_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	(void)l;
	(void)exit;
	neighbour.launch = NULL;
	event_base_loopexit(arg, NULL);
}

static void
on_neighbour_ready(evutil_socket_t fd, short events, void *arg)
{
	char said[64];

	(void)events;
	(void)arg;
	event_free(neighbour.ready);
	if (read((int)fd, said, sizeof(said)) > 0)
		launch_now(waiting.base, waiting.chamber, waiting.handler);
}

static void
neighbour_first(struct event_base *base, struct chamber *c, char *argument,
    const struct launch_handler *then, const struct uid_claim *claim)
{
	static const struct launch_handler handler = { on_neighbour_started, on_refused,
		on_neighbour_exit };
	char *argv[] = { c->argv[0], argument, NULL };
	struct chamber next = *c;
	enum layer layer;
	int out[2], ret;

	if (pipe2(out, O_CLOEXEC) < 0)
		abort();
	next.argv = argv;
	next.fds = (int[]){ 0, out[1], 2 };
	next.nfds = 3;
	next.uid = next.gid = claim->uid;
	neighbour.said_fd = out[0];
	waiting.base = base;
	waiting.chamber = c;
	waiting.handler = then;
	ret = launch_start(base, &next, &handler, base, &neighbour.launch, &layer);
	close(out[1]);
	if (ret < 0) {
		on_refused(NULL, layer, -ret, NULL, base);
		return;
	}
	neighbour.ready = event_new(base, out[0], EV_READ, on_neighbour_ready, NULL);
	event_add(neighbour.ready, NULL);
}

static void
add_mount(struct chamber *c, struct chamber_mount *mounts, char *text)
{
	struct chamber_mount *m = &mounts[c->nmounts++];
	char *save, *flag;

	m->source = strtok_r(text, ":", &save);
	m->target = strtok_r(NULL, ":", &save);
	flag = strtok_r(NULL, ":", &save);
	m->writable = flag != NULL && *flag == 'w';
	m->idmap = true;
}

/* A link as a runtime has it, with nobody at its other end. */
static size_t
add_link(int fds[4])
{
	int ours;

	if (peer_pair(SOCK_STREAM, true, false, &ours, &fds[3]) < 0)
		abort();
	return 4;
}

/* Layers by name, however new they are. */
static uint32_t
layers_of(char *names)
{
	char *save, *name = strtok_r(names, ",", &save);
	uint32_t mask = 0;

	for (; name != NULL; name = strtok_r(NULL, ",", &save))
		for (uint32_t i = 0; i < LAYER_MAX; i++)
			if (strcmp(name, layer_name(i)) == 0)
				mask |= 1u << i;
	return mask;
}

int
main(int argc, char **argv)
{
	static struct chamber_mount mounts[16];
	char *env[] = { (char[]){ "PATH=/usr/bin:/bin" }, (char[]){ "HOME=/tmp" },
		(char[]){ "LANG=C.UTF-8" }, NULL };
	int fds[4] = { 0, 1, 2 };
	struct chamber c = { .profile = profile_named("native"), .env = env, .cwd = "/",
		.mounts = mounts,
		.fds = fds, .nfds = 3, .init = true, .die_with_parent = true };
	const struct launch_handler handler = { on_started, on_refused, on_exit_facts };
	struct uid_range range = { 3200000, 1000 };
	struct uid_claim claim = UID_CLAIM_NONE, other = UID_CLAIM_NONE;
	static char line[16384];
	struct event_base *base = event_base_new();
	bool stands = getenv("CHAMBER_STANDS") != NULL;
	char *ahead = NULL;
	int opt;

	setvbuf(stderr, line, _IOLBF, sizeof(line)); /* what the chamber writes comes between lines */
	while ((opt = getopt(argc, argv, "+p:m:t:n:M:c:C:k:INLlr:a:S")) != -1) {
		switch (opt) {
		case 'p': c.profile = profile_named(optarg); break;
		case 'm': add_mount(&c, mounts, optarg); break;
		case 't': c.tmp_bytes = strtoull(optarg, NULL, 10); break;
		case 'n': c.pids = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'M': c.memory_bytes = strtoull(optarg, NULL, 10); break;
		case 'c': c.cpu_seconds = strtoull(optarg, NULL, 10); break;
		case 'C': c.cpu_percent = strtoull(optarg, NULL, 10); break;
		case 'k': kill_ms = strtol(optarg, NULL, 10); break;
		case 'I': c.init = false; break;
		case 'l': c.nfds = add_link(fds); break;
		case 'L': show_layers = true; break;
		case 'r': c.required = layers_of(optarg); break;
		case 'a': ahead = optarg; break;
		case 'N': c.network = true; break;
		case 'S': stands = true; break;
		default: return 125;
		}
	}
	c.argv = argv + optind;
	if (uid_is_root() && uid_claim(&range, &claim) == 0)
		c.uid = c.gid = claim.uid;
	if (stands && (!uid_is_root() || uid_claim(&range, &other) == 0))
		stand_by(base, &c, &other); /* another's uid, too */
	if (ahead == NULL)
		launch_now(base, &c, &handler);
	else if (!uid_is_root() || other.lock_fd >= 0 || uid_claim(&range, &other) == 0)
		neighbour_first(base, &c, ahead, &handler, &other);
	event_base_dispatch(base);
	standby_close();
	event_base_free(base);
	uid_release(&other);
	uid_release(&claim);
	return status;
}
