/*
 * launch: real chambers with small programs.  The test is its own probe: /app is the
 * directory that it stands in, and `test_launch --probe NAME` is what runs inside.
 */
#include "supervisor/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/util.h"
#include "supervisor/launch_private.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

/* One launch followed to its end. */
struct outcome {
	struct event_base *base;
	struct launch *launch;
	bool started, refused, ended, may_go_cold;
	enum layer layer;
	int error;
	struct exit_facts facts;
	enum ending kill_at_start; /* cause to kill with once started */
	int signal_at_start;
	const char *stop_at; /* NULL, or the stop point of this launch, and of none before it */
	bool stop_early; /* also of what stands by for it, which then has its order at once */
};

static char self_dir[4096], self_name[256];
static bool standing; /* each launch finds one of its kind that stands by */
static struct uid_claim claim = { .lock_fd = -1 };

static void
on_started(struct launch *l, void *arg)
{
	struct outcome *o = arg;

	ck_assert(!o->started && !o->refused && !o->ended);
	o->started = true;
	if (o->kill_at_start != ENDING_none)
		launch_kill(l, o->kill_at_start);
	if (o->signal_at_start != 0)
		ck_assert_int_eq(launch_signal(l, o->signal_at_start), 0);
}

static void
on_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	struct outcome *o = arg;

	ck_assert(!o->started && !o->refused && !o->ended);
	o->refused = true;
	o->may_go_cold = launch_may_go_cold(l);
	o->layer = layer;
	o->error = error;
	if (exit != NULL)
		o->facts = *exit;
	event_base_loopbreak(o->base);
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	ck_assert(o->started && !o->refused && !o->ended);
	o->ended = true;
	o->facts = *exit;
	event_base_loopbreak(o->base);
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

static char *const plain_env[] = { (char[]){ "PATH=/usr/bin:/bin" }, (char[]){ "A=b c" }, NULL };

static struct chamber
chamber_of(char *const *argv)
{
	static struct chamber_mount app;

	app = (struct chamber_mount){ .source = self_dir, .target = "/app", .idmap = true };
	return (struct chamber){ .profile = profile_named("native"), .argv = argv,
		.env = plain_env, .cwd = "/", .mounts = &app, .nmounts = 1, .init = true, .die_with_parent = true,
		.uid = claim.uid, .gid = claim.uid };
}

struct scout {
	struct launch_kind kind;
	bool started, over;
};

static void
on_scout_started(struct launch *l, void *arg)
{
	struct scout *s = arg;

	s->kind = l->kind;
	s->started = true;
}

static void
on_scout_refused(struct launch *l, enum layer layer, int error,
    const struct exit_facts *exit, void *arg)
{
	(void)l;
	(void)layer;
	(void)error;
	(void)exit;
	((struct scout *)arg)->over = true;
}

static void
on_scout_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	(void)l;
	(void)exit;
	((struct scout *)arg)->over = true;
}

/*
 * In the second round of all tests: another launch of its kind first, which leaves one that
 * stands by, as every launch does that has begun.  True if one does.
 */
static bool
prepare(struct event_base *base, const struct chamber *c, const char *stop_at)
{
	static const struct launch_handler scout = { on_scout_started, on_scout_refused,
		on_scout_exit };
	char *const argv[] = { (char[]){ "/bin/true" }, NULL };
	struct chamber first = *c;
	enum layer layer;
	struct scout s = { 0 };
	struct launch *l;

	if (!standing || !c->init)
		return false;
	first.argv = argv;
	first.fds = NULL;
	first.nfds = 0;
	first.learn = NULL;
	ck_assert_int_eq(standby_open(base, 1), 0);
	ck_assert_int_eq(launch_start(base, &first, &scout, &s, &l, &layer), 0);
	while (!s.over)
		event_base_loop(base, EVLOOP_ONCE);
	if (stop_at != NULL) {
		/* It may be there already, without the point. */
		standby_renew(1);
		setenv("CAISSON_STOP", stop_at, 1);
		standby_note(&s.kind);
	}
	standby_fill();
	while (s.started && stop_at == NULL && standby_count(true) == 0)
		event_base_loop(base, EVLOOP_ONCE);
	return s.started;
}

