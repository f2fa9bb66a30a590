/* Control links: fixed-size structs and the descriptors beside them. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/control.h"
#include "common/util.h"

static int ends[2];

static void
set_up(void)
{
	ck_assert_int_eq(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void
tear_down(void)
{
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
}

static unsigned
open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
send_raw(const void *p, size_t n, const int *fds, unsigned nfds)
{
	union {
		char bytes[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} cmsg = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds > 0) {
		msg.msg_control = cmsg.bytes;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cmsg.align =
		    (struct cmsghdr){ CMSG_LEN(nfds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&cmsg.align), fds, nfds * sizeof(int));
	}
	ck_assert_int_eq(sendmsg(ends[0], &msg, 0), (ssize_t)n);
}

static void
assert_nothing(const int fds[CONTROL_FDS_MAX], unsigned nfds)
{
	unsigned i;

	ck_assert_uint_eq(nfds, 0);
	for (i = 0; i < CONTROL_FDS_MAX; i++)
		ck_assert_int_eq(fds[i], -1);
}

/* _i: how many descriptors travel. */
START_TEST(a_struct_and_its_descriptors_arrive)
{
	struct control c = { .verb = CONTROL_LINK, .session = 1ull << 40, .index = 7,
		.exit = { .cpu_us = 9 } }, got;
	int sent[CONTROL_FDS_MAX], fds[CONTROL_FDS_MAX], i;
	struct stat a, b;
	unsigned n;

	for (i = 0; i < _i; i++)
		sent[i] = open(i % 2 ? "/dev/null" : "/dev/zero", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(control_send(ends[0], &c, sent, (unsigned)_i), 0);
	ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), 1);
	ck_assert_mem_eq(&got, &c, sizeof c);
	ck_assert_uint_eq(n, (unsigned)_i);
	for (i = 0; i < _i; i++) {
		/* They stay the sender's, and come close-on-exec. */
		fstat(sent[i], &a);
		fstat(fds[i], &b);
		ck_assert_uint_eq(a.st_rdev, b.st_rdev);
		ck_assert_int_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		close(sent[i]);
		close(fds[i]);
	}
	for (; i < CONTROL_FDS_MAX; i++)
		ck_assert_int_eq(fds[i], -1);
}
END_TEST

START_TEST(nothing_there_and_end_of_file_are_told_apart)
{
	struct control got;
	int fds[CONTROL_FDS_MAX];
	unsigned n;

	ck_assert_int_eq(control_recv(ends[0], &got, fds, &n), -EAGAIN);
	assert_nothing(fds, n);
	close(ends[1]);
	ends[1] = -1;
	ck_assert_int_eq(control_recv(ends[0], &got, fds, &n), 0);
	assert_nothing(fds, n);
	ck_assert_int_eq(control_send(ends[0], &got, NULL, 0), -EPIPE);
}
END_TEST

START_TEST(a_peer_that_died_with_ours_unread_is_end_of_file)
{
	struct control c = { .verb = CONTROL_PING }, got;
	int fds[CONTROL_FDS_MAX];
	unsigned n;

	ck_assert_int_eq(control_send(ends[0], &c, NULL, 0), 0);
	close(ends[1]);
	ends[1] = -1;
	ck_assert_int_eq(control_recv(ends[0], &got, fds, &n), 0);
}
END_TEST

START_TEST(the_last_words_of_a_peer_that_died_with_ours_unread_are_heard)
{
	struct control ping = { .verb = CONTROL_PING }, word = { .verb = CONTROL_READY }, got;
	int fds[CONTROL_FDS_MAX];
	unsigned n;

	ck_assert_int_eq(control_send(ends[0], &ping, NULL, 0), 0);
	ck_assert_int_eq(control_send(ends[1], &word, NULL, 0), 0);
	close(ends[1]);
	ends[1] = -1;
	ck_assert_int_eq(control_recv(ends[0], &got, fds, &n), 1);
	ck_assert_int_eq(got.verb, CONTROL_READY);
	ck_assert_int_eq(control_recv(ends[0], &got, fds, &n), 0);
}
END_TEST

START_TEST(a_full_socket_says_so)
{
	struct control c = { .verb = CONTROL_PING };
	int i, r = 0;

	for (i = 0; i < 100000 && r == 0; i++)
		r = control_send(ends[0], &c, NULL, 0);
	ck_assert_int_eq(r, -EAGAIN);
}
END_TEST

