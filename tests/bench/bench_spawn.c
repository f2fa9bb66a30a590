/*
 * bench_spawn: what a chamber costs (T9, T10, T13 to T17).
 *
 *	bench_spawn TARGET DYNAMIC [NAME...]
 *
 * TARGET is a static program that ends at once, or with an argument waits for its end;
 * DYNAMIC one that links the product's libraries and waits.  run.py builds both.
 */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/launch.h"
#include "supervisor/profiles.h"
#include "supervisor/standby.h"
#include "tests/bench/bench.h"

#define PASSES	  9
#define SPAWNS	  20 /* of each side in a pass */
#define BIG	  (256u << 20) /* bytes touched by the large supervisor */
#define IDLE	  40 /* workers at once for T17 */
#define BENCH_UID 99999u

typedef double once_fn(void);

static const char *target, *dynamic;
static char target_dir[4096], in_chamber[4200];
static struct event_base *base;

static bool
wanted(int argc, char **argv, const char *name)
{
	for (int i = 3; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 4;
}

/* ---- one chamber -------------------------------------------------------------------------- */

struct waiting {
	bool started, over;
	bool follows; /* the program's end, too */
	int program_fd;
	struct event *on_end;
	uint64_t ended_ns;
};

static void
program_on_end(evutil_socket_t fd, short events, void *arg)
{
	struct waiting *w = arg;

	(void)fd;
	(void)events;
	w->ended_ns = now_ns();
}

static void
on_started(struct launch *l, void *arg)
{
	struct waiting *w = arg;
	pid_t pid;

	w->started = true;
	event_base_loopbreak(base);
	if (!w->follows)
		return;
	pid = launch_program_pid(l);
	w->program_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (w->program_fd < 0) { /* it is reaped already */
		w->ended_ns = now_ns();
		return;
	}
	w->on_end = event_new(base, w->program_fd, EV_READ, program_on_end, w);
	if (w->on_end == NULL || event_add(w->on_end, NULL) < 0)
		die("the program cannot be followed");
}

static void
on_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	char why[512];

	(void)l;
	(void)exit;
	(void)arg;
	launch_explain(layer, error, why, sizeof why);
	fprintf(stderr, "bench: %s: %s: %s\n", layer_name(layer), strerror(error), why);
	_exit(1);
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct waiting *w = arg;

	(void)l;
	(void)exit;
	w->over = true;
	event_base_loopbreak(base);
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

/* Both are the built-in profile; only the network differs. */
static struct profile own_network, shared_network;
static unsigned pids; /* asked for; 0: as the profile has it, and no group of v1 */

static struct launch *
chamber_start(struct waiting *w, const struct profile *profile, bool stay)
{
	char *argv[] = { in_chamber, stay ? (char[]){ "stay" } : NULL, NULL };
	char *env[] = { (char[]){ "PATH=/usr/bin" }, NULL };
	const struct chamber_mount mount = { .source = target_dir, .target = "/app" };
	const struct chamber c = { .profile = profile, .argv = argv, .env = env,
		.mounts = &mount, .nmounts = 1, .init = true, .die_with_parent = true, .uid = BENCH_UID,
		.gid = BENCH_UID, .pids = pids };
	enum layer layer;
	struct launch *l;
	int r;

	w->started = w->over = false;
	r = launch_start(base, &c, &handler, w, &l, &layer);
	if (r < 0) {
		fprintf(stderr, "bench: %s: %s\n", layer_name(layer), strerror(-r));
		exit(1);
	}
	return l;
}

/* From the order to the reaped exit, everything in between. */
static double
spawn_profile_us(const struct profile *profile)
{
	struct waiting w = { .started = false };
	uint64_t begun = now_ns();

	chamber_start(&w, profile, false);
	while (!w.over)
		event_base_dispatch(base);
	return (double)(now_ns() - begun) / 1000;
}

static double
chamber_once_us(void)
{
	return spawn_profile_us(&own_network);
}

static double
shared_once_us(void)
{
	return spawn_profile_us(&shared_network);
}

/* ---- the same, where one of its kind stands by ------------------------------------------------ */

static unsigned kinds; /* of which one stands by each */

/* Another has taken the place of the one that was used: not timed, as nobody waits for it. */
static double
stood_us(const struct profile *profile, bool to_end)
{
	struct waiting w = { .follows = to_end };
	uint64_t begun, over;

	standby_fill();
	while (standby_count(true) < kinds)
		if (event_base_loop(base, EVLOOP_ONCE) != 0)
			die("nothing stands by");
	begun = now_ns();
	if (!launch_stood_by(chamber_start(&w, profile, false)))
		die("a chamber that did not stand by");
	while (!w.over)
		event_base_dispatch(base);
	over = now_ns();
	if (to_end) {
		if (w.ended_ns != 0) /* else it was heard of with the rest */
			over = w.ended_ns;
		if (w.on_end != NULL) {
			event_free(w.on_end);
			close(w.program_fd);
		}
	}
	return (double)(over - begun) / 1000;
}

/* As each of these begins, the first of its kind is left behind. */
static void
stand_by(once_fn *once, once_fn *other)
{
	kinds = other != NULL ? 2 : 1;
	if (standby_open(base, kinds) < 0)
		die("standby");
	once();
	if (other != NULL)
		other();
}

static double
stood_own_us(void)
{
	return stood_us(&own_network, false);
}

static double
program_own_us(void)
{
	return stood_us(&own_network, true);
}

static double
stood_shared_us(void)
{
	return stood_us(&shared_network, false);
}

static double
program_shared_us(void)
{
	return stood_us(&shared_network, true);
}

/* ---- peers -------------------------------------------------------------------------------- */

static double
spawn_once_us(char *const *argv)
{
	uint64_t begun = now_ns();
	char *env[] = { NULL };
	int status;
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0)
		die(argv[0]);
	if (waitpid(pid, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "bench: %s failed\n", argv[0]);
		exit(1);
	}
	return (double)(now_ns() - begun) / 1000;
}

