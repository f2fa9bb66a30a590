/*
 * launch_report: whatever a launcher gone wrong sends, no descriptor of it stays with us.
 */
#include "supervisor/launch_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "worker/plan.h"

#define FDS_MOST 253 /* the kernel's own limit for one message */

static int ends[2];

static int
open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
setup(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void
teardown(void)
{
	close(ends[0]);
	close(ends[1]);
}

/* `bytes` of a report with `nfds` copies of one descriptor. */
static void
send_report(size_t bytes, size_t nfds)
{
	static union {
		char buf[CMSG_SPACE(FDS_MOST * sizeof(int))];
		struct cmsghdr align;
	} control;
	char data[2 * sizeof(struct launch_report)] = { STAGE_RUNTIME };
	struct iovec iov = { data, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[FDS_MOST];

	for (size_t i = 0; i < countof(fds); i++)
		fds[i] = ends[0];
	if (nfds > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
	}
	ck_assert_int_eq(sendmsg(ends[1], &msg, MSG_NOSIGNAL), (ssize_t)bytes);
}

static const struct {
	size_t bytes, nfds;
	int ret;
	const char *why;
} messages[] = {
	{ sizeof(struct launch_report), 0, 1, "a report" },
	{ sizeof(struct launch_report), 1, 1, "a report with a descriptor" },
	{ sizeof(struct launch_report), 2, -EPROTO, "two fit where one was asked for: padding" },
	{ sizeof(struct launch_report), 3, -EPROTO, "more than fit" },
	{ sizeof(struct launch_report), FDS_MOST, -EPROTO, "as many as may travel" },
	{ sizeof(struct launch_report) - 1, 1, -EPROTO, "too short, with a descriptor" },
	{ sizeof(struct launch_report) + 1, 1, -EPROTO, "too long, with a descriptor" },
	{ sizeof(struct launch_report) + 1, 2, -EPROTO, "too long, with two" },
	{ 0, 1, 0, "nothing but a descriptor: an end" },
};

START_TEST(no_descriptor_stays_but_the_one_that_was_asked_for)
{
	int before = open_descriptors(), fd = -1, ret;
	struct launch_report r = { 0 };

	send_report(messages[_i].bytes, messages[_i].nfds);
	ret = launch_report_recv(ends[0], &r, &fd);
	ck_assert_msg(ret == messages[_i].ret, "%s: %d", messages[_i].why, ret);
	ck_assert_int_eq(fd >= 0, ret == 1 && messages[_i].nfds == 1);
	if (fd >= 0) {
		ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	ck_assert_int_eq(r.stage, ret == 1 ? STAGE_RUNTIME : 0);
	ck_assert_int_eq(open_descriptors(), before);
	ck_assert_int_eq(launch_report_recv(ends[0], &r, &fd), -EAGAIN);
}
END_TEST

/* The kernel then says MSG_CTRUNC and installs as many as there is room for. */
START_TEST(where_descriptors_run_out_none_is_left_either)
{
	struct rlimit old, low;
	struct launch_report r;
	int before = open_descriptors(), top, fd = -1, ret;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	top = dup(ends[0]);
	close(top);
	low = old;
	low.rlim_cur = (rlim_t)top + (rlim_t)_i;
	send_report(sizeof(r), 2);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	ret = launch_report_recv(ends[0], &r, &fd);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ck_assert_int_eq(ret, -EPROTO);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

START_TEST(one_descriptor_that_finds_no_room_is_no_report)
{
	struct rlimit old, low;
	struct launch_report r;
	int top, fd = -1, ret;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	top = dup(ends[0]);
	close(top);
	low = old;
	low.rlim_cur = (rlim_t)top;
	send_report(sizeof(r), 1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	ret = launch_report_recv(ends[0], &r, &fd);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ck_assert_int_eq(ret, -EPROTO);
	ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(the_end_is_told_whether_or_not_something_was_unread)
{
	struct launch_report r;
	int fd;

	ck_assert_int_eq(send(ends[0], "x", 1, 0), 1); /* unread there: ECONNRESET here */
	close(ends[1]);
	ck_assert_int_eq(launch_report_recv(ends[0], &r, &fd), 0);
	ends[1] = -1;
}
END_TEST

START_TEST(what_was_said_before_such_an_end_is_heard)
{
	struct launch_report r;
	int fd;

	ck_assert_int_eq(send(ends[0], "x", 1, 0), 1);
	send_report(sizeof(r), 0);
	close(ends[1]);
	ends[1] = -1;
	ck_assert_int_eq(launch_report_recv(ends[0], &r, &fd), 1);
	ck_assert_int_eq(launch_report_recv(ends[0], &r, &fd), 0);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("launch_report");
	TCase *t = tcase_create("descriptors");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, no_descriptor_stays_but_the_one_that_was_asked_for, 0,
	    countof(messages));
	tcase_add_loop_test(t, where_descriptors_run_out_none_is_left_either, 0, 3);
	tcase_add_test(t, one_descriptor_that_finds_no_room_is_no_report);
	tcase_add_test(t, the_end_is_told_whether_or_not_something_was_unread);
	tcase_add_test(t, what_was_said_before_such_an_end_is_heard);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
