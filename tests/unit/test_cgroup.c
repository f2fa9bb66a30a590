/*
 * cgroup: v2 against a tree of plain files, in which this program plays the kernel: mkdir fills
 * a group, rmdir refuses one that is populated.  v1, and the bare v2 beside it, for real.
 */
#include "supervisor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/util.h"
#include "worker/kernel.h"

#define MIB (1ull << 20)

static char tree[64], self_file[96];
static const char *busy; /* the end of the name of a group that is populated, or NULL */
static const char *missing; /* a file that a new group lacks, or NULL */
static char place[128]; /* the group that we are in */
static int sweeps; /* groups still to be removed by another sweep, just before we lock them */
static bool occupied; /* our own group has processes besides us */

/* ---- the kernel of the tree ---- */

static void
put(const char *dir, const char *name, const char *text)
{
	char path[512];
	int fd;

	ck_assert_int_lt(snprintf(path, sizeof(path), "%s/%s", dir, name), sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static const char *
get(const char *dir, const char *name)
{
	static char text[512];
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	util_close(&fd);
	text[n > 0 ? n : 0] = '\0';
	return n < 0 ? NULL : text;
}

static void
fill(const char *dir, const char *controllers, const char *subtree)
{
	static const char *const empty[] = { "cgroup.procs", "memory.max", "memory.swap.max",
		"memory.oom.group", "memory.peak", "pids.max", "pids.peak", "cpu.max", "io.stat",
		"cgroup.kill" };

	for (size_t i = 0; i < countof(empty); i++)
		put(dir, empty[i], "");
	put(dir, "cgroup.controllers", controllers);
	put(dir, "cgroup.subtree_control", subtree);
	put(dir, "cgroup.events", "populated 0\nfrozen 0\n");
	put(dir, "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n");
	put(dir, "pids.events", "max 0\n");
	put(dir, "cpu.stat", "usage_usec 0\nuser_usec 0\n");
}

static bool
in_tree(const char *path)
{
	return tree[0] != '\0' && strncmp(path, tree, strlen(tree)) == 0;
}

int
mkdir(const char *path, mode_t mode)
{
	char parent[512];
	int ret = (int)syscall(SYS_mkdir, path, mode);

	if (ret == 0 && in_tree(path) && strstr(path, "caisson-") != NULL) {
		snprintf(parent, sizeof(parent), "%s", path);
		*strrchr(parent, '/') = '\0';
		fill(path, get(parent, "cgroup.subtree_control"), "");
		snprintf(parent, sizeof(parent), "%s/%s", path, missing != NULL ? missing : "");
		if (missing != NULL)
			unlink(parent);
	}
	return ret;
}

static void
empty_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		syscall(SYS_unlinkat, dirfd(d), e->d_name, 0);
	if (d != NULL)
		closedir(d);
}

static int
remove_group(int at, const char *path)
{
	if (busy != NULL && strstr(path, busy) != NULL) {
		errno = EBUSY;
		return -1;
	}
	empty_dir(at, path);
	return (int)syscall(SYS_unlinkat, at, path, AT_REMOVEDIR);
}

int
rmdir(const char *path)
{
	return in_tree(path) ? remove_group(AT_FDCWD, path) : (int)syscall(SYS_rmdir, path);
}

int
unlinkat(int at, const char *path, int flags)
{
	return flags == AT_REMOVEDIR && tree[0] != '\0' ? remove_group(at, path)
							 : (int)syscall(SYS_unlinkat, at, path, flags);
}

/* Another supervisor's sweep may come between the making of a group and its lock. */
int
flock(int fd, int operation)
{
	char link[64], path[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (sweeps > 0 && in_tree(path) && strstr(path, "caisson-") != NULL) {
		sweeps--;
		ck_assert_int_eq(remove_group(AT_FDCWD, path), 0);
	}
	return (int)syscall(SYS_flock, fd, operation);
}

/* A word such as "+memory" goes to the list, or is refused where processes are. */
ssize_t
write(int fd, const void *p, size_t n)
{
	char link[64], path[512], list[256], word[32];
	ssize_t len;
	char *at;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	at = strstr(path, "/cgroup.procs");
	if (in_tree(path) && at != NULL && n == 1 && *(const char *)p == '0')
		snprintf(place, sizeof(place), "%.*s", (int)(at - path), path);
	at = strstr(path, "/cgroup.subtree_control");
	if (!in_tree(path) || at == NULL || n == 0 || n >= sizeof(word) ||
	    (*(const char *)p != '+' && *(const char *)p != '-'))
		return syscall(SYS_write, fd, p, n);
	snprintf(word, sizeof(word), "%.*s", (int)n, (const char *)p);
	*at = '\0';
	if (*word == '+' && (occupied || strcmp(path, place) == 0)) {
		errno = EBUSY;
		return -1;
	}
	snprintf(list, sizeof(list), "%s", get(path, "cgroup.subtree_control"));
	if (*word == '-') {
		list[0] = '\0';
	} else {
		if (strstr(get(path, "cgroup.controllers"), word + 1) == NULL) {
			errno = ENOENT;
			return -1;
		}
		strncat(list, word + 1, sizeof(list) - strlen(list) - 1);
		strncat(list, " ", sizeof(list) - strlen(list) - 1);
	}
	put(path, "cgroup.subtree_control", list);
	return (ssize_t)n;
}

/* ---- scenes ---- */

/* TREE/unit/scope; each with these lists.  We are in `self`. */
static void
tree_make(const char *self, const char *subtree_top, const char *subtree_unit,
    const char *controllers_scope)
{
	char dir[128], line[128];

	snprintf(tree, sizeof(tree), "/tmp/caisson-cgroup-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(tree));
	fill(tree, "cpu io memory pids", subtree_top);
	snprintf(dir, sizeof(dir), "%s/unit", tree);
	mkdir(dir, 0755);
	fill(dir, subtree_top, subtree_unit);
	snprintf(dir, sizeof(dir), "%s/unit/scope", tree);
	mkdir(dir, 0755);
	fill(dir, controllers_scope, "");
	snprintf(self_file, sizeof(self_file), "%s.self", tree);
	snprintf(line, sizeof(line), "1:name=systemd:/elsewhere\n0::%s\n", self);
	put("/tmp", self_file + 5, line);
	snprintf(place, sizeof(place), "%s%s", tree, self);
}

static void
tree_remove(void)
{
	static const char *const dirs[] = { "/unit/scope", "/unit", "" };
	char dir[128];

	busy = NULL;
	for (size_t i = 0; i < countof(dirs); i++) {
		snprintf(dir, sizeof(dir), "%s%s", tree, dirs[i]);
		empty_dir(AT_FDCWD, dir);
		ck_assert_int_eq((int)syscall(SYS_rmdir, dir), 0);
	}
	unlink(self_file);
	tree[0] = '\0';
	occupied = false;
}

static int
count_groups(const char *where)
{
	char dir[256];
	struct dirent *e;
	DIR *d;
	int n = 0;

	snprintf(dir, sizeof(dir), "%s%s", tree, where);
	d = opendir(dir);
	while ((e = readdir(d)) != NULL)
		n += strncmp(e->d_name, "caisson-", 8) == 0;
	closedir(d);
	return n;
}

static struct cgroup_host *
look(void)
{
	struct cgroup_host *h;

	ck_assert_int_eq(cgroup_host_open(tree, self_file, &h), 0);
	return h;
}

static const struct cgroup_limits every = { .memory_bytes = 64 * MIB, .pids = 9,
	.cpu_percent = 50, .asked = CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU };
#define EVERYTHING (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU | CGROUP_IO | CGROUP_KILL)

/* ---- v2 ---- */

START_TEST(v2_applies_every_limit_in_the_nearest_group_that_can_divide)
{
	struct event_base *base = event_base_new();
	struct cgroup_entry e;
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu io memory pids", "cpu io memory pids", "");
	h = look();
	ck_assert_int_eq(cgroup_host_status(h)->backend, CGROUP_V2);
	ck_assert_str_eq(cgroup_backend_name(cgroup_host_status(h)->backend), "v2");
	ck_assert_uint_eq(cgroup_host_status(h)->abilities, EVERYTHING);
	ck_assert_str_eq(cgroup_host_status(h)->advice, "");
	ck_assert_str_eq(strstr(cgroup_host_status(h)->base, "/unit"), "/unit");
	ck_assert_int_eq(cgroup_create(h, base, &every, &g), 0);
	ck_assert_int_eq(count_groups("/unit"), 1);
	e = cgroup_entry(g);
	ck_assert_uint_eq(e.bounds, CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU);
	ck_assert_ptr_null(e.procs);
	ck_assert_str_eq(get(e.into, "memory.max"), "67108864");
	ck_assert_str_eq(get(e.into, "memory.swap.max"), "0");
	ck_assert_str_eq(get(e.into, "memory.oom.group"), "1");
	ck_assert_str_eq(get(e.into, "pids.max"), "9");
	ck_assert_str_eq(get(e.into, "cpu.max"), "50000 100000");
	cgroup_kill(g);
	ck_assert_str_eq(get(e.into, "cgroup.kill"), "1");
	cgroup_destroy(g);
	ck_assert_int_eq(count_groups("/unit"), 0);
	cgroup_host_close(h);
	tree_remove();
	event_base_free(base);
}
END_TEST

START_TEST(v2_counts_what_the_kernel_counted)
{
	struct cgroup_usage u;
	struct cgroup_host *h;
	struct cgroup *g;
	const char *dir;

	tree_make("/unit/scope", "cpu io memory pids", "cpu io memory pids", "");
	h = look();
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), 0);
	dir = cgroup_entry(g).into;
	cgroup_usage(g, &u);
	ck_assert_uint_eq(u.oom_kills, 0);
	ck_assert_uint_eq(u.pids_refused, 0);
	ck_assert_uint_eq(u.peak_bytes, CGROUP_UNTOLD);
	ck_assert_uint_eq(u.read_bytes, 0);
	put(dir, "memory.events", "max 7\noom 3\noom_kill 2\noom_group_kill 1\n");
	put(dir, "pids.events", "max 5\n");
	put(dir, "memory.peak", "123456\n");
	put(dir, "pids.peak", "4\n");
	put(dir, "cpu.stat", "usage_usec 77\nuser_usec 50\nsystem_usec 27\n");
	put(dir, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=99 dios=1\n"
			    "8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n");
	cgroup_usage(g, &u);
	ck_assert_int_eq(u.backend, CGROUP_V2);
	ck_assert_uint_eq(u.oom_kills, 2);
	ck_assert_uint_eq(u.pids_refused, 5);
	ck_assert_uint_eq(u.peak_bytes, 123456);
	ck_assert_uint_eq(u.processes, 4);
	ck_assert_uint_eq(u.cpu_us, 77);
	ck_assert_uint_eq(u.read_bytes, 11);
	ck_assert_uint_eq(u.written_bytes, 22);
	cgroup_destroy(g);
	cgroup_usage(NULL, &u);
	ck_assert_int_eq(u.backend, CGROUP_NONE);
	ck_assert_uint_eq(u.oom_kills, CGROUP_UNTOLD);
	cgroup_host_close(h);
	tree_remove();
}
END_TEST

START_TEST(v2_divides_its_own_group_and_goes_into_a_leaf)
{
	char own[128];
	struct cgroup_host *h;
	struct cgroup *g;

	/* A unit with Delegate=yes: nothing above it can be used. */
	tree_make("/unit/scope", "", "", "cpu memory pids");
	occupied = true; /* until we have left it */
	h = look();
	ck_assert_int_eq(cgroup_host_status(h)->backend, CGROUP_NONE);
	ck_assert_str_ne(cgroup_host_status(h)->advice, "");
	ck_assert_int_eq(count_groups("/unit/scope"), 0); /* others stayed: in vain */
	cgroup_host_close(h);

	occupied = false;
	snprintf(own, sizeof(own), "%s/unit/scope", tree);
	h = look();
	ck_assert_int_eq(cgroup_host_status(h)->backend, CGROUP_V2);
	ck_assert_uint_eq(cgroup_host_status(h)->abilities, EVERYTHING & ~CGROUP_IO);
	ck_assert_ptr_nonnull(strstr(cgroup_host_status(h)->advice, "Delegate=yes"));
	ck_assert_str_eq(cgroup_host_status(h)->base, own);
	ck_assert_ptr_nonnull(strstr(place, "scope/caisson-"));
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), 0);
	cgroup_destroy(g);
	cgroup_host_close(h);
	ck_assert_int_eq(count_groups("/unit/scope"), 0);
	ck_assert_str_eq(get(own, "cgroup.subtree_control"), "");
	ck_assert_str_eq(place, own); /* back again */
	tree_remove();
}
END_TEST

