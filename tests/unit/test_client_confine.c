/* confine: what a client that runtime text has subverted could still do. */
#include "client/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"

#ifdef CAISSON_ASAN
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static pid_t other; /* a process of the same user, which must not be touched */

static void
setup(void)
{
	other = fork();
	if (other == 0) {
		for (;;)
			pause();
	}
	ck_assert_int_gt(other, 0);
}

static void
teardown(void)
{
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* Each returns negative if it was refused, with errno saying why. */
static long
try_open(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static long
try_create(void)
{
	return openat(AT_FDCWD, "caught", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
}

static long
try_reopen(void)
{
	return open("/proc/self/fd/1", O_WRONLY | O_CLOEXEC);
}

static long
try_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long
try_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long
try_exec(void)
{
	char *const argv[] = { (char *)(uintptr_t) "true", NULL };

	return execv("/bin/true", argv);
}

static long
try_fork(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static long
try_kill(void)
{
	return kill(other, SIGTERM);
}

static long
try_tgkill(void)
{
	return syscall(SYS_tgkill, other, other, SIGTERM);
}

static long
try_ptrace(void)
{
	return ptrace(PTRACE_ATTACH, other, NULL, NULL);
}

static long
try_memory(void)
{
	char c;
	struct iovec here = { &c, 1 };
	struct iovec there = { &other, 1 };

	return process_vm_readv(other, &here, 1, &there, 1, 0);
}

static long
try_uring(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL);
}

static long
try_unlink(void)
{
	return unlink("/tmp");
}

static long
try_ioctl(void)
{
	return syscall(SYS_ioctl, 0, 0x5412 /* TIOCSTI: types for the user */, "x");
}

static const struct {
	const char *what;
	long (*attempt)(void);
	bool neighbour; /* works without confinement: the test would notice a broken attempt */
} attempts[] = {
	{ "opens a file", try_open, true },
	{ "creates a file", try_create, false },
	{ "opens its own output again", try_reopen, false },
	{ "makes an internet socket", try_socket, true },
	{ "makes a local socket", try_unix, true },
	{ "starts a program", try_exec, false },
	{ "forks", try_fork, false },
	{ "kills", try_kill, false },
	{ "kills a thread", try_tgkill, false },
	{ "traces", try_ptrace, false },
	{ "reads another's memory", try_memory, false },
	{ "uses io_uring", try_uring, false },
	{ "removes", try_unlink, false },
	{ "types into the terminal", try_ioctl, false },
};

/* What happened in a child: 0 for refused with EPERM, 1 for done, 2 for anything else. */
static int
attempt(int i, bool confined)
{
	int status;
	pid_t pid = fork();
	long r;

	if (pid == 0) {
		if (confined && client_confine() < 0)
			_exit(3);
		r = attempts[i].attempt();
		_exit(r >= 0 ? 1 : errno == EPERM || errno == EACCES ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "%s", attempts[i].what);
	return WEXITSTATUS(status);
}

START_TEST(a_subverted_client_is_refused)
{
	ck_assert_msg(attempt(_i, true) == 0, "%s", attempts[_i].what);
	if (attempts[_i].neighbour)
		ck_assert_msg(attempt(_i, false) == 1, "%s, unconfined", attempts[_i].what);
}
END_TEST

START_TEST(the_loop_goes_on)
{
	int status, fds[2];
	pid_t pid;
	char *p;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (client_confine() < 0)
			_exit(1);
		p = malloc(8 << 20); /* large enough for a mapping of its own */
		if (p == NULL || write(fds[1], "x", 1) != 1 || read(fds[0], p, 1) != 1)
			_exit(2);
		free(p);
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
		_exit(3);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("client_confine");
	TCase *t = tcase_create("attacks");
	SRunner *runner = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	if (SANITIZED) {
		puts("skip: a sanitizer needs what the client's filter refuses");
		srunner_free(runner);
		return 0;
	}
	tcase_add_loop_test(t, a_subverted_client_is_refused, 0, (int)countof(attempts));
	tcase_add_test(t, the_loop_goes_on);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