static double
bwrap_once_us(void)
{
	char *argv[] = { (char[]){ "/usr/bin/bwrap" }, (char[]){ "--unshare-all" },
		(char[]){ "--ro-bind" }, (char[]){ "/" }, (char[]){ "/" }, NULL, NULL };

	argv[5] = (char *)(uintptr_t)target;
	return spawn_once_us(argv);
}

static double
bare_once_us(void)
{
	char *argv[] = { (char *)(uintptr_t)target, NULL };

	return spawn_once_us(argv);
}

/* The medians of `a` and `b`, taken in turns. */
static void
in_turns(once_fn *a, once_fn *b, int n, double *ret_a, double *ret_b)
{
	double va[PASSES_MAX], vb[PASSES_MAX];

	for (int i = 0; i < n; i++) {
		va[i] = a();
		vb[i] = b();
	}
	*ret_a = median(va, n);
	*ret_b = median(vb, n);
}

static void
compare(const char *name, once_fn *product, once_fn *floor, const char *what)
{
	struct series s = { 0 };
	double a, b;

	product();
	floor();
	for (int pass = 0; pass < PASSES; pass++) {
		in_turns(product, floor, SPAWNS, &a, &b);
		add(&s, a, b);
	}
	print_series(name, "us", &s, what);
}

/* ---- T14: the filter ----------------------------------------------------------------------- */

struct filter {
	size_t n;
	struct sock_filter insns[4096];
};

static double
load_us(const struct sock_filter *insns, size_t n, uint64_t begun)
{
	struct sock_fprog prog = { .len = (unsigned short)n,
		.filter = (struct sock_filter *)(uintptr_t)insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		&prog) < 0)
		_exit(1);
	return (double)(now_ns() - begun) / 1000;
}

static const struct profile *
native(void)
{
	return profile_named("native");
}

/* In a child of its own, as each load is for the life of a process. */
static double
filter_us(struct filter *f, bool build)
{
	double *us = shared(sizeof *us), ret;
	const struct sock_filter *insns = f->insns;
	size_t n = f->n;
	uint64_t begun;
	pid_t pid = fork();

	if (pid == 0) {
		begun = now_ns();
		if (build && profile_filter(native(), false, &insns, &n) < 0)
			_exit(1);
		*us = load_us(insns, n, begun);
		if (build) {
			f->n = n;
			memcpy(f->insns, insns, n * sizeof *insns);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	ret = *us;
	munmap(us, sizeof *us);
	return ret;
}

/* Before anything in this process has compiled a profile. */
static void
filter_setup(void)
{
	struct filter *f = shared(sizeof *f);
	struct series s = { 0 };
	double a[SPAWNS], b[SPAWNS];

	filter_us(f, true);
	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < SPAWNS; i++) {
			a[i] = filter_us(f, false);
			b[i] = filter_us(f, true);
		}
		add(&s, median(a, SPAWNS), median(b, SPAWNS));
	}
	print_series("T14", "us", &s, "filter of a worker, against libseccomp's build and load");
}