START_TEST(v2_without_the_cpu_controller_refuses_a_share_and_bounds_the_rest)
{
	struct cgroup_limits l = every;
	struct cgroup_host *h;
	struct cgroup *g = (struct cgroup *)&l;

	tree_make("/unit/scope", "memory pids", "memory pids", "");
	h = look();
	ck_assert_uint_eq(
	    cgroup_host_status(h)->abilities, CGROUP_MEMORY | CGROUP_PIDS | CGROUP_KILL);
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), -ENOTSUP);
	ck_assert_ptr_null(g);
	l.cpu_percent = 0;
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), 0);
	ck_assert_uint_eq(cgroup_entry(g).bounds, CGROUP_MEMORY | CGROUP_PIDS);
	cgroup_destroy(g);
	cgroup_host_close(h);
	tree_remove();
}
END_TEST

START_TEST(v2_makes_a_group_for_defaults_too_and_counts_in_it)
{
	const struct cgroup_limits l = { .pids = 100 };
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu io memory pids", "cpu io memory pids", "");
	h = look();
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), 0);
	ck_assert_uint_eq(cgroup_entry(g).bounds, CGROUP_PIDS);
	ck_assert_str_eq(get(cgroup_entry(g).into, "memory.max"), "");
	cgroup_destroy(g);
	cgroup_host_close(h);
	tree_remove();
}
END_TEST

