/*
 * listener: real filters and real targets.  `ioctl` is ours, so that a target can be made to
 * die between the poll that promised a notification and the call that takes it.
 */
#include "supervisor/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/util.h"
#include "worker/kernel.h"

#define V2_ROOT "/sys/fs/cgroup/unified"

enum { PASSED = 42 }; /* exit status of a target whose call came back */

struct scene {
	struct event_base *base;
	struct listener *listener;
	pid_t pid; /* the target, which makes one forbidden call when `gate` is closed */
	int pidfd, gate;
	unsigned calls;
	uint32_t nr, arch;
	bool kill_on_call;
	char group[96]; /* "": none */
};

static pid_t kill_before_recv; /* 0: nobody */
static int recv_errno;

int
ioctl(int fd, unsigned long request, ...)
{
	siginfo_t si;
	va_list ap;
	void *arg;
	int ret;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == SECCOMP_IOCTL_NOTIF_RECV && kill_before_recv != 0) {
		kill(kill_before_recv, SIGKILL);
		waitid(P_PID, (id_t)kill_before_recv, &si, WEXITED | WNOWAIT);
		kill_before_recv = 0;
	}
	ret = (int)syscall(SYS_ioctl, fd, request, arg);
	if (request == SECCOMP_IOCTL_NOTIF_RECV)
		recv_errno = ret < 0 ? errno : 0;
	return ret;
}

static void
on_call(uint32_t nr, uint32_t arch, void *arg)
{
	struct scene *s = arg;

	s->calls++;
	s->nr = nr;
	s->arch = arch;
	if (s->kill_on_call)
		pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0);
	else
		event_base_loopbreak(s->base);
}