/* ---- T15: a large supervisor ---------------------------------------------------------------- */

static void
large_parent(void)
{
	struct series s = { 0 }, spawn = { 0 };
	double small[SPAWNS], big[SPAWNS], floor_small[SPAWNS], floor_big[SPAWNS];
	void *p;

	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < SPAWNS; i++) {
			small[i] = chamber_once_us();
			floor_small[i] = bare_once_us();
		}
		p = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			die("mmap");
		madvise(p, BIG, MADV_NOHUGEPAGE);
		memset(p, 1, BIG);
		for (int i = 0; i < SPAWNS; i++) {
			big[i] = chamber_once_us();
			floor_big[i] = bare_once_us();
		}
		munmap(p, BIG);
		add(&s, median(big, SPAWNS), median(small, SPAWNS));
		add(&spawn, median(floor_big, SPAWNS), median(floor_small, SPAWNS));
	}
	print_series("T15", "us", &s, "chamber, from a parent of 256 MiB, against a small one");
	print_series("T15p", "us", &spawn, "posix_spawn, from the same two");
}

/* ---- T13: two spawners ---------------------------------------------------------------------- */

#define SUSTAINED 40 /* chambers of each spawner in a pass */

/* Chambers a second of `n` processes that do nothing else. */
static double
spawners_rate(int n)
{
	uint64_t begun = now_ns();

	for (int i = 0; i < n; i++) {
		if (fork() != 0)
			continue;
		base = event_base_new();
		for (int k = 0; k < SUSTAINED; k++)
			shared_once_us();
		_exit(0);
	}
	for (int i = 0; i < n; i++) {
		int status;

		if (wait(&status) < 0 || status != 0)
			die("a spawner");
	}
	return n * SUSTAINED * 1e9 / (double)(now_ns() - begun);
}

/* Before this process has a loop of its own. */
static void
two_spawners(void)
{
	struct series s = { 0 };

	spawners_rate(1);
	for (int pass = 0; pass < PASSES; pass++)
		add(&s, spawners_rate(2), spawners_rate(1));
	print_series("T13", "1/s", &s, "chambers in a shared network a second, of two spawners against one");
}

/* ---- T16: a control group --------------------------------------------------------------------- */

#define IDLE_MS 20 /* in which the kernel's locks go back to what they are on an idle machine */

static double
idle_once_us(unsigned limit, once_fn *once)
{
	double us;

	pids = limit;
	poll(NULL, 0, IDLE_MS);
	us = once();
	pids = 0;
	return us;
}

static double
grouped_once_us(void)
{
	return idle_once_us(16, chamber_once_us);
}

static double
ungrouped_once_us(void)
{
	return idle_once_us(0, chamber_once_us);
}

static double
stood_grouped_us(void)
{
	return idle_once_us(16, stood_own_us);
}

static double
stood_ungrouped_us(void)
{
	return idle_once_us(0, stood_own_us);
}

/* ---- T17: memory ----------------------------------------------------------------------------- */

static double
pss_kb(pid_t pid)
{
	char path[64], line[256];
	unsigned long kb = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "Pss: %lu", &kb) == 1)
			break;
	fclose(f);
	return (double)kb;
}

/* The only child of pid 1 of a chamber. */
static pid_t
child_of(pid_t pid)
{
	char path[64];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "re");
	if (f == NULL || fscanf(f, "%d", &child) != 1)
		child = 0;
	if (f != NULL)
		fclose(f);
	return child;
}