static void
follow(struct outcome *o, const struct chamber *c)
{
	enum layer layer;
	bool stands;

	o->base = event_base_new();
	stands = prepare(o->base, c, o->stop_early ? o->stop_at : NULL);
	if (o->stop_at != NULL)
		setenv("CAISSON_STOP", o->stop_at, 1);
	ck_assert_int_eq(launch_start(o->base, c, &handler, o, &o->launch, &layer), 0);
	/* One that has just died at its stop point is not taken. */
	ck_assert(launch_stood_by(o->launch) == stands || o->stop_early);
	event_base_dispatch(o->base);
	standby_close();
	event_base_free(o->base);
	ck_assert(o->refused || o->ended);
	/* Whatever happened, nobody of it is left. */
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}

static struct outcome
run_shell(const char *script)
{
	char *const argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" },
		(char *)(uintptr_t)script, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };

	follow(&o, &c);
	return o;
}

/* Runs a probe of ours; what it wrote to its output is in `text`. */
static struct outcome
run_probe(const char *probe, struct chamber *c, char *text, size_t cap)
{
	char program[300];
	char *const argv[] = { program, (char[]){ "--probe" }, (char *)(uintptr_t)probe, NULL };
	struct outcome o = { 0 };
	int out[2], fds[3];
	ssize_t n;

	snprintf(program, sizeof(program), "/app/%s", self_name);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	fds[0] = -1;
	fds[1] = out[1];
	fds[2] = 2;
	c->argv = argv;
	if (c->fds == NULL) {
		c->fds = fds;
		c->nfds = 3;
	}
	follow(&o, c);
	close(out[1]);
	n = read(out[0], text, cap - 1);
	text[n > 0 ? n : 0] = '\0';
	close(out[0]);
	return o;
}

static int
count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static int
count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	int c, n = 0;

	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* ---- probes: what runs inside ---- */

/* Each descriptor that is open, as "0 1 2 ". */
static int
probe_fds(void)
{
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	return 0;
}

static int
probe_env(void)
{
	for (char **e = environ; *e != NULL; e++)
		printf("%s\n", *e);
	return 0;
}

static const struct {
	const char *name;
	long nr;
} violations[] = {
#ifndef CAISSON_ASAN
	{ "ptrace", SYS_ptrace }, /* LeakSanitizer needs it */
#endif
	{ "mount", SYS_mount },
	{ "keyctl", SYS_keyctl },
	{ "bpf", SYS_bpf },
	{ "unshare", SYS_unshare },
	{ "process_vm_readv", SYS_process_vm_readv },
	{ "setns", SYS_setns },
};

static int
probe_violation(const char *name)
{
	for (size_t i = 0; i < countof(violations); i++)
		if (strcmp(violations[i].name, name) == 0)
			return (int)syscall(violations[i].nr, 0, 0, 0, 0, 0, 0);
	return 99;
}

static int
probe_x32(void)
{
	return (int)syscall(0x40000000 | SYS_getpid);
}

/* mkdir by the 32-bit entry, which has numbers of its own. */
static int
probe_i386(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20) : "memory");
	return ret > 0 ? 0 : 1;
}

/* An ioctl whose number has the upper half set: the kernel looks at the lower. */
static int
probe_tiocsti(unsigned long high)
{
	return (int)syscall(SYS_ioctl, 0, 0x5412UL | high << 32, "x");
}

static int
probe(const char *name)
{
	if (strcmp(name, "fds") == 0)
		return probe_fds();
	if (strcmp(name, "env") == 0)
		return probe_env();
	if (strcmp(name, "x32") == 0)
		return probe_x32();
	if (strcmp(name, "i386") == 0)
		return probe_i386();
	if (strcmp(name, "tiocsti") == 0)
		return probe_tiocsti(0);
	if (strcmp(name, "tiocsti-high") == 0)
		return probe_tiocsti(1);
	if (strcmp(name, "io_uring") == 0)
		return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0;
	if (strcmp(name, "clone-newuser") == 0)
		return (int)syscall(SYS_clone, 0x10000000 | SIGCHLD, 0, 0, 0, 0);
	if (strcmp(name, "clone3") == 0)
		return syscall(SYS_clone3, NULL, 0) < 0 ? errno : 0;
	if (strcmp(name, "kill-1") == 0)
		return kill(1, SIGKILL) < 0 ? errno : 0;
	return probe_violation(name);
}

/* ---- endings ---- */