START_TEST(a_struct_of_another_size_is_refused_and_its_descriptors_are_closed)
{
	static const char bytes[sizeof(struct control) + 8];
	static const size_t sizes[] = { 1, sizeof(struct control) - 1,
		sizeof(struct control) + 1, sizeof bytes };
	struct control got = { .verb = 77 };
	int fds[CONTROL_FDS_MAX], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unsigned n, before = open_descriptors();
	size_t i;

	for (i = 0; i < countof(sizes); i++) {
		send_raw(bytes, sizes[i], &null, 1);
		ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), -EPROTO);
		assert_nothing(fds, n);
		ck_assert_uint_eq(got.verb, 77);
	}
	ck_assert_uint_eq(open_descriptors(), before);
	close(null);
}
END_TEST

START_TEST(too_many_descriptors_are_refused_and_closed)
{
	struct control c = { .verb = CONTROL_LINK }, got;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int many[8] = { null, null, null, null, null, null, null, null }, fds[CONTROL_FDS_MAX];
	unsigned n, before = open_descriptors();

	send_raw(&c, sizeof c, many, CONTROL_FDS_MAX + 1);
	ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), -EPROTO);
	assert_nothing(fds, n);
	send_raw(&c, sizeof c, many, 8);
	ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), -EPROTO);
	ck_assert_uint_eq(open_descriptors(), before);
	ck_assert_int_eq(control_send(ends[0], &c, many, CONTROL_FDS_MAX + 1), -EINVAL);
	/* The next one is good. */
	ck_assert_int_eq(control_send(ends[0], &c, many, 1), 0);
	ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), 1);
	close(fds[0]);
	close(null);
}
END_TEST

START_TEST(without_room_for_its_descriptors_a_struct_comes_without_any)
{
	struct control c = { .verb = CONTROL_LINK, .index = 7 }, got;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[CONTROL_FDS_MAX];
	int two[2] = { null, null };
	struct rlimit old, low;
	unsigned n, before = open_descriptors();

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (rlim_t room = 0; room < 2; room++) {
		ck_assert_int_eq(control_send(ends[0], &c, two, 2), 0);
		low = old;
		low.rlim_cur = (rlim_t)null + 1 + room; /* it is the highest of ours */
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
		ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), 1);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		ck_assert_int_eq(got.verb, CONTROL_LINK);
		ck_assert_uint_eq(got.index, 7);
		assert_nothing(fds, n);
		ck_assert_uint_eq(open_descriptors(), before);
	}
	/* With room again, the next has them. */
	ck_assert_int_eq(control_send(ends[0], &c, two, 2), 0);
	ck_assert_int_eq(control_recv(ends[1], &got, fds, &n), 1);
	ck_assert_uint_eq(n, 2);
	close(fds[0]);
	close(fds[1]);
	close(null);
}
END_TEST

START_TEST(every_layer_has_a_name_of_its_own)
{
	uint32_t i, j;

	for (i = 0; i < LAYER_MAX; i++) {
		ck_assert_ptr_nonnull(layer_name(i));
		ck_assert_str_ne(layer_name(i), "unknown");
		for (j = 0; j < i; j++)
			ck_assert_str_ne(layer_name(i), layer_name(j));
	}
	ck_assert_str_eq(layer_name(LAYER_MAX), "unknown");
	ck_assert_str_eq(layer_name(UINT32_MAX), "unknown");
}
END_TEST

START_TEST(signals_that_may_be_sent_are_few_and_end_nothing_for_sure)
{
	uint64_t signo;
	unsigned n = 0;

	for (signo = 0; signo < 128; signo++)
		n += control_may_signal(signo);
	ck_assert_uint_eq(n, 7);
	ck_assert(control_may_signal(SIGINT) && control_may_signal(SIGWINCH));
	ck_assert(!control_may_signal(SIGKILL) && !control_may_signal(SIGSTOP));
	ck_assert(!control_may_signal((1ull << 32) + SIGINT) && !control_may_signal(UINT64_MAX));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("control");
	TCase *tc = tcase_create("control");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_loop_test(tc, a_struct_and_its_descriptors_arrive, 0, CONTROL_FDS_MAX + 1);
	tcase_add_test(tc, nothing_there_and_end_of_file_are_told_apart);
	tcase_add_test(tc, a_peer_that_died_with_ours_unread_is_end_of_file);
	tcase_add_test(tc, the_last_words_of_a_peer_that_died_with_ours_unread_are_heard);
	tcase_add_test(tc, a_full_socket_says_so);
	tcase_add_test(tc, a_struct_of_another_size_is_refused_and_its_descriptors_are_closed);
	tcase_add_test(tc, too_many_descriptors_are_refused_and_closed);
	tcase_add_test(tc, without_room_for_its_descriptors_a_struct_comes_without_any);
	tcase_add_test(tc, every_layer_has_a_name_of_its_own);
	tcase_add_test(tc, signals_that_may_be_sent_are_few_and_end_nothing_for_sure);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