START_TEST(a_limit_that_cannot_be_written_is_an_error_and_leaves_nothing)
{
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu memory pids", "cpu memory pids", "");
	h = look();
	missing = "pids.max"; /* on the list of controllers, and the file is not there */
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), -ENOENT);
	ck_assert_ptr_null(g);
	ck_assert_int_eq(count_groups("/unit"), 0);
	missing = "memory.swap.max"; /* a kernel that does not count swap */
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), 0);
	cgroup_destroy(g);
	missing = "cgroup.kill"; /* no more than a help: the pid namespace is what kills */
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), 0);
	cgroup_kill(g);
	cgroup_destroy(g);
	missing = NULL;
	cgroup_host_close(h);
	tree_remove();
}
END_TEST

START_TEST(a_group_that_a_sweep_took_before_it_was_locked_is_made_again)
{
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu memory pids", "cpu memory pids", "");
	h = look();
	sweeps = 2;
	ck_assert_int_eq(cgroup_create(h, NULL, &every, &g), 0);
	ck_assert_int_eq(sweeps, 0);
	ck_assert_int_eq(count_groups("/unit"), 1);
	ck_assert_str_eq(get(cgroup_entry(g).into, "pids.max"), "9");
	cgroup_destroy(g);
	ck_assert_int_eq(count_groups("/unit"), 0);
	cgroup_host_close(h);
	tree_remove();
}
END_TEST

