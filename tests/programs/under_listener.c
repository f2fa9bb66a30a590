/*
 * under_listener: runs a program under a seccomp filter that allows everything and has a
 * listener, as another supervisor would have around Caisson.  Exits as the program does.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "worker/kernel.h"

static int
filter_load(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { countof(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return kernel_seccomp(
	    SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static _Noreturn void
program(char **argv, int up, int down)
{
	int fd = filter_load();
	char byte;

	/* The other end keeps it: a listener that nobody holds is none. */
	if (fd < 0 || write(up, &fd, sizeof(fd)) != sizeof(fd) || read(down, &byte, 1) != 1)
		_exit(125);
	close(fd);
	execv(argv[1], argv + 1);
	_exit(127);
}

int
main(int argc, char **argv)
{
	int up[2], down[2], fd = -1, pidfd, status;
	pid_t pid;

	if (argc < 2 || pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0)
		return 125;
	pid = fork();
	if (pid == 0)
		program(argv, up[1], down[0]);
	pidfd = pidfd_open(pid, 0);
	if (read(up[0], &fd, sizeof(fd)) != sizeof(fd) || pidfd_getfd(pidfd, fd, 0) < 0 ||
	    write(down[1], "", 1) != 1) {
		perror("under_listener");
		return 125;
	}
	if (waitpid(pid, &status, 0) != pid)
		return 125;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
