/* listen: who is let in, and how many; a name that is somebody's. */
#include "supervisor/listen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include <check.h>

#include "common/rlimit.h"
#include "common/util.h"

static char dir[64], path[96], err[LISTEN_ERROR_MAX];
static struct event_base *base;
static struct listen *l;
static int taken[LISTEN_MAX + 64];
static size_t ntaken;
static struct ucred last;

static void
on_client(int fd, const struct ucred *peer, void *arg)
{
	ck_assert_ptr_eq(arg, &last);
	last = *peer;
	taken[ntaken++] = fd;
}

static struct listen_options
options(uid_t operator_uid)
{
	return (struct listen_options){
		.path = path, .operator_uid = operator_uid, .on_client = on_client, .arg = &last
	};
}

static void
setup(void)
{
	strlcpy(dir, "/tmp/test_listen-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/d.sock", dir);
	base = event_base_new();
	ck_assert_int_eq(event_base_priority_init(base, LISTEN_PRIORITIES), 0);
	rlimit_raise_descriptors(); /* two for each connection */
	ntaken = 0;
	l = NULL;
}

static void
teardown(void)
{
	while (ntaken > 0)
		close(taken[--ntaken]);
	listen_close(l);
	event_base_free(base);
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

static void
open_for(uid_t operator_uid)
{
	struct listen_options o = options(operator_uid);

	ck_assert_msg(listen_open(base, &o, &l, err) == 0, "%s", err);
}

static int
dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void
turn(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* Has the other end been closed? */
static bool
is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* The uid that a connection of ours has is never that of a stranger's when we are root. */
static uid_t
somebody_else(void)
{
	return geteuid() + 1;
}

/* Who it is, the kernel says (D-14). */
START_TEST(who_connects_waits_until_it_is_served)
{
	int fd;

	open_for(geteuid());
	fd = dial();
	ck_assert_int_ge(fd, 0);
	turn();
	ck_assert_uint_eq(ntaken, 0);
	listen_resume(l);
	turn();
	ck_assert_uint_eq(ntaken, 1);
	ck_assert_uint_eq(last.uid, geteuid());
	ck_assert_int_eq(last.pid, getpid());
	ck_assert_int_eq(fcntl(taken[0], F_GETFD), FD_CLOEXEC);
	ck_assert_int_ne(fcntl(taken[0], F_GETFL) & O_NONBLOCK, 0);
	close(fd);
}
END_TEST

static size_t
fill(int *fds, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		fds[i] = dial();
		ck_assert_int_ge(fds[i], 0);
		turn();
	}
	return ntaken;
}

START_TEST(the_operator_has_all_places_and_no_more)
{
	int fds[LISTEN_MAX + 1];
	size_t i;

	open_for(geteuid());
	listen_resume(l);
	ck_assert_uint_eq(fill(fds, LISTEN_MAX + 1), LISTEN_MAX);
	ck_assert(is_closed(fds[LISTEN_MAX]));
	ck_assert_int_eq(listen_gone(l, geteuid()), 0);
	close(fds[LISTEN_MAX]);
	fds[LISTEN_MAX] = dial();
	turn();
	ck_assert_uint_eq(ntaken, LISTEN_MAX + 1);
	for (i = 0; i < countof(fds); i++)
		close(fds[i]);
}
END_TEST

START_TEST(a_uid_that_is_not_the_operator_has_a_share)
{
	int fds[LISTEN_UID_MAX + 1];
	size_t i;

	if (geteuid() == 0) {
		fprintf(stderr, "skip: test_listen: root is always the operator\n");
		return;
	}
	open_for(somebody_else());
	listen_resume(l);
	ck_assert_uint_eq(fill(fds, LISTEN_UID_MAX + 1), LISTEN_UID_MAX);
	ck_assert(is_closed(fds[LISTEN_UID_MAX]));
	for (i = 0; i < countof(fds); i++)
		close(fds[i]);
}
END_TEST

START_TEST(an_end_that_never_began_is_a_fault)
{
	int fd;

	open_for(geteuid());
	listen_resume(l);
	ck_assert_int_eq(listen_gone(l, geteuid()), -EPROTO);
	fill(&fd, 1);
	ck_assert_int_eq(listen_gone(l, somebody_else()), -EPROTO);
	ck_assert_int_eq(listen_gone(l, geteuid()), 0);
	ck_assert_int_eq(listen_gone(l, geteuid()), -EPROTO);
	close(fd);
	/* All of a broker that is gone are. */
	fill(&fd, 1);
	listen_pause(l, true);
	ck_assert_int_eq(listen_gone(l, geteuid()), -EPROTO);
	close(fd);
}
END_TEST

START_TEST(who_was_not_taken_is_handed_on_again)
{
	int fds[3], i;

	open_for(geteuid());
	ck_assert_int_eq(listen_taken(l), -EPROTO);
	listen_resume(l);
	fill(fds, 3);
	ck_assert_int_eq(listen_taken(l), 0);
	/* A broker that dies closes what it was handed. */
	while (ntaken > 0)
		close(taken[--ntaken]);
	ck_assert(is_closed(fds[0]));
	ck_assert(!is_closed(fds[1]) && !is_closed(fds[2]));
	ck_assert_int_eq(write(fds[1], "1", 1), 1);
	ck_assert_int_eq(write(fds[2], "2", 1), 1);
	listen_pause(l, true);
	listen_resume(l);
	ck_assert_uint_eq(ntaken, 2);
	for (i = 1; i < 3; i++) {
		char byte = 0;

		ck_assert_int_eq(read(taken[i - 1], &byte, 1), 1);
		ck_assert_int_eq(byte, '0' + i);
		ck_assert_int_eq(listen_taken(l), 0);
		ck_assert_int_eq(listen_gone(l, geteuid()), 0);
	}
	ck_assert_int_eq(listen_taken(l), -EPROTO);
	ck_assert_int_eq(listen_gone(l, geteuid()), -EPROTO);
	for (i = 0; i < 3; i++)
		close(fds[i]);
}
END_TEST

START_TEST(without_descriptors_it_waits_and_goes_on)
{
	struct rlimit old, low;
	int fd, highest, i;

	open_for(geteuid());
	listen_resume(l);
	fd = dial();
	/* The number after ours: nothing can be accepted. */
	highest = dup(fd);
	close(highest);
	getrlimit(RLIMIT_NOFILE, &old);
	low = (struct rlimit){ (rlim_t)highest, old.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (i = 0; i < 3; i++)
		turn();
	ck_assert_uint_eq(ntaken, 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	while (ntaken == 0)
		event_base_loop(base, EVLOOP_ONCE); /* its timer is the event */
	close(fd);
}
END_TEST

START_TEST(a_name_is_held_by_one)
{
	struct listen_options o = options(geteuid());
	struct listen *other = NULL;
	char expected[64];

	open_for(geteuid());
	ck_assert_int_eq(listen_open(base, &o, &other, err), -EWOULDBLOCK);
	snprintf(expected, sizeof(expected), "is served by caissond, pid %d", (int)getpid());
	ck_assert_ptr_nonnull(strstr(err, expected));
	ck_assert_ptr_null(other);
	/* What it has refused is as it was. */
	ck_assert_int_eq(access(path, F_OK), 0);
	listen_close(l);
	l = NULL;
	ck_assert_int_eq(access(path, F_OK), -1);
	open_for(geteuid());
}
END_TEST

START_TEST(the_end_takes_only_its_own_name_away)
{
	int fd;

	open_for(geteuid());
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	listen_end(l);
	ck_assert_int_eq(access(path, F_OK), 0);
	listen_resume(l); /* it is over: nothing to resume */
	turn();
}
END_TEST

START_TEST(nothing_is_left_of_a_refusal)
{
	struct listen_options o = options(geteuid());
	struct dirent *e;
	DIR *d;
	int fd;

	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	close(fd);
	ck_assert_int_eq(listen_open(base, &o, &l, err), -EEXIST);
	d = opendir(dir);
	while ((e = readdir(d)))
		ck_assert(e->d_name[0] == '.' || !strcmp(e->d_name, "d.sock"));
	closedir(d);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("listen");
	TCase *t = tcase_create("listen");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, who_connects_waits_until_it_is_served);
	tcase_add_test(t, the_operator_has_all_places_and_no_more);
	tcase_add_test(t, a_uid_that_is_not_the_operator_has_a_share);
	tcase_add_test(t, an_end_that_never_began_is_a_fault);
	tcase_add_test(t, who_was_not_taken_is_handed_on_again);
	tcase_add_test(t, without_descriptors_it_waits_and_goes_on);
	tcase_add_test(t, a_name_is_held_by_one);
	tcase_add_test(t, the_end_takes_only_its_own_name_away);
	tcase_add_test(t, nothing_is_left_of_a_refusal);
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