START_TEST(a_busy_group_is_removed_when_it_says_that_it_is_empty)
{
	struct event_base *base = event_base_new();
	char into[256];
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu memory pids", "cpu memory pids", "");
	h = look();
	ck_assert_int_eq(cgroup_create(h, base, &every, &g), 0);
	snprintf(into, sizeof(into), "%s", cgroup_entry(g).into);
	busy = "caisson-";
	cgroup_destroy(g);
	ck_assert_int_eq(count_groups("/unit"), 1);
	put(into, "cgroup.events", "populated 1\nfrozen 0\n"); /* an event, and busy yet */
	event_base_loop(base, EVLOOP_ONCE);
	ck_assert_int_eq(count_groups("/unit"), 1);
	busy = NULL;
	put(into, "cgroup.events", "populated 0\nfrozen 0\n");
	event_base_dispatch(base); /* ends, as nothing is watched any more */
	ck_assert_int_eq(count_groups("/unit"), 0);
	cgroup_host_close(h);
	event_base_free(base);
	tree_remove();
}
END_TEST

START_TEST(a_busy_group_is_removed_with_a_later_one_or_left_to_the_next_supervisor)
{
	struct event_base *base = event_base_new();
	struct cgroup_host *h;
	struct cgroup *g;

	tree_make("/unit/scope", "cpu memory pids", "cpu memory pids", "");
	h = look();
	ck_assert_int_eq(cgroup_create(h, base, &every, &g), 0);
	busy = "caisson-";
	cgroup_destroy(g);
	busy = NULL;
	ck_assert_int_eq(cgroup_create(h, base, &every, &g), 0);
	ck_assert_int_eq(count_groups("/unit"), 1);
	busy = "caisson-";
	cgroup_destroy(g);
	cgroup_host_close(h);
	ck_assert_int_eq(count_groups("/unit"), 1);
	busy = NULL;
	h = look();
	ck_assert_int_eq(count_groups("/unit"), 0);
	cgroup_host_close(h);
	event_base_free(base);
	tree_remove();
}
END_TEST

