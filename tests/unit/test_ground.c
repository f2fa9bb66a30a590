/*
 * ground: many chambers on one root and in one network, and what each of them sees.
 */
#include "supervisor/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/util.h"
#include "supervisor/launch.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

static struct uid_claim claim = UID_CLAIM_NONE;
static struct event_base *base;
static char dir[64];

struct outcome {
	struct launch *launch;
	bool started, over;
	enum layer refused;
	int error, status, network;
	char out[256];
	int pipe[2];
};

static void
on_started(struct launch *l, void *arg)
{
	struct outcome *o = arg;

	o->started = true;
	o->network = launch_layers(l)->state[LAYER_NETWORK];
}

static void
on_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	struct outcome *o = arg;

	(void)l;
	(void)exit;
	o->refused = layer;
	o->error = error;
	o->over = true;
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	o->status = exit->kind == EXIT_EXITED ? exit->status : -1;
	o->over = true;
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

static void
start(struct outcome *o, const struct profile *profile, const char *script,
    const struct chamber_mount *mounts, size_t nmounts)
{
	char *const argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" },
		(char *)(uintptr_t)script, NULL };
	char *const env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	struct chamber c = { .profile = profile, .argv = argv, .env = env, .cwd = "/",
		.mounts = mounts, .nmounts = nmounts, .init = true, .die_with_parent = true,
		.uid = claim.uid, .gid = claim.uid };
	enum layer layer;
	int fds[3];

	memset(o, 0, sizeof(*o));
	ck_assert_int_eq(pipe2(o->pipe, O_CLOEXEC), 0);
	fds[0] = fds[2] = -1;
	fds[1] = o->pipe[1];
	c.fds = fds;
	c.nfds = 3;
	ck_assert_int_eq(launch_start(base, &c, &handler, o, &o->launch, &layer), 0);
	close(o->pipe[1]);
}

static void
finish(struct outcome *o)
{
	ssize_t n;

	while (!o->over)
		event_base_loop(base, EVLOOP_ONCE);
	n = read(o->pipe[0], o->out, sizeof(o->out) - 1);
	o->out[n > 0 ? n : 0] = '\0';
	close(o->pipe[0]);
}

static struct outcome
run_with(const char *script, const struct chamber_mount *mounts, size_t nmounts)
{
	struct outcome o;

	start(&o, profile_named("native"), script, mounts, nmounts);
	finish(&o);
	return o;
}

static struct outcome
run(const char *script)
{
	return run_with(script, NULL, 0);
}

static void
make_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(path, 0644);
}