static double
chambers_pss_kb(void)
{
	static struct waiting w[IDLE];
	struct launch *l[IDLE];
	double kb[IDLE];

	for (int i = 0; i < IDLE; i++) {
		l[i] = chamber_start(&w[i], &shared_network, true);
		while (!w[i].started)
			event_base_dispatch(base);
	}
	for (int i = 0; i < IDLE; i++)
		kb[i] = pss_kb(launch_pid(l[i])) + pss_kb(child_of(launch_pid(l[i])));
	for (int i = 0; i < IDLE; i++) {
		launch_kill(l[i], ENDING_released);
		while (!w[i].over)
			event_base_dispatch(base);
	}
	return median(kb, IDLE);
}

static double
dynamic_pss_kb(void)
{
	char *argv[] = { (char *)(uintptr_t)dynamic, NULL }, byte;
	double kb[IDLE];
	pid_t pid[IDLE];
	int ready[2];

	for (int i = 0; i < IDLE; i++) {
		if (pipe(ready) < 0)
			die("pipe");
		pid[i] = fork();
		if (pid[i] == 0) {
			dup2(ready[1], 1);
			close(ready[0]);
			execv(argv[0], argv);
			_exit(127);
		}
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			die(dynamic);
		close(ready[0]);
	}
	for (int i = 0; i < IDLE; i++)
		kb[i] = pss_kb(pid[i]);
	for (int i = 0; i < IDLE; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	return median(kb, IDLE);
}

static void
memory(void)
{
	struct series s = { 0 };

	add(&s, chambers_pss_kb(), dynamic_pss_kb());
	print_series("T17", "KB", &s, "PSS of init and runtime, against one dynamic program");
}

static const struct {
	const char *name;
	once_fn *first, *once;
	const char *what;
} standing[] = {
	{ "T9", chamber_once_us, stood_own_us,
	    "chamber with a network of its own, one standing by, against bwrap --unshare-all" },
	{ "T9e", chamber_once_us, program_own_us, "the same, to the program's end, as bwrap" },
	{ "T10", shared_once_us, stood_shared_us,
	    "chamber in the shared empty network, one standing by, against the same" },
	{ "T10e", shared_once_us, program_shared_us, "the same, to the program's end, as bwrap" },
};

int
main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: bench_spawn TARGET DYNAMIC [NAME...]\n");
		return 2;
	}
	target = argv[1];
	dynamic = argv[2];
	log_init("bench_spawn", LOG_ERROR_);
	snprintf(target_dir, sizeof target_dir, "%s", target);
	*strrchr(target_dir, '/') = '\0';
	snprintf(in_chamber, sizeof in_chamber, "/app/%s", strrchr(target, '/') + 1);
	be_important();
	if (wanted(argc, argv, "T14"))
		filter_setup();
	own_network = shared_network = *profile_named("native");
	own_network.network = NETWORK_OWN;
	shared_network.network = NETWORK_SHARED;
	if (wanted(argc, argv, "T13"))
		two_spawners();
	base = event_base_new();
	for (size_t i = 0; i < countof(standing); i++) {
		if (!wanted(argc, argv, standing[i].name))
			continue;
		stand_by(standing[i].first, NULL);
		compare(standing[i].name, standing[i].once, bwrap_once_us, standing[i].what);
		standby_close();
	}
	if (wanted(argc, argv, "T9c"))
		compare("T9c", chamber_once_us, bwrap_once_us,
		    "chamber with a network of its own, none standing by, against the same");
	if (wanted(argc, argv, "T10c"))
		compare("T10c", shared_once_us, bwrap_once_us,
		    "chamber in the shared empty network, none standing by, against the same");
	if (wanted(argc, argv, "T9b"))
		compare("T9b", chamber_once_us, bare_once_us, "the same, against posix_spawn alone");
	if (wanted(argc, argv, "T15"))
		large_parent();
	if (wanted(argc, argv, "T16")) {
		stand_by(grouped_once_us, ungrouped_once_us);
		compare("T16", stood_grouped_us, stood_ungrouped_us,
		    "chamber with a group of its own, against one without, both standing by, 20 ms apart");
		standby_close();
	}
	if (wanted(argc, argv, "T16c"))
		compare("T16c", grouped_once_us, ungrouped_once_us,
		    "the same, none standing by");
	if (wanted(argc, argv, "T17"))
		memory();
	event_base_free(base);
	return 0;
}