START_TEST(what_a_killed_supervisor_left_is_swept_and_what_a_living_one_has_is_not)
{
	struct cgroup_host *mine, *next;
	struct cgroup *g;
	int ready[2];
	pid_t pid;
	char byte;

	tree_make("/unit/scope", "cpu memory pids", "cpu memory pids", "");
	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		cgroup_create(look(), NULL, &every, &g);
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	mine = look();
	ck_assert_int_eq(cgroup_create(mine, NULL, &every, &g), 0);
	ck_assert_int_eq(count_groups("/unit"), 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	next = look();
	ck_assert_int_eq(count_groups("/unit"), 1); /* its own: mine */
	cgroup_host_close(next);
	cgroup_destroy(g);
	cgroup_host_close(mine);
	close(ready[0]);
	close(ready[1]);
	tree_remove();
}
END_TEST

/* ---- none ---- */

START_TEST(without_cgroups_nothing_is_made_and_a_share_is_refused)
{
	struct cgroup_limits l = every;
	struct cgroup_host *h;
	struct cgroup *g;

	ck_assert_int_eq(cgroup_host_open("/nonexistent", "/nonexistent", &h), 0);
	ck_assert_int_eq(cgroup_host_status(h)->backend, CGROUP_NONE);
	ck_assert_uint_eq(cgroup_host_status(h)->abilities, 0);
	ck_assert_str_ne(cgroup_host_status(h)->advice, "");
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), -ENOTSUP);
	l.cpu_percent = 0;
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), 0);
	ck_assert_ptr_null(g);
	ck_assert_uint_eq(cgroup_entry(g).bounds, 0);
	cgroup_kill(g);
	cgroup_destroy(g);
	cgroup_host_close(h);
	cgroup_host_close(NULL);
}
END_TEST

/* ---- v1, and the bare v2 beside it, for real ---- */

static bool
v1_is_here(void)
{
	return geteuid() == 0 && access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0 &&
	    access("/sys/fs/cgroup/pids", F_OK) == 0;
}

static void
put_pid(const char *path, pid_t pid)
{
	char text[16];
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	snprintf(text, sizeof(text), "%d", (int)pid);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void
hog(void)
{
	for (size_t n = 0; n < 256; n++)
		memset(malloc(MIB), 1, MIB);
}

static void
fork_until_refused(void)
{
	for (int i = 0; i < 64; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		if (pid < 0)
			_exit(errno == EAGAIN ? 7 : 8);
	}
	_exit(9);
}

/* Runs `f` in the group, killed at its end; its status. */
static siginfo_t
run_in(struct cgroup *g, void (*f)(void))
{
	struct cgroup_entry e = cgroup_entry(g);
	struct clone_args a = { .exit_signal = SIGCHLD };
	int gate[2], fd = -1;
	siginfo_t si;
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	if (e.into != NULL) {
		fd = open(e.into, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		a.flags = CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)fd;
	}
	pid = kernel_clone3(&a);
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		f();
		_exit(0);
	}
	for (size_t i = 0; e.procs != NULL && e.procs[i] != NULL; i++)
		put_pid(e.procs[i], pid);
	close(gate[0]);
	close(gate[1]);
	util_close(&fd);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	return si;
}

START_TEST(v1_kills_for_memory_and_says_so)
{
	const struct cgroup_limits l = { .memory_bytes = 32 * MIB, .asked = CGROUP_MEMORY };
	struct cgroup_host *h;
	struct cgroup_usage u;
	struct cgroup *g;
	siginfo_t si;

	ck_assert_int_eq(cgroup_host_open("/sys/fs/cgroup", "/proc/self/cgroup", &h), 0);
	ck_assert_int_eq(cgroup_host_status(h)->backend, CGROUP_V1);
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), 0);
	ck_assert_uint_eq(cgroup_entry(g).bounds, CGROUP_MEMORY);
	si = run_in(g, hog);
	ck_assert_int_eq(si.si_code, CLD_KILLED);
	ck_assert_int_eq(si.si_status, SIGKILL);
	cgroup_usage(g, &u);
	ck_assert_int_eq(u.backend, CGROUP_V1);
	ck_assert_uint_ge(u.oom_kills, 1);
	ck_assert_uint_ge(u.peak_bytes, 31 * MIB);
	ck_assert_uint_le(u.peak_bytes, 32 * MIB);
	ck_assert_uint_eq(u.pids_refused, CGROUP_UNTOLD);
	cgroup_destroy(g);
	cgroup_host_close(h);
}
END_TEST

