/* Probes of seccomp, and of the calls that processes are made and watched with. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/peer.h"
#include "worker/kernel.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1u << 5)
#endif

#define ODD_ERRNO      78    /* that getpriority() never has */
#define SESSIONS_FILES 65536 /* what a broker likes to have */

/* ---- seccomp ---- */

/* getpriority(), which nobody needs here, gets `action`; returns as seccomp(2) does. */
static int
load(uint32_t action, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = countof(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return kernel_seccomp(SECCOMP_SET_MODE_FILTER, flags, &prog);
}

static long
call_it(void)
{
	return syscall(SYS_getpriority, PRIO_PROCESS, 0);
}

void
probe_seccomp(struct doctor_finding *f)
{
	if (load(SECCOMP_RET_ERRNO | ODD_ERRNO, 0) < 0)
		probe_no(f, errno, "seccomp: %s", strerror(errno));
	else if (call_it() >= 0 || errno != ODD_ERRNO)
		probe_no(f, 0, "a filter is taken and not obeyed");
	else
		probe_yes(f, "a call got the errno of the filter");
}

void
probe_seccomp_kill(struct doctor_finding *f)
{
	pid_t pid = probe_fork();
	int status;

	if (pid == 0) {
		if (load(SECCOMP_RET_KILL_PROCESS, 0) < 0)
			_exit(errno);
		call_it();
		_exit(0);
	}
	status = pid < 0 ? -1 : probe_wait(pid);
	if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		probe_yes(f, "SIGSYS");
	else if (status > 0 && WIFEXITED(status))
		probe_no(f, WEXITSTATUS(status), "seccomp: %s", strerror(WEXITSTATUS(status)));
	else
		probe_no(f, 0, "the call did not end the process");
}

/* The child: loads the filter, tells the number of the listener, makes the call. */
static _Noreturn void
notified(int to_fd)
{
	int answer = load(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);

	if (answer < 0)
		answer = -errno;
	if (write(to_fd, &answer, sizeof(answer)) != sizeof(answer) || answer < 0)
		_exit(1);
	call_it();
	_exit(0);
}

static void
receive(struct doctor_finding *f, int listener)
{
	struct seccomp_notif n = { 0 };

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		probe_no(f, errno, "SECCOMP_IOCTL_NOTIF_RECV: %s", strerror(errno));
	else if (n.data.nr != SYS_getpriority)
		probe_no(f, 0, "call %d was told, not %d", n.data.nr, (int)SYS_getpriority);
	else
		probe_yes(f, "call %d seen from outside", n.data.nr);
}

static void
watch(struct doctor_finding *f, pid_t pid, int from_fd)
{
	cleanup_fd int pidfd = -1, listener = -1;
	int number;

	if (read(from_fd, &number, sizeof(number)) != sizeof(number))
		probe_no(f, 0, "the child died of its filter");
	else if (number == -EBUSY)
		probe_yes(f, "there, and taken by a listener above");
	else if (number < 0)
		probe_no(f, -number, "seccomp with a listener: %s", strerror(-number));
	else if ((pidfd = pidfd_open(pid, 0)) < 0 ||
		 (listener = pidfd_getfd(pidfd, number, 0)) < 0)
		probe_no(f, errno, "the listener cannot be taken over: %s", strerror(errno));
	else
		receive(f, listener);
}

void
probe_seccomp_notify(struct doctor_finding *f)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0 || (pid = probe_fork()) < 0) {
		probe_no(f, errno, "a child: %s", strerror(errno));
		return;
	}
	if (pid == 0)
		notified(pair[1]);
	close(pair[1]);
	watch(f, pid, pair[0]);
	close(pair[0]);
	kill(pid, SIGKILL);
	probe_wait(pid);
}

void
probe_seccomp_listener(struct doctor_finding *f)
{
	if (load(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER) >= 0)
		probe_yes(f, "Caisson is the one that listens");
	else if (errno == EBUSY)
		probe_no(
		    f, errno, "one listens already: a forbidden call ends the chamber unnamed");
	else
		probe_no(f, errno, "seccomp with a listener: %s", strerror(errno));
}

void
probe_seccomp_tsync(struct doctor_finding *f)
{
	if (load(SECCOMP_RET_ERRNO | ODD_ERRNO, SECCOMP_FILTER_FLAG_TSYNC) == 0)
		probe_yes(f, "taken");
	else
		probe_no(f, errno, "seccomp: %s", strerror(errno));
}

void
probe_seccomp_wait(struct doctor_finding *f)
{
	if (load(SECCOMP_RET_USER_NOTIF,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) >= 0)
		probe_yes(f, "taken");
	else
		probe_no(f, errno, "seccomp: %s", strerror(errno));
}

/* ---- processes ---- */

void
probe_pidfd(struct doctor_finding *f)
{
	pid_t pid = probe_fork();
	cleanup_fd int fd = -1;
	siginfo_t si = { 0 };
	const char *call = "pidfd_open";

	if (pid == 0)
		for (;;)
			pause();
	if (pid < 0) {
		probe_no(f, errno, "fork: %s", strerror(errno));
		return;
	}
	fd = pidfd_open(pid, 0);
	if (fd >= 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		call = "pidfd_send_signal";
		if (pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0) {
			call = "poll";
			if (poll(&p, 1, -1) == 1) {
				call = "waitid(P_PIDFD)";
				if (waitid(P_PIDFD, (id_t)fd, &si, WEXITED) == 0)
					call = NULL;
			}
		}
	}
	if (call != NULL) {
		probe_no(f, errno, "%s: %s", call, strerror(errno));
		kill(pid, SIGKILL);
		probe_wait(pid);
	} else if (si.si_code != CLD_KILLED || si.si_status != SIGKILL) {
		probe_no(f, 0, "another end than the one that was made");
	} else {
		probe_yes(f, "opened, signalled, polled, reaped");
	}
}

