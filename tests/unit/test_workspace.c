/* workspace: directories of sessions, by number: made, found, shown by children, removed. */
#include "supervisor/workspace.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/children.h"

#define LIMIT 3
#define SOME  256 /* over it that are let pass */

static struct event_base *base;
static struct workspaces *all;
static struct children *children;
static struct conf_namespace config;
static char dir[32], path[64];
static int dir_fd, idles, empties, told_count;
static struct control told[512];
static struct exit_facts ended;
static struct control last; /* of a child: CONTROL_EXIT or CONTROL_REFUSED */
static bool has_ended;

/* ---- the world --------------------------------------------------------------------- */

static void
on_tell(const struct control *c, void *arg)
{
	ck_assert_ptr_null(arg);
	ck_assert_int_lt(told_count, (int)countof(told));
	told[told_count++] = *c;
}

static void
on_idle(void *arg)
{
	(void)arg;
	idles++;
}

static const struct workspaces_handler handler = { .tell = on_tell, .on_idle = on_idle };

static const struct workspaces_bounds bounds = { .count = LIMIT };

static void
open_all(void)
{
	all = workspaces_create(base, dir_fd, path, &bounds, &handler, NULL);
	ck_assert_ptr_nonnull(all);
	told_count = 0;
}

static void
setup(void)
{
	strcpy(dir, "/tmp/caisson-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/workspaces", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
	base = event_base_new();
	ck_assert_ptr_nonnull(base);
	log_init("test", LOG_ERROR_);
	idles = empties = 0;
	open_all();
}

static int
remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_D || type == FTW_DNR) /* on the way down: what is in it can be read then */
		chmod(name, 0700);
	else
		remove(name);
	return 0;
}

static int
remove_dir(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	(void)type;
	return remove(name) < 0 && errno != ENOTEMPTY;
}

static void
teardown(void)
{
	workspaces_destroy(all);
	cgroup_host_finish();
	event_base_free(base);
	close(dir_fd);
	nftw(dir, remove_one, 16, FTW_PHYS);
	nftw(dir, remove_dir, 16, FTW_DEPTH | FTW_PHYS);
	conf_finish(&config);
}