static const int exit_statuses[] = { 0, 1, 2, 7, 77, 125, 126, 127, 128, 137, 143, 254, 255 };

START_TEST(an_exit_status_arrives_as_it_was)
{
	char script[32];
	struct outcome o;

	snprintf(script, sizeof(script), "exit %d", exit_statuses[_i]);
	o = run_shell(script);
	ck_assert(o.ended);
	ck_assert_uint_eq(o.facts.kind, EXIT_EXITED);
	ck_assert_int_eq(o.facts.status, exit_statuses[_i]);
	ck_assert_uint_eq(o.facts.cause, ENDING_none);
}
END_TEST

static const int signals[] = { SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGINT, SIGHUP };

START_TEST(a_death_by_signal_is_no_exit_status)
{
	char script[32];
	struct outcome o;

	snprintf(script, sizeof(script), "kill -%d $$", signals[_i]);
	o = run_shell(script);
	ck_assert(o.ended);
	ck_assert_uint_eq(o.facts.kind, EXIT_SIGNALED);
	ck_assert_int_eq(o.facts.status, signals[_i]);
	ck_assert_uint_eq(o.facts.cause, ENDING_none);
	ck_assert_uint_eq(o.facts.core, 0);
}
END_TEST

START_TEST(a_signal_reaches_the_program)
{
	char *const argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { .signal_at_start = SIGINT };

	follow(&o, &c);
	ck_assert_uint_eq(o.facts.kind, EXIT_SIGNALED);
	ck_assert_int_eq(o.facts.status, SIGINT);
}
END_TEST

START_TEST(a_kill_repeats_its_cause)
{
	char *const argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { .kill_at_start = ENDING_deadline };

	follow(&o, &c);
	ck_assert_uint_eq(o.facts.kind, EXIT_SIGNALED);
	ck_assert_int_eq(o.facts.status, SIGKILL);
	ck_assert_uint_eq(o.facts.cause, ENDING_deadline);
}
END_TEST

/* A grandchild of a session of its own holds a pipe: it closes when all are gone. */
START_TEST(a_kill_takes_the_whole_tree)
{
	char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
		(char[]){ "(setsid sh -c 'echo up; exec sleep 1000' &) ; sleep 1000" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };
	struct pollfd p;
	enum layer layer;
	int out[2], fds[3];
	char text[8];

	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	fds[0] = fds[2] = -1;
	fds[1] = out[1];
	c.fds = fds;
	c.nfds = 3;
	o.base = event_base_new();
	prepare(o.base, &c, NULL);
	ck_assert_int_eq(launch_start(o.base, &c, &handler, &o, &o.launch, &layer), 0);
	while (!o.started)
		event_base_loop(o.base, EVLOOP_ONCE);
	close(out[1]);
	ck_assert_int_eq(read(out[0], text, 3), 3);
	launch_kill(o.launch, ENDING_canceled);
	event_base_dispatch(o.base);
	standby_close();
	event_base_free(o.base);
	ck_assert_uint_eq(o.facts.cause, ENDING_canceled);
	p = (struct pollfd){ .fd = out[0], .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_int_eq(read(out[0], text, 1), 0);
	close(out[0]);
}
END_TEST

START_TEST(the_usage_of_children_counts)
{
	struct outcome o = run_shell("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'");

	ck_assert_uint_eq(o.facts.kind, EXIT_EXITED);
	ck_assert_uint_gt(o.facts.cpu_us, 1000);
	ck_assert_uint_gt(o.facts.peak_bytes, 100000);
}
END_TEST

/* ---- refusals ---- */

static const struct {
	const char *program;
	enum layer layer;
	int error;
} unstartable[] = {
	{ "no-such-program", LAYER_EXEC, ENOENT },
	{ "/usr/bin/no-such-program", LAYER_EXEC, ENOENT },
	{ "/etc/passwd", LAYER_EXEC, EACCES },
	{ "/usr", LAYER_EXEC, EACCES },
};

START_TEST(what_cannot_be_executed_is_refused_by_layer)
{
	char *const argv[] = { (char *)(uintptr_t)unstartable[_i].program, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };
	char why[256];

	follow(&o, &c);
	ck_assert(o.refused);
	ck_assert_int_eq(o.layer, unstartable[_i].layer);
	ck_assert_int_eq(o.error, unstartable[_i].error);
	launch_explain(o.layer, o.error, why, sizeof(why));
	ck_assert_uint_gt(strlen(why), 20);
}
END_TEST

/* Found, executable, and still refused by the exec itself: the errno comes after `exec`. */
static const struct {
	const char *content;
	int error;
} unexecutable[] = {
	{ "#!/no/such/interpreter\n", ENOENT },
	{ "neither script nor program\n", ENOEXEC },
	{ "#!/app/script\n", ELOOP },
};

START_TEST(what_fails_at_the_exec_itself_is_refused)
{
	char dir[] = "/tmp/test_launch.XXXXXX", path[64];
	char *const argv[] = { (char[]){ "/app/script" }, NULL };
	struct chamber_mount m = { .source = dir, .target = "/app", .idmap = true };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/script", dir);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fputs(unexecutable[_i].content, f);
	fclose(f);
	chmod(path, 0755);
	c.mounts = &m;
	follow(&o, &c);
	unlink(path);
	rmdir(dir);
	ck_assert(o.refused);
	ck_assert_int_eq(o.layer, LAYER_EXEC);
	ck_assert_int_eq(o.error, unexecutable[_i].error);
}
END_TEST

START_TEST(a_source_that_is_missing_is_refused)
{
	char *const argv[] = { (char[]){ "true" }, NULL };
	const struct chamber_mount m = { .source = "/no/such/dir", .target = "/app" };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };

	c.mounts = &m;
	follow(&o, &c);
	ck_assert(o.refused);
	ck_assert_int_eq(o.layer, LAYER_SOURCES);
	ck_assert_int_eq(o.error, ENOENT);
}
END_TEST