/* "NAME/file" beneath `dir`, with `text` in it. */
static void
make_source(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	chmod(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/file", dir, name);
	make_file(path, text);
}

/* Valid until the process of the test ends. */
static char *
beneath(const char *name)
{
	static char path[32][128];
	static unsigned i;
	char *p = path[i++];

	ck_assert_uint_le(i, countof(path));
	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void
setup(void)
{
	strcpy(dir, "/tmp/test_ground.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	chmod(dir, 0755);
	base = event_base_new();
}

static void
teardown(void)
{
	char command[128];
	pid_t pid;

	event_base_free(base);
	snprintf(command, sizeof(command), "%s", dir);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", command, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

START_TEST(nothing_of_one_chamber_is_in_the_next)
{
	for (int i = 0; i < 3; i++) {
		struct outcome o = run("ls -A /tmp /dev/shm; echo x >/tmp/x; echo x >/dev/shm/y; "
				       "ls /tmp /dev/shm | wc -l; mkdir /z /etc/z /usr/z "
				       "2>/dev/null; ls / | grep z");

		ck_assert_msg(o.over && o.started, "%d: %d", i, o.refused);
		ck_assert_str_eq(o.out, "/dev/shm:\n\n/tmp:\n5\n");
	}
}
END_TEST

START_TEST(a_source_that_was_replaced_is_the_new_one)
{
	struct chamber_mount m = { .target = "/data" };
	struct outcome o;

	m.source = beneath("a");
	make_source("a", "old");
	for (int i = 0; i < 2; i++) {
		o = run_with("cat /data/file", &m, 1);
		ck_assert_str_eq(o.out, "old");
	}
	ck_assert_int_eq(rename(beneath("a"), beneath("b")), 0);
	make_source("a", "new");
	o = run_with("cat /data/file", &m, 1);
	ck_assert_str_eq(o.out, "new");
	/* Back again: the root that was made first is right again. */
	ck_assert_int_eq(rename(beneath("a"), beneath("c")), 0);
	ck_assert_int_eq(rename(beneath("b"), beneath("a")), 0);
	o = run_with("cat /data/file", &m, 1);
	ck_assert_str_eq(o.out, "old");
}
END_TEST

START_TEST(a_source_that_became_a_link_is_refused)
{
	struct chamber_mount m = { .target = "/data" };
	struct outcome o;

	m.source = beneath("a");
	make_source("a", "old");
	o = run_with("cat /data/file", &m, 1);
	ck_assert_str_eq(o.out, "old");
	/* To the very directory that it was. */
	ck_assert_int_eq(rename(beneath("a"), beneath("b")), 0);
	ck_assert_int_eq(symlink(beneath("b"), beneath("a")), 0);
	o = run_with("cat /data/file", &m, 1);
	ck_assert(!o.started);
	ck_assert_int_eq(o.refused, LAYER_SOURCES);
	ck_assert_int_eq(o.error, ELOOP);
	ck_assert_str_eq(o.out, "");
}
END_TEST

START_TEST(a_source_that_is_gone_is_refused)
{
	struct chamber_mount m = { .target = "/data" };
	struct outcome o;

	m.source = beneath("a");
	make_source("a", "old");
	o = run_with("cat /data/file", &m, 1);
	ck_assert_str_eq(o.out, "old");
	ck_assert_int_eq(rename(beneath("a"), beneath("b")), 0);
	o = run_with("cat /data/file", &m, 1);
	ck_assert_int_eq(o.refused, LAYER_SOURCES);
	ck_assert_int_eq(o.error, ENOENT);
}
END_TEST

/* Its inode is the same; what the host has mounted is not. */
START_TEST(a_mount_that_comes_or_goes_below_a_source_is_seen)
{
	struct chamber_mount m = { .target = "/data" };
	struct outcome o;

	if (!uid_is_root())
		return;
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	m.source = beneath("a");
	make_source("a", "old");
	ck_assert_int_eq(mkdir(beneath("a/sub"), 0755), 0);
	o = run_with("ls /data/sub", &m, 1);
	ck_assert_str_eq(o.out, "");
	ck_assert_int_eq(mount("tmpfs", beneath("a/sub"), "tmpfs", 0, "mode=755"), 0);
	make_file(beneath("a/sub/new"), "");
	o = run_with("ls /data/sub", &m, 1);
	ck_assert_str_eq(o.out, "new\n");
	ck_assert_int_eq(umount(beneath("a/sub")), 0);
	o = run_with("ls /data/sub", &m, 1);
	ck_assert_str_eq(o.out, "");
}
END_TEST

static const struct {
	const char *target, *script, *out;
	bool writable;
} places[] = {
	{ "/tmp", "ls /tmp", "file\n", false },
	{ "/tmp/below", "ls /tmp; ls /tmp/below", "below\nfile\n", false },
	{ "/dev/shm/deep/er", "ls /dev/shm/deep/er; ls /dev/null", "file\n/dev/null\n", false },
	{ "/tmp/w", "echo 1 >/tmp/w/new && echo 2 >/tmp/own && ls /tmp /tmp/w",
	    "/tmp:\nown\nw\n\n/tmp/w:\nfile\nnew\n", true },
	{ "/usr/share", "ls /usr/share", "file\n", false },
};

/* Again and again: from a root that serves others, or one that cannot. */
START_TEST(a_mount_may_stand_on_what_is_private)
{
	const struct chamber_mount m = { .source = beneath("a"), .target = places[_i].target,
		.writable = places[_i].writable, .idmap = true };

	make_source("a", "text");
	for (int i = 0; i < 3; i++) {
		struct outcome o = run_with(places[_i].script, &m, 1);

		ck_assert_msg(strcmp(o.out, places[_i].out) == 0, "%s: %s (%d %d)",
		    places[_i].target, o.out, o.refused, o.error);
		unlink(beneath("a/new"));
	}
}
END_TEST

/* Each of them makes everything, and only what belongs together may be kept. */
START_TEST(first_launches_at_once_leave_nothing_that_does_not_fit)
{
	struct outcome o[4];

	for (size_t i = 0; i < countof(o); i++)
		start(&o[i], profile_named("native"), "echo it ran", NULL, 0);
	for (size_t i = 0; i < countof(o); i++) {
		finish(&o[i]);
		ck_assert_msg(strcmp(o[i].out, "it ran\n") == 0, "%d", o[i].refused);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_str_eq(run("echo it ran").out, "it ran\n");
}
END_TEST

static ino_t
network_of(const struct outcome *o)
{
	char path[64];
	struct stat st;
	int pid = (int)launch_pid(o->launch);
	FILE *f;

	/* Of the program: pid 1 lets nobody without root look. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_ino;
}

START_TEST(one_network_is_shared_or_each_has_its_own)
{
	struct profile profile = *profile_named("native");
	struct outcome o[3];
	ino_t net[3];
	bool scoped;

	profile.network = _i ? NETWORK_SHARED : NETWORK_OWN;
	/* The first alone, so that it has been handed up. */
	for (size_t i = 0; i < countof(o); i++) {
		start(&o[i], &profile, "exec sleep 1000", NULL, 0);
		while (!o[i].started)
			event_base_loop(base, EVLOOP_ONCE);
		net[i] = network_of(&o[i]);
	}
	scoped = launch_layers(o[0].launch)->state[LAYER_SCOPES] > 0;
	ck_assert_int_eq(o[0].network, _i && scoped ? 2 : 1);
	ck_assert_int_eq(net[0] == net[1] && net[1] == net[2], _i && scoped);
	for (size_t i = 0; i < countof(o); i++) {
		launch_kill(o[i].launch, ENDING_released);
		finish(&o[i]);
	}
}
END_TEST

START_TEST(only_a_namespace_of_the_kind_is_kept)
{
	static const enum launch_stage stages[] = { STAGE_USER, STAGE_NETWORK, STAGE_TIME,
		STAGE_ROOT };
	static const char *const paths[] = { "/dev/null", "/proc/self/ns/pid" };
	struct ground_root *root = NULL;

	for (size_t i = 0; i < countof(stages); i++)
		for (size_t k = 0; k < countof(paths); k++)
			ck_assert_int_eq(ground_keep(stages[i],
					     open(paths[k], O_RDONLY | O_CLOEXEC), &root),
			    -EPROTO);
}
END_TEST

int
main(void)
{
	struct uid_range range = { 3400000, 1000 };
	Suite *s = suite_create("ground");
	TCase *t = tcase_create("ground");
	SRunner *r;
	int failed;

	if (uid_is_root() && uid_claim(&range, &claim) < 0)
		return 1;
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, nothing_of_one_chamber_is_in_the_next);
	tcase_add_test(t, a_source_that_was_replaced_is_the_new_one);
	tcase_add_test(t, a_source_that_became_a_link_is_refused);
	tcase_add_test(t, a_source_that_is_gone_is_refused);
	tcase_add_test(t, a_mount_that_comes_or_goes_below_a_source_is_seen);
	tcase_add_loop_test(t, a_mount_may_stand_on_what_is_private, 0, countof(places));
	tcase_add_test(t, first_launches_at_once_leave_nothing_that_does_not_fit);
	tcase_add_loop_test(t, one_network_is_shared_or_each_has_its_own, 0, 2);
	tcase_add_test(t, only_a_namespace_of_the_kind_is_kept);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	uid_release(&claim);
	return failed == 0 ? 0 : 1;
}