/* Tells every getppid(). */
static int
filter_load(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { countof(code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return kernel_seccomp(
	    SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static _Noreturn void
target_main(int number, int gate)
{
	int fd = filter_load();
	char byte;

	(void)!write(number, &fd, sizeof(fd));
	(void)!read(gate, &byte, 1);
	syscall(SYS_getppid);
	_exit(PASSED);
}

static struct scene
scene_start(void)
{
	struct scene s = { .base = event_base_new() };
	int number[2], gate[2], fd;

	ck_assert_int_eq(pipe2(number, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	s.pid = fork();
	ck_assert_int_ge(s.pid, 0);
	if (s.pid == 0) {
		close(gate[1]);
		target_main(number[1], gate[0]);
	}
	close(number[1]);
	close(gate[0]);
	s.gate = gate[1];
	s.pidfd = pidfd_open(s.pid, 0);
	ck_assert_int_ge(s.pidfd, 0);
	ck_assert_int_eq(read(number[0], &fd, sizeof(fd)), sizeof(fd));
	close(number[0]);
	ck_assert_int_ge(fd, 0);
	s.nr = (uint32_t)listener_fetch(s.pidfd, fd);
	ck_assert_int_ge((int)s.nr, 0);
	return s;
}

static void
scene_watch(struct scene *s)
{
	ck_assert_int_eq(listener_open(s->base, (int)s->nr, NULL, on_call, s, &s->listener), 0);
	s->nr = 0;
}

/* The target makes its call now; what the loop does with it is followed to its end. */
static void
scene_call(struct scene *s)
{
	util_close(&s->gate);
	s->gate = -1;
	event_base_dispatch(s->base);
}

/* ---- a cgroup v2 that only freezes ---- */

static void
group_write(const struct scene *s, const char *name, const char *text)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void
group_make(struct scene *s)
{
	char pid[16];

	snprintf(s->group, sizeof(s->group), V2_ROOT "/caisson-test-%d", (int)getpid());
	ck_assert_int_eq(mkdir(s->group, 0755), 0);
	snprintf(pid, sizeof(pid), "%d", (int)s->pid);
	group_write(s, "cgroup.procs", pid);
}

/* Orders `freeze` ("": nothing) and waits for the kernel to say `state` in cgroup.events. */
static void
group_await(const struct scene *s, const char *freeze, const char *state)
{
	char path[160], text[128];
	struct pollfd p = { .events = POLLPRI };
	ssize_t n;

	snprintf(path, sizeof(path), "%s/cgroup.events", s->group);
	p.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(p.fd, 0);
	if (freeze[0] != '\0')
		group_write(s, "cgroup.freeze", freeze);
	for (;;) {
		n = pread(p.fd, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = '\0';
		if (strstr(text, state) != NULL)
			break;
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
	}
	close(p.fd);
}

/* Kills what is left and returns what the target became. */
static siginfo_t
scene_finish(struct scene *s)
{
	siginfo_t si = { 0 };

	kill(s->pid, SIGKILL);
	waitid(P_PIDFD, (id_t)s->pidfd, &si, WEXITED);
	listener_close(s->listener);
	event_base_free(s->base);
	close(s->pidfd);
	util_close(&s->gate);
	if (s->group[0] != '\0') {
		/* A process that was waited for may leave its group a moment later. */
		group_await(s, "", "populated 0");
		ck_assert_int_eq(rmdir(s->group), 0);
	}
	return si;
}

/* ---- the tests ---- */

START_TEST(a_call_is_told_by_number_and_architecture_and_waits)
{
	struct scene s = scene_start();
	siginfo_t si;

	scene_watch(&s);
	scene_call(&s);
	ck_assert_uint_eq(s.calls, 1);
	ck_assert_uint_eq(s.nr, SYS_getppid);
	ck_assert_uint_eq(s.arch, AUDIT_ARCH_X86_64);
	si = scene_finish(&s);
	ck_assert_int_eq(si.si_code, CLD_KILLED);
	ck_assert_int_eq(si.si_status, SIGKILL);
}
END_TEST

START_TEST(a_target_that_dies_between_poll_and_recv_is_no_news)
{
	struct scene s = scene_start();

	scene_watch(&s);
	kill_before_recv = s.pid;
	scene_call(&s); /* returns, as nobody is left to watch */
	ck_assert_int_eq(recv_errno, ENOENT);
	ck_assert_uint_eq(s.calls, 0);
	scene_finish(&s);
}
END_TEST

START_TEST(watching_ends_when_nobody_is_left)
{
	struct scene s = scene_start();

	scene_watch(&s);
	s.kill_on_call = true;
	scene_call(&s);
	ck_assert_uint_eq(s.calls, 1);
	ck_assert_int_eq(event_base_get_num_events(s.base, EVENT_BASE_COUNT_ADDED), 0);
	scene_finish(&s);

	s = scene_start();
	scene_watch(&s);
	kill(s.pid, SIGKILL);
	event_base_dispatch(s.base);
	ck_assert_uint_eq(s.calls, 0);
	scene_finish(&s);
}
END_TEST

START_TEST(a_frozen_target_is_told_and_can_be_ended)
{
	struct scene s = scene_start();
	siginfo_t si = { 0 };

	group_make(&s);
	scene_watch(&s);
	scene_call(&s);
	ck_assert_uint_eq(s.calls, 1);
	group_await(&s, "1", "frozen 1");
	pidfd_send_signal(s.pidfd, SIGKILL, NULL, 0);
	waitid(P_PIDFD, (id_t)s.pidfd, &si, WEXITED | WNOWAIT);
	ck_assert_int_eq(si.si_status, SIGKILL);
	event_base_dispatch(s.base);
	ck_assert_uint_eq(s.calls, 1);
	scene_finish(&s);
}
END_TEST

START_TEST(a_call_that_the_freezer_interrupted_is_told_again_and_never_passes)
{
	struct scene s = scene_start();
	siginfo_t si;

	group_make(&s);
	scene_watch(&s);
	scene_call(&s);
	ck_assert_uint_eq(s.calls, 1);
	group_await(&s, "1", "frozen 1");
	group_await(&s, "0", "frozen 0");
	event_base_dispatch(s.base);
	ck_assert_uint_eq(s.calls, 2);
	ck_assert_uint_eq(s.nr, SYS_getppid);
	si = scene_finish(&s);
	ck_assert_int_eq(si.si_code, CLD_KILLED);
}
END_TEST

START_TEST(fetching_says_what_is_wrong)
{
	pid_t pid = fork();
	siginfo_t si;
	int pidfd;

	if (pid == 0)
		for (;;)
			pause();
	pidfd = pidfd_open(pid, 0);
	ck_assert_int_eq(listener_fetch(pidfd, 1000000), -EBADF);
	kill(pid, SIGKILL);
	waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED);
	ck_assert_int_eq(listener_fetch(pidfd, 0), -ESRCH);
	ck_assert_int_eq(listener_fetch(-1, 0), -EBADF);
	close(pidfd);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("listener");
	TCase *c = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_add_test(c, a_call_is_told_by_number_and_architecture_and_waits);
	tcase_add_test(c, a_target_that_dies_between_poll_and_recv_is_no_news);
	tcase_add_test(c, watching_ends_when_nobody_is_left);
	if (geteuid() == 0 && access(V2_ROOT "/cgroup.procs", W_OK) == 0) {
		tcase_add_test(c, a_frozen_target_is_told_and_can_be_ended);
		tcase_add_test(
		    c, a_call_that_the_freezer_interrupted_is_told_again_and_never_passes);
	} else {
		fputs("skip: the freezer takes root and a cgroup v2 at " V2_ROOT "\n",
		    stderr);
	}
	tcase_add_test(c, fetching_says_what_is_wrong);
	suite_add_tcase(suite, c);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