START_TEST(a_source_with_a_link_in_its_path_is_refused)
{
	char *const argv[] = { (char[]){ "true" }, NULL };
	const struct chamber_mount m = { .source = "/proc/self/root/usr", .target = "/app" };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };

	c.mounts = &m;
	follow(&o, &c);
	ck_assert(o.refused);
	ck_assert_int_eq(o.layer, LAYER_SOURCES);
	ck_assert_int_eq(o.error, ELOOP);
}
END_TEST

START_TEST(a_description_without_sense_starts_nothing)
{
	char *const argv[] = { (char[]){ "true" }, NULL }, *const none[] = { NULL };
	const struct chamber_mount relative = { .source = "/usr", .target = "app" };
	struct chamber c[4] = { chamber_of(argv), chamber_of(none), chamber_of(argv),
		chamber_of(argv) };
	struct event_base *base = event_base_new();
	const int fds[] = { -1, -1, -1, -1 };
	struct launch *l;
	enum layer layer;

	c[0].profile = NULL;
	c[2].mounts = &relative;
	c[3].fds = fds;
	c[3].nfds = 4;
	for (size_t i = 0; i < countof(c); i++)
		ck_assert_int_eq(launch_start(base, &c[i], &handler, NULL, &l, &layer), -EINVAL);
	event_base_free(base);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}
END_TEST

START_TEST(a_kill_before_the_start_is_a_refusal)
{
	char *const argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };
	enum layer layer;

	o.base = event_base_new();
	prepare(o.base, &c, NULL);
	ck_assert_int_eq(launch_start(o.base, &c, &handler, &o, &o.launch, &layer), 0);
	/* After 0, 1, 2... turns of the loop: at another step each time. */
	for (int i = 0; i < _i && !o.started; i++)
		event_base_loop(o.base, EVLOOP_ONCE);
	launch_kill(o.launch, ENDING_canceled);
	event_base_dispatch(o.base);
	standby_close();
	event_base_free(o.base);
	ck_assert(o.refused || (o.started && o.facts.cause == ENDING_canceled));
	if (o.refused)
		ck_assert_int_eq(o.error, ECANCELED);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* ---- what the program has ---- */