static void
turn(void)
{
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

/* The one that was told last. */
static void
check_told(enum control_verb verb, uint64_t number, int error)
{
	ck_assert_int_gt(told_count, 0);
	ck_assert_uint_eq(told[told_count - 1].verb, verb);
	ck_assert_uint_eq(told[told_count - 1].workspace, number);
	ck_assert_int_eq(told[told_count - 1].error, error);
}

static bool
is_there(const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void
make(uint64_t number)
{
	ck_assert_int_eq(workspaces_make(all, number), 0);
	check_told(CONTROL_WORKSPACE_MADE, number, 0);
}

static void
write_into(const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* ---- orders ------------------------------------------------------------------------ */

START_TEST(one_is_a_directory_of_its_own_until_it_is_dropped)
{
	struct stat st;

	make(0xabc);
	make(UINT64_MAX);
	ck_assert_int_eq(fstatat(dir_fd, "0000000000000abc", &st, 0), 0);
	ck_assert(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0700);
	ck_assert(is_there("ffffffffffffffff"));
	ck_assert_int_eq(workspaces_drop(all, 0xabc), 0);
	check_told(CONTROL_WORKSPACE_GONE, 0xabc, 0);
	ck_assert(!is_there("0000000000000abc") && is_there("ffffffffffffffff"));
	/* Its number is free again. */
	make(0xabc);
}
END_TEST

START_TEST(orders_of_no_sound_broker_are_told_apart)
{
	char where[WORKSPACE_PATH_MAX];

	ck_assert_int_eq(workspaces_make(all, 0), -EPROTO);
	ck_assert_int_eq(workspaces_drop(all, 0), -EPROTO);
	ck_assert_int_eq(workspaces_drop(all, 5), -EPROTO);
	make(5);
	ck_assert_int_eq(workspaces_make(all, 5), -EPROTO);
	ck_assert(!workspaces_hold(all, 6) && workspaces_hold(all, 5));
	ck_assert_int_eq(workspaces_drop(all, 5), -EPROTO);
	ck_assert_int_eq(workspaces_path(all, 5, where), 0);
	ck_assert_str_eq(strrchr(where, '/'), "/0000000000000005");
	workspaces_release(all, 5);
	ck_assert_int_eq(workspaces_drop(all, 5), 0);
	ck_assert_int_eq(workspaces_drop(all, 5), -EPROTO);
	ck_assert(!workspaces_hold(all, 5));
}
END_TEST

START_TEST(more_than_the_limit_and_some_are_no_sound_brokers)
{
	static const struct workspaces_bounds fewer = { .count = 1 }, more = { .count = LIMIT + 1 };
	uint64_t n;

	for (n = 1; n <= LIMIT + SOME; n++)
		make(n);
	ck_assert_int_eq(workspaces_make(all, n), -EPROTO);
	/* One that goes makes room, and a configuration may allow more, or fewer. */
	ck_assert_int_eq(workspaces_drop(all, 1), 0);
	make(n);
	workspaces_limit(all, &fewer);
	ck_assert_int_eq(workspaces_make(all, n + 1), -EPROTO);
	workspaces_limit(all, &more);
	make(n + 1);
	ck_assert_int_eq(workspaces_make(all, n + 2), -EPROTO);
}
END_TEST

START_TEST(one_that_cannot_be_made_is_no_fault)
{
	write_into("0000000000000007"); /* nothing that we made */
	ck_assert_int_eq(workspaces_make(all, 7), 0);
	check_told(CONTROL_WORKSPACE_MADE, 7, EEXIST);
	ck_assert_int_eq(workspaces_drop(all, 7), -EPROTO);
}
END_TEST

/* ---- one daemon after another ------------------------------------------------------ */

START_TEST(the_next_start_finds_what_is_ours_and_nothing_else)
{
	static const char *const others[] = { "0000000000000ABC", "000000000000000", "x",
		"00000000000000001", "0000000000000000", "000000000000000g" };
	size_t i;

	make(1);
	make(0xdeadbeef00000002);
	for (i = 0; i < countof(others); i++)
		ck_assert_int_eq(mkdirat(dir_fd, others[i], 0700), 0);
	write_into("0000000000000003");
	ck_assert_int_eq(symlinkat("/", dir_fd, "0000000000000004"), 0);
	workspaces_destroy(all);
	open_all();
	ck_assert_int_eq(told_count, 0); /* until a broker is ready */
	workspaces_on_ready(all);
	ck_assert_int_eq(told_count, 2);
	for (i = 0; i < 2; i++)
		ck_assert_uint_eq(told[i].verb, CONTROL_WORKSPACE_FOUND);
	ck_assert(told[0].workspace != told[1].workspace);
	/* They are as good as those that were made. */
	ck_assert(workspaces_hold(all, 0xdeadbeef00000002));
	workspaces_release(all, 0xdeadbeef00000002);
	ck_assert_int_eq(workspaces_drop(all, 0xdeadbeef00000002), 0);
	check_told(CONTROL_WORKSPACE_GONE, 0xdeadbeef00000002, 0);
	ck_assert_int_eq(workspaces_drop(all, 3), -EPROTO);
	ck_assert_int_eq(workspaces_drop(all, 4), -EPROTO);
	ck_assert(is_there("0000000000000001") && !is_there("deadbeef00000002"));
}
END_TEST

/* The chamber of what would empty it cannot be had: it stays, and is told of once. */
START_TEST(one_that_cannot_be_removed_is_left_for_the_next_start)
{
	make(1);
	write_into("0000000000000001/x");
	workspaces_destroy(all);
	all = workspaces_create(base, dir_fd, "/nonexistent", &bounds, &handler, NULL);
	ck_assert_ptr_nonnull(all);
	ck_assert_int_eq(workspaces_drop(all, 1), 0);
	while (!workspaces_idle(all))
		turn();
	check_told(CONTROL_WORKSPACE_GONE, 1, told[told_count - 1].error);
	ck_assert_int_ne(told[told_count - 1].error, 0);
	ck_assert(is_there("0000000000000001"));
	told_count = 0;
	workspaces_on_ready(all);
	ck_assert_int_eq(told_count, 0);
	ck_assert_int_eq(workspaces_make(all, 1), 0);
	check_told(CONTROL_WORKSPACE_MADE, 1, EEXIST);
	workspaces_destroy(all);
	open_all();
	workspaces_on_ready(all);
	check_told(CONTROL_WORKSPACE_FOUND, 1, 0);
}
END_TEST

START_TEST(a_broker_that_is_gone_hears_of_nothing)
{
	make(1);
	write_into("0000000000000001/x");
	ck_assert_int_eq(workspaces_drop(all, 1), 0);
	told_count = 0;
	workspaces_on_gone(all);
	workspaces_on_ready(all); /* the next one: it is on its way out */
	workspaces_end(all);
	while (!workspaces_idle(all))
		turn();
	ck_assert_int_eq(told_count, 0);
	ck_assert_int_eq(idles, 1);
	/* It was ended half-way, or before: the next start goes on. */
	ck_assert(is_there("0000000000000001"));
}
END_TEST

/* ---- what untrusted programs leave ------------------------------------------------- */

#define DEPTH 3000 /* far longer than any path may be */

static void
leave_names(int at)
{
	char name[256];
	int c;

	for (c = 1; c < 256; c++) {
		if (c == '/' || c == '.')
			continue;
		snprintf(name, sizeof(name), "%c-\n\033[2J", c);
		close(openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	memset(name, 'n', 255);
	name[255] = '\0';
	ck_assert_int_eq(mkdirat(at, name, 0700), 0);
	ck_assert_int_eq(mkdirat(at, "...", 0700), 0);
	ck_assert_int_eq(mkdirat(at, "-rf *", 0700), 0);
}

static void
leave_links(int at, const char *outside)
{
	char to[96];

	snprintf(to, sizeof(to), "%s/kept", outside);
	ck_assert_int_eq(symlinkat(outside, at, "outside"), 0);
	ck_assert_int_eq(symlinkat("..", at, "up"), 0);
	ck_assert_int_eq(symlinkat("self", at, "self"), 0);
	ck_assert_int_eq(symlinkat("/nonexistent", at, "nowhere"), 0);
	ck_assert_int_eq(linkat(AT_FDCWD, to, at, "hard", 0), 0);
	ck_assert_int_eq(linkat(AT_FDCWD, to, at, "harder", 0), 0);
	ck_assert_int_eq(mkfifoat(at, "fifo", 0600), 0);
}

/* What its owner has taken every right from. */
static void
leave_closed(int at)
{
	ck_assert_int_eq(mkdirat(at, "closed", 0700), 0);
	ck_assert_int_eq(mkdirat(at, "closed/in it", 0700), 0);
	close(openat(at, "closed/in it/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0));
	ck_assert_int_eq(fchmodat(at, "closed/in it", 0, 0), 0);
	ck_assert_int_eq(fchmodat(at, "closed", 0, 0), 0);
	ck_assert_int_eq(mkdirat(at, "read only", 0700), 0);
	close(openat(at, "read only/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0400));
	ck_assert_int_eq(fchmodat(at, "read only", 0500, 0), 0);
}

static void
leave_depth(int at)
{
	int i, fd = fcntl(at, F_DUPFD_CLOEXEC, 0), next;

	for (i = 0; i < DEPTH; i++) {
		ck_assert_int_eq(mkdirat(fd, "deep", 0700), 0);
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		close(fd);
		fd = next;
	}
	close(openat(fd, "x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	close(fd);
}

START_TEST(whatever_is_in_one_goes_with_it_and_nothing_else)
{
	char outside[80], kept[96];
	struct stat st;
	int at;

	snprintf(outside, sizeof(outside), "%s/outside", dir);
	snprintf(kept, sizeof(kept), "%s/kept", outside);
	ck_assert_int_eq(mkdir(outside, 0700), 0);
	close(open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	make(1);
	make(2);
	write_into("0000000000000002/mine");
	at = openat(dir_fd, "0000000000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(at, 0);
	leave_names(at);
	leave_links(at, outside);
	leave_closed(at);
	leave_depth(at);
	ck_assert_int_eq(fchmod(at, 0), 0); /* its own root, too */
	close(at);
	told_count = 0;
	ck_assert_int_eq(workspaces_drop(all, 1), 0);
	ck_assert(!workspaces_idle(all) && told_count == 0);
	while (told_count == 0)
		turn();
	check_told(CONTROL_WORKSPACE_GONE, 1, 0);
	ck_assert(!is_there("0000000000000001") && is_there("0000000000000002/mine"));
	ck_assert_int_eq(stat(kept, &st), 0);
	ck_assert_uint_eq(st.st_nlink, 1);
	ck_assert_int_eq(idles, 1);
}
END_TEST

/* Each is a chamber: few at once, and none is forgotten. */
START_TEST(many_that_go_at_once_all_go)
{
	char name[32];
	uint64_t n;

	for (n = 1; n <= 30; n++) {
		make(n);
		snprintf(name, sizeof(name), "%016jx/x", (uintmax_t)n);
		write_into(name);
	}
	told_count = 0;
	for (n = 1; n <= 30; n++)
		ck_assert_int_eq(workspaces_drop(all, n), 0);
	while (told_count < 30 || !workspaces_idle(all))
		turn();
	for (n = 0; n < 30; n++) {
		ck_assert_uint_eq(told[n].verb, CONTROL_WORKSPACE_GONE);
		ck_assert_int_eq(told[n].error, 0);
	}
	workspaces_destroy(all);
	open_all();
	workspaces_on_ready(all);
	ck_assert_int_eq(told_count, 0);
}
END_TEST

/* ---- children that show one -------------------------------------------------------- */

static void
on_child(const struct control *c, int *fds, unsigned nfds, void *arg)
{
	unsigned i;

	(void)arg;
	for (i = 0; i < nfds; i++)
		close(fds[i]);
	if (c->verb == CONTROL_EXIT)
		ended = c->exit;
	if (c->verb == CONTROL_REFUSED || c->verb == CONTROL_EXIT) {
		has_ended = true;
		last = *c;
	}
}

static void
on_empty(void *arg)
{
	(void)arg;
	empties++;
}

static const struct children_handler children_handler = { .tell = on_child,
	.on_empty = on_empty };

static void
describe(const char *text)
{
	char err[CONF_ERROR_MAX];

	ck_assert_msg(conf_read("c.yaml", text, strlen(text), &config, err) == 0, "%s", err);
	children =
	    children_create(base, &config, operation_kind_turn, NULL, &children_handler, NULL);
	ck_assert_ptr_nonnull(children);
	children_show(children, all);
}

static struct control
order(enum child_kind kind, uint32_t index, uint64_t workspace)
{
	return (struct control){ .verb = CONTROL_SPAWN,
		.session = 9,
		.kind = kind,
		.index = index,
		.workspace = workspace };
}

static void
wait_for_child(void)
{
	while (!has_ended)
		turn();
}

static void
run(enum child_kind kind, uint32_t index, uint64_t workspace)
{
	struct control c = order(kind, index, workspace);

	has_ended = false;
	ck_assert_int_eq(children_spawn(children, &c), 0);
	wait_for_child();
	ck_assert_uint_eq(last.verb, CONTROL_EXIT);
	ck_assert_int_eq(ended.kind, EXIT_EXITED);
	ck_assert_int_eq(ended.status, 0);
}

#define SHELL(script, more)                                                                    \
	"version: 1\nruntimes:\n  - { id: a, command: [/bin/sh, -c, '" script "']" more " }\n"

START_TEST(a_runtime_reads_and_writes_its_session_s_alone)
{
	struct stat st;

	describe(SHELL("set -e; exec 2>/dev/null; test \"$PWD\" = /workspace; echo mine > written; chmod 600 written; "
		       "test ! -e ../workspace/other; ! echo x > /usr/x; test \"$(ls / | grep -c "
		       "workspace)\" = 1", ", workspace: true"));
	make(1);
	make(2);
	write_into("0000000000000002/other");
	run(CHILD_TURN, 0, 1);
	ck_assert_int_eq(fstatat(dir_fd, "0000000000000001/written", &st, 0), 0);
	/* Whoever it was in there, outside it is the directory's owner who wrote it. */
	ck_assert_uint_eq(st.st_uid, geteuid());
	ck_assert_int_eq(st.st_size, 5);
	/* The next one of the same session finds it. */
	children_destroy(children);
	conf_finish(&config);
	describe(SHELL("test \"$(cat written)\" = mine", ", workspace: true"));
	run(CHILD_TURN, 0, 1);
	/* One that was not to show any shows none, whatever the session has. */
	children_destroy(children);
	conf_finish(&config);
	describe(SHELL("test ! -e /workspace", ""));
	run(CHILD_TURN, 0, 1);
	children_destroy(children);
}
END_TEST

START_TEST(one_that_is_shown_is_not_dropped)
{
	struct control c = order(CHILD_TURN, 0, 1);

	describe(SHELL("read x", ", workspace: true"));
	make(1);
	ck_assert_int_eq(children_spawn(children, &c), 0);
	ck_assert_int_eq(workspaces_drop(all, 1), -EPROTO);
	has_ended = false;
	children_kill_all(children, ENDING_shutdown);
	wait_for_child();
	ck_assert_int_eq(workspaces_drop(all, 1), 0);
	children_destroy(children);
}
END_TEST

/* Of the numbers of a spawn, which a broker that is no longer ours could choose. */
START_TEST(a_child_shows_only_what_was_made_for_sessions)
{
	const struct {
		struct control order;
		int expected;
		uint32_t layer; /* of a refusal */
	} rows[] = {
		{ order(CHILD_TURN, 0, 2), -EPROTO, 0 },
		{ order(CHILD_TURN, 0, 0), 0, LAYER_SOURCES },
		{ order(CHILD_PROVIDER, 0, 2), -EPROTO, 0 },
		{ order(CHILD_PROVIDER, 0, 0), 0, LAYER_SOURCES },
		{ order(CHILD_WORKSPACE, 0, 2), -EPROTO, 0 },
		{ order(CHILD_WORKSPACE, 0, 0), -EPROTO, 0 },
		{ order(CHILD_WORKSPACE, 1, 1), -EPROTO, 0 },
		{ order(CHILD_WORKSPACE + 1, 0, 1), -EPROTO, 0 },
	};
	size_t i;

	describe(SHELL("true", ", workspace: true") "providers: [{ id: files, builtin: files, "
						    "workspace: true }]\n");
	make(1);
	for (i = 0; i < countof(rows); i++) {
		has_ended = false;
		ck_assert_int_eq(children_spawn(children, &rows[i].order), rows[i].expected);
		ck_assert(has_ended == (rows[i].expected == 0));
		if (has_ended) {
			ck_assert_uint_eq(last.verb, CONTROL_REFUSED);
			ck_assert_uint_eq(last.layer, rows[i].layer);
		}
		ck_assert(children_empty(children));
	}
	run(CHILD_TURN, 0, 1);
	children_show(children, NULL); /* a private run has none */
	ck_assert_int_eq(children_spawn(children, &rows[4].order), -EPROTO);
	children_destroy(children);
}
END_TEST

static void
all_tests(TCase *orders, TCase *starts, TCase *shown)
{
	tcase_add_test(orders, one_is_a_directory_of_its_own_until_it_is_dropped);
	tcase_add_test(orders, orders_of_no_sound_broker_are_told_apart);
	tcase_add_test(orders, more_than_the_limit_and_some_are_no_sound_brokers);
	tcase_add_test(orders, one_that_cannot_be_made_is_no_fault);
	tcase_add_test(starts, the_next_start_finds_what_is_ours_and_nothing_else);
	tcase_add_test(starts, one_that_cannot_be_removed_is_left_for_the_next_start);
	tcase_add_test(starts, a_broker_that_is_gone_hears_of_nothing);
	tcase_add_test(starts, whatever_is_in_one_goes_with_it_and_nothing_else);
	tcase_add_test(starts, many_that_go_at_once_all_go);
	tcase_add_test(shown, a_runtime_reads_and_writes_its_session_s_alone);
	tcase_add_test(shown, one_that_is_shown_is_not_dropped);
	tcase_add_test(shown, a_child_shows_only_what_was_made_for_sessions);
}

int
main(void)
{
	Suite *s = suite_create("workspace");
	TCase *cases[] = { tcase_create("orders"), tcase_create("starts"), tcase_create("shown") };
	SRunner *runner;
	int failed;
	size_t i;

	all_tests(cases[0], cases[1], cases[2]);
	for (i = 0; i < countof(cases); i++) {
		tcase_add_checked_fixture(cases[i], setup, teardown);
		tcase_set_timeout(cases[i], 60);
		suite_add_tcase(s, cases[i]);
	}
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