/* A child that holds both ends of `gate`, and exits with 7 once we close our writing one. */
static pid_t
waiting_child(int gate[2])
{
	pid_t pid;
	char byte;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -1;
	pid = probe_fork();
	if (pid != 0)
		return pid;
	close(gate[1]);
	_exit(read(gate[0], &byte, 1) == 0 ? 7 : 1);
}

void
probe_pidfd_getfd(struct doctor_finding *f)
{
	cleanup_fd int pidfd = -1, fd = -1;
	int gate[2];
	pid_t pid = waiting_child(gate);

	if (pid < 0) {
		probe_no(f, errno, "fork: %s", strerror(errno));
		return;
	}
	pidfd = pidfd_open(pid, 0);
	fd = pidfd < 0 ? -1 : pidfd_getfd(pidfd, gate[0], 0);
	if (fd < 0)
		probe_no(f, errno, "pidfd_getfd: %s", strerror(errno));
	else
		probe_yes(f, "of a child of one's own");
	close(gate[1]);
	probe_wait(pid);
}

void
probe_pidfd_info(struct doctor_finding *f)
{
	struct kernel_pidfd_info info = { .mask = KERNEL_PIDFD_INFO_EXIT };
	cleanup_fd int pidfd = -1;
	int gate[2];
	pid_t pid = waiting_child(gate);

	if (pid < 0) {
		probe_no(f, errno, "fork: %s", strerror(errno));
		return;
	}
	pidfd = pidfd_open(pid, 0);
	close(gate[1]);
	probe_wait(pid);
	if (ioctl(pidfd, KERNEL_PIDFD_GET_INFO, &info) < 0)
		probe_no(f, errno, "PIDFD_GET_INFO: %s", strerror(errno));
	else if ((info.mask & KERNEL_PIDFD_INFO_EXIT) == 0 || WEXITSTATUS(info.exit_code) != 7)
		probe_no(f, 0, "it does not tell the end of a process that is reaped");
	else
		probe_yes(f, "exit status 7 told once it was reaped");
}

static int
send_descriptor(int to_fd, int fd)
{
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
			  .cmsg_level = SOL_SOCKET,
			  .cmsg_type = SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	return sendmsg(to_fd, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

void
probe_link_rights(struct doctor_finding *f)
{
	const int off = 0;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		probe_no(f, errno, "socketpair: %s", strerror(errno));
	else if (setsockopt(pair[0], SOL_SOCKET, PEER_SO_PASSRIGHTS, &off, sizeof(off)) < 0)
		probe_no(f, errno, "SO_PASSRIGHTS: %s", strerror(errno));
	else if (send_descriptor(pair[1], pair[0]) == 0)
		probe_no(f, 0, "a descriptor is taken all the same");
	else
		probe_yes(f, "sending one: %s", strerrorname_np(errno));
}

void
probe_openat2(struct doctor_finding *f)
{
	cleanup_fd int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = kernel_openat2(dir, "..", O_PATH | O_CLOEXEC, RESOLVE_BENEATH);

	if (fd < 0 && errno == EXDEV)
		probe_yes(f, "leaving the directory: EXDEV");
	else if (fd < 0)
		probe_no(f, errno, "openat2: %s", strerror(errno));
	else
		probe_no(f, 0, "openat2 left the directory that it was to stay beneath");
}

void
probe_close_range(struct doctor_finding *f)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 700);

	if (fd < 0)
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	if (fd < 0 || close_range((unsigned)fd, (unsigned)fd, 0) < 0)
		probe_no(f, errno, "close_range: %s", strerror(errno));
	else if (fcntl(fd, F_GETFD) >= 0)
		probe_no(f, 0, "the descriptor is still open");
	else
		probe_yes(f, "closed");
}

void
probe_memfd(struct doctor_finding *f)
{
	cleanup_fd int fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		probe_no(f, errno, "memfd_create, F_ADD_SEALS: %s", strerror(errno));
	else if (write(fd, "x", 1) >= 0)
		probe_no(f, 0, "a sealed file is written");
	else
		probe_yes(f, "writing: %s", strerrorname_np(errno));
}

void
probe_open_files(struct doctor_finding *f)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		probe_no(f, errno, "getrlimit: %s", strerror(errno));
	else if (r.rlim_max < SESSIONS_FILES)
		probe_no(f, 0, "%ju at most", (uintmax_t)r.rlim_max);
	else
		probe_yes(f, "%ju at most", (uintmax_t)r.rlim_max);
}

void
probe_process_limit(struct doctor_finding *f)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NPROC, &r) < 0)
		probe_no(f, errno, "getrlimit: %s", strerror(errno));
	else if (r.rlim_cur == RLIM_INFINITY)
		probe_yes(f, "no limit");
	else
		probe_yes(f, "%ju at most", (uintmax_t)r.rlim_cur);
}