START_TEST(the_descriptors_are_exactly_those_given)
{
	struct chamber c = chamber_of(NULL);
	int pair[2], out[2], fds[4];
	struct outcome o;
	char text[256];
	ssize_t n;

	o = run_probe("fds", &c, text, sizeof(text));
	ck_assert_int_eq(o.facts.status, 0);
	ck_assert_str_eq(text, "0 1 2 ");

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	c = chamber_of(NULL);
	fds[0] = -1;
	fds[1] = out[1];
	fds[2] = -1;
	fds[3] = pair[1];
	c.fds = fds;
	c.nfds = 4;
	o = run_probe("fds", &c, text, sizeof(text));
	ck_assert_int_eq(o.facts.status, 0);
	n = read(out[0], text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_str_eq(text, "0 1 2 3 ");
}
END_TEST

START_TEST(the_environment_is_exactly_that_given)
{
	struct chamber c = chamber_of(NULL);
	char text[256];
	struct outcome o = run_probe("env", &c, text, sizeof(text));

	ck_assert_int_eq(o.facts.status, 0);
	ck_assert_str_eq(text, "PATH=/usr/bin:/bin\nA=b c\n");
}
END_TEST

START_TEST(without_init_the_program_is_pid_1)
{
	char *const argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" },
		(char[]){ "[ $$ = 1 ] && exit 42" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { 0 };

	c.profile = profile_named("broker");
	c.init = false;
	follow(&o, &c);
	ck_assert(o.ended);
	ck_assert_int_eq(o.facts.status, 42);
}
END_TEST

START_TEST(pid_1_cannot_be_killed_from_inside)
{
	struct chamber c = chamber_of(NULL);
	char text[8];
	struct outcome o = run_probe("kill-1", &c, text, sizeof(text));

	ck_assert_uint_eq(o.facts.kind, EXIT_EXITED);
}
END_TEST

START_TEST(nothing_is_left_after_many_launches)
{
	int fds = 0, mounts = 0;

	for (int i = 0; i < 50; i++) {
		struct outcome o = run_shell(i % 3 == 0 ? "exit 3" : i % 3 == 1 ? "kill -9 $$" :
			    "sleep 1000 & exit 0");

		ck_assert(o.ended);
		if (i == 2) {
			fds = count_dir("/proc/self/fd");
			mounts = count_lines("/proc/self/mountinfo");
		}
	}
	ck_assert_int_eq(count_dir("/proc/self/fd"), fds);
	ck_assert_int_eq(count_lines("/proc/self/mountinfo"), mounts);
}
END_TEST

/* ---- seccomp ---- */

START_TEST(a_forbidden_call_is_named)
{
	struct chamber c = chamber_of(NULL);
	char text[8];
	struct outcome o = run_probe(violations[_i].name, &c, text, sizeof(text));

	ck_assert(o.ended);
	ck_assert_uint_eq(o.facts.kind, EXIT_SIGNALED);
	ck_assert_int_eq(o.facts.status, SIGKILL);
	ck_assert_uint_eq(o.facts.cause, ENDING_seccomp);
	ck_assert_uint_eq(o.facts.syscall, (uint32_t)violations[_i].nr);
	ck_assert_uint_eq(o.facts.arch, AUDIT_ARCH_X86_64);
	ck_assert_str_eq(profile_syscall_name(o.facts.arch, o.facts.syscall),
	    violations[_i].name);
}
END_TEST

static const struct {
	const char *probe;
	uint32_t kind;
	int status;
	uint32_t arch, syscall;
	const char *name;
} attempts[] = {
	{ "x32", EXIT_SIGNALED, SIGKILL, AUDIT_ARCH_X86_64, 0x40000000 | SYS_getpid, "getpid" },
	{ "i386", EXIT_SIGNALED, SIGKILL, AUDIT_ARCH_I386, 20, "getpid" },
	{ "tiocsti", EXIT_SIGNALED, SIGKILL, AUDIT_ARCH_X86_64, SYS_ioctl, "ioctl" },
	{ "tiocsti-high", EXIT_SIGNALED, SIGKILL, AUDIT_ARCH_X86_64, SYS_ioctl, "ioctl" },
	{ "clone-newuser", EXIT_SIGNALED, SIGKILL, AUDIT_ARCH_X86_64, SYS_clone, "clone" },
	{ "io_uring", EXIT_EXITED, ENOSYS, 0, 0, "" },
	{ "clone3", EXIT_EXITED, ENOSYS, 0, 0, "" },
};

START_TEST(ways_around_the_list_are_closed)
{
	struct chamber c = chamber_of(NULL);
	char text[8];
	struct outcome o = run_probe(attempts[_i].probe, &c, text, sizeof(text));

	ck_assert(o.ended);
	ck_assert_uint_eq(o.facts.kind, attempts[_i].kind);
	ck_assert_int_eq(o.facts.status, attempts[_i].status);
	if (attempts[_i].kind != EXIT_SIGNALED)
		return;
	ck_assert_uint_eq(o.facts.cause, ENDING_seccomp);
	ck_assert_uint_eq(o.facts.arch, attempts[_i].arch);
	ck_assert_uint_eq(o.facts.syscall, attempts[_i].syscall);
	ck_assert_str_eq(profile_syscall_name(o.facts.arch, o.facts.syscall), attempts[_i].name);
}
END_TEST

#ifdef CAISSON_TEST_STOPS
/* Every step of the hand-shake may be the last one of its process. */
enum half {
	EITHER, /* after the order, where one was waited for */
	FIRST, /* before it */
	MAKES, /* of a launch that makes its ground */
	STOOD, /* of one that did, before its order */
	ORDERED, /* and after it */
};

/* Has the program leave to run when the death is seen? */
enum leave {
	NOT_GIVEN,
	GIVEN,
	OPEN, /* others go on meanwhile */
};

static const struct {
	const char *point;
	bool starts; /* dies after it has told of the exec: started, then gone */
	enum half half;
	enum leave leave;
} stops[] = {
	{ "launch.start", false, FIRST, NOT_GIVEN },
	{ "launch.before_clone", false, FIRST, NOT_GIVEN },
	{ "launch.after_clone", false, FIRST, NOT_GIVEN },
	{ "launch.before_root", false, FIRST, NOT_GIVEN },
	{ "launch.after_root", false, FIRST, NOT_GIVEN },
	{ "launch.before_pivot", false, MAKES, NOT_GIVEN },
	{ "launch.after_pivot", false, MAKES, NOT_GIVEN },
	{ "init.start", false, FIRST, NOT_GIVEN },
	{ "launch.standing", false, STOOD, NOT_GIVEN },
	{ "init.standing", false, STOOD, NOT_GIVEN },
	{ "launch.ordered", false, ORDERED, NOT_GIVEN },
	{ "init.ordered", false, ORDERED, NOT_GIVEN },
	{ "launch.before_release", false, EITHER, NOT_GIVEN },
	{ "launch.after_release", false, EITHER, OPEN },
	{ "init.after_release", false, EITHER, NOT_GIVEN },
	{ "init.before_mounts", false, EITHER, NOT_GIVEN },
	{ "init.after_mounts", false, EITHER, NOT_GIVEN },
	{ "init.confined", false, EITHER, NOT_GIVEN },
	{ "init.before_runtime", false, EITHER, NOT_GIVEN },
	{ "init.after_runtime", false, EITHER, NOT_GIVEN },
	{ "init.after_report", true, EITHER, OPEN },
	{ "program.before_filter", false, EITHER, NOT_GIVEN },
	{ "program.after_filter", false, EITHER, NOT_GIVEN },
	{ "program.before_exec", false, EITHER, GIVEN },
	{ "program.after_exec_report", true, EITHER, GIVEN },
};

START_TEST(a_death_at_any_step_leaves_nothing)
{
	char *const argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { .stop_at = stops[_i].point };
	enum half half = stops[_i].half;

	if (standing ? half == MAKES : half == STOOD || half == ORDERED)
		return;
	o.stop_early = half == FIRST || half == STOOD;
	/* One whose death comes before the order is not taken, and a cold launch never passes. */
	if (half == STOOD)
		o.kill_at_start = ENDING_shutdown;
	follow(&o, &c);
	if (!stops[_i].starts && half != STOOD)
		ck_assert_msg(o.refused, "%s", stops[_i].point);
	if (!standing || stops[_i].leave == GIVEN)
		ck_assert_msg(!o.may_go_cold, "%s", stops[_i].point);
	/* Whether an early death is seen before it is taken is open. */
	else if (!o.stop_early && stops[_i].leave == NOT_GIVEN)
		ck_assert_msg(o.may_go_cold, "%s", stops[_i].point);
	if (o.refused)
		ck_assert_int_eq(o.layer, LAYER_HANDSHAKE);
	ck_assert_uint_ne(o.facts.kind, EXIT_NONE);
}
END_TEST

START_TEST(what_is_to_be_cold_takes_none_that_stands_by)
{
	char *const argv[] = { (char[]){ "/bin/true" }, NULL };
	struct chamber c = chamber_of(argv);
	struct outcome o = { .base = event_base_new() };
	enum layer layer;

	c.cold = true;
	ck_assert(prepare(o.base, &c, NULL) == standing);
	ck_assert_int_eq(launch_start(o.base, &c, &handler, &o, &o.launch, &layer), 0);
	ck_assert(!launch_stood_by(o.launch));
	event_base_dispatch(o.base);
	standby_close();
	event_base_free(o.base);
	ck_assert(o.ended && !o.may_go_cold);
}
END_TEST

START_TEST(exit_facts_come_from_init_where_the_kernel_keeps_none)
{
	struct outcome o;

	setenv("CAISSON_NO_PIDFD_INFO", "1", 1);
	o = run_shell("exit 77");
	ck_assert_uint_eq(o.facts.kind, EXIT_EXITED);
	ck_assert_int_eq(o.facts.status, 77);
	o = run_shell("kill -15 $$");
	ck_assert_uint_eq(o.facts.kind, EXIT_SIGNALED);
	ck_assert_int_eq(o.facts.status, SIGTERM);
}
END_TEST
#endif

static Suite *
suite(const char *name)
{
	Suite *s = suite_create(name);
	TCase *t;

	t = tcase_create("endings");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, an_exit_status_arrives_as_it_was, 0, countof(exit_statuses));
	tcase_add_loop_test(t, a_death_by_signal_is_no_exit_status, 0, countof(signals));
	tcase_add_test(t, a_signal_reaches_the_program);
	tcase_add_test(t, a_kill_repeats_its_cause);
	tcase_add_test(t, a_kill_takes_the_whole_tree);
	tcase_add_test(t, the_usage_of_children_counts);
	suite_add_tcase(s, t);

	t = tcase_create("refusals");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_cannot_be_executed_is_refused_by_layer, 0,
	    countof(unstartable));
	tcase_add_loop_test(t, what_fails_at_the_exec_itself_is_refused, 0,
	    countof(unexecutable));
	tcase_add_test(t, a_source_that_is_missing_is_refused);
	tcase_add_test(t, a_source_with_a_link_in_its_path_is_refused);
	tcase_add_test(t, a_description_without_sense_starts_nothing);
	tcase_add_loop_test(t, a_kill_before_the_start_is_a_refusal, 0, 8);
	suite_add_tcase(s, t);

	t = tcase_create("contents");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_descriptors_are_exactly_those_given);
	tcase_add_test(t, the_environment_is_exactly_that_given);
	tcase_add_test(t, without_init_the_program_is_pid_1);
	tcase_add_test(t, pid_1_cannot_be_killed_from_inside);
	tcase_add_test(t, nothing_is_left_after_many_launches);
	suite_add_tcase(s, t);

	t = tcase_create("seccomp");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_forbidden_call_is_named, 0, countof(violations));
	tcase_add_loop_test(t, ways_around_the_list_are_closed, 0, countof(attempts));
	suite_add_tcase(s, t);