START_TEST(v1_refuses_a_fork_and_says_so_and_kills_what_is_there)
{
	const struct cgroup_limits l = { .pids = 4, .asked = CGROUP_PIDS };
	struct event_base *base = event_base_new();
	struct cgroup_host *h;
	struct cgroup_usage u;
	struct cgroup *g;
	siginfo_t si;

	ck_assert_int_eq(cgroup_host_open("/sys/fs/cgroup", "/proc/self/cgroup", &h), 0);
	ck_assert_int_eq(cgroup_create(h, base, &l, &g), 0);
	ck_assert_uint_eq(cgroup_entry(g).bounds, CGROUP_PIDS);
	si = run_in(g, fork_until_refused);
	ck_assert_int_eq(si.si_code, CLD_EXITED);
	ck_assert_int_eq(si.si_status, 7);
	cgroup_usage(g, &u);
	ck_assert_uint_eq(u.pids_refused, 1);
	ck_assert_uint_eq(u.processes, 4);
	ck_assert_uint_eq(u.oom_kills, CGROUP_UNTOLD);
	ck_assert_ptr_nonnull(cgroup_entry(g).into);
	ck_assert_uint_ne(u.cpu_us, CGROUP_UNTOLD);
	/* Its children are orphans that nobody here knows: busy, until the kill has come. */
	cgroup_kill(g);
	cgroup_destroy(g);
	event_base_dispatch(base);
	cgroup_host_close(h);
	event_base_free(base);
	ck_assert_int_eq(cgroup_host_open("/sys/fs/cgroup", "/proc/self/cgroup", &h), 0);
	cgroup_host_close(h);
}
END_TEST

START_TEST(v1_makes_no_group_for_what_nobody_asked_for)
{
	const struct cgroup_limits l = { .pids = 100, .memory_bytes = 64 * MIB };
	struct cgroup_host *h;
	struct cgroup *g;

	ck_assert_int_eq(cgroup_host_open("/sys/fs/cgroup", "/proc/self/cgroup", &h), 0);
	ck_assert_int_eq(cgroup_create(h, NULL, &l, &g), 0);
	ck_assert_ptr_null(g);
	cgroup_host_close(h);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("cgroup");
	TCase *v2 = tcase_create("v2"), *v1 = tcase_create("v1");
	SRunner *runner;
	int failed;

	tcase_add_test(v2, v2_applies_every_limit_in_the_nearest_group_that_can_divide);
	tcase_add_test(v2, v2_counts_what_the_kernel_counted);
	tcase_add_test(v2, v2_divides_its_own_group_and_goes_into_a_leaf);
	tcase_add_test(v2, v2_without_the_cpu_controller_refuses_a_share_and_bounds_the_rest);
	tcase_add_test(v2, v2_makes_a_group_for_defaults_too_and_counts_in_it);
	tcase_add_test(v2, a_limit_that_cannot_be_written_is_an_error_and_leaves_nothing);
	tcase_add_test(v2, a_group_that_a_sweep_took_before_it_was_locked_is_made_again);
	tcase_add_test(v2, a_busy_group_is_removed_when_it_says_that_it_is_empty);
	tcase_add_test(
	    v2, a_busy_group_is_removed_with_a_later_one_or_left_to_the_next_supervisor);
	tcase_add_test(
	    v2, what_a_killed_supervisor_left_is_swept_and_what_a_living_one_has_is_not);
	tcase_add_test(v2, without_cgroups_nothing_is_made_and_a_share_is_refused);
	suite_add_tcase(suite, v2);
	if (v1_is_here()) {
		tcase_add_test(v1, v1_kills_for_memory_and_says_so);
		tcase_add_test(v1, v1_refuses_a_fork_and_says_so_and_kills_what_is_there);
		tcase_add_test(v1, v1_makes_no_group_for_what_nobody_asked_for);
		suite_add_tcase(suite, v1);
	} else {
		puts("skip: v1 takes root and its memory and pids controllers");
	}
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