#ifdef CAISSON_TEST_STOPS
	t = tcase_create("deaths");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_death_at_any_step_leaves_nothing, 0, countof(stops));
	tcase_add_test(t, what_is_to_be_cold_takes_none_that_stands_by);
	tcase_add_test(t, exit_facts_come_from_init_where_the_kernel_keeps_none);
	suite_add_tcase(s, t);
#endif
	return s;
}

static void
find_self(void)
{
	ssize_t n = readlink("/proc/self/exe", self_dir, sizeof(self_dir) - 1);
	char *slash;

	self_dir[n > 0 ? n : 0] = '\0';
	slash = strrchr(self_dir, '/');
	snprintf(self_name, sizeof(self_name), "%s", slash + 1);
	*slash = '\0';
}

int
main(int argc, char **argv)
{
	struct uid_range range = { 3300000, 1000 };
	SRunner *r;
	int failed = 0;

	if (argc == 3 && strcmp(argv[1], "--probe") == 0)
		return probe(argv[2]);
	find_self();
	if (uid_is_root() && uid_claim(&range, &claim) < 0)
		return 1;
	for (int round = 0; round < 2; round++) {
		standing = round == 1;
		r = srunner_create(suite(standing ? "launch of one that stood by" : "launch"));
		srunner_run_all(r, CK_ENV);
		failed += srunner_ntests_failed(r);
		srunner_free(r);
	}
	uid_release(&claim);
	return failed == 0 ? 0 : 1;
}
