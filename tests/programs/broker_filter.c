/*
 * Everything that a subverted broker could try with its descriptors, once without the
 * broker's own filter and once under it.
 *
 *   broker_filter attacks DIR    a line per attack: name, result without, result under the
 *                                filter, what became of the segment's bytes under it
 *   broker_filter numbers        a line per system call that is not in syscalls.def and was
 *                                not ended by the filter, and how it ended; at the end how
 *                                many were tried
 *
 * A result is `done`, the name of an errno, or the signal that ended the attempt.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/confine.h"
#include "common/util.h"

#define BASE	   "the record as it stands\n"
#define NUMBER_MAX 1024
#define X32	   0x40000000

/* What a broker holds, and what it would like to reach. */
static struct {
	int segment; /* O_WRONLY | O_APPEND */
	int control, config;
	char path[4096], other[4096], proc[64];
	char dir[2048];
	pid_t victim;
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} handle;
	int handle_error, mount_fd;
	int plain_file; /* not append-only: the source of copies */
	aio_context_t aio;
	int aio_error;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_barrier_t begun;
	void *page; /* our own, read and write */
} env;

static const struct sockaddr_un nowhere = { .sun_family = AF_UNIX, .sun_path = "\0caisson-x" };
static char bytes[] = "FORGED";
static struct iovec vec = { bytes, sizeof(bytes) - 1 };

/* ---- the attacks ----------------------------------------------------------------------- */

#define ATTACK(name, expression)                                                               \
	static long name(void)                                                                 \
	{                                                                                      \
		return (expression);                                                           \
	}

/* open */
ATTACK(try_open, syscall(SYS_open, env.path, O_WRONLY))
ATTACK(try_openat, syscall(SYS_openat, AT_FDCWD, env.path, O_WRONLY))
ATTACK(try_openat_path, syscall(SYS_openat, AT_FDCWD, env.path, O_PATH))
ATTACK(try_openat2, syscall(SYS_openat2, AT_FDCWD, env.path,
			&(struct open_how){ .flags = O_WRONLY }, sizeof(struct open_how)))
ATTACK(try_creat, syscall(SYS_creat, env.other, 0600))
ATTACK(try_handle, env.handle_error ? (errno = env.handle_error, -1)
				    : syscall(SYS_open_by_handle_at, env.mount_fd,
					  &env.handle.h, O_WRONLY))
ATTACK(try_reopen, syscall(SYS_open, env.proc, O_WRONLY))
ATTACK(try_memfd, syscall(SYS_memfd_create, "x", 0))
ATTACK(try_io_uring, syscall(SYS_io_uring_setup, 1, &(struct io_uring_params){ 0 }))
ATTACK(try_pipe, syscall(SYS_pipe2, (int[2]){ 0, 0 }, 0))
ATTACK(try_timerfd, syscall(SYS_timerfd_create, CLOCK_MONOTONIC, 0))
ATTACK(try_eventfd, syscall(SYS_eventfd2, 0, 0))
ATTACK(try_epoll_create, syscall(SYS_epoll_create1, 0))
ATTACK(try_inotify, syscall(SYS_inotify_init1, 0))
ATTACK(try_pidfd_open, syscall(SYS_pidfd_open, env.victim, 0))
ATTACK(try_mkdir, syscall(SYS_mkdir, env.other, 0700))
ATTACK(try_stat, syscall(SYS_stat, env.path, env.page))
ATTACK(try_readlink, syscall(SYS_readlink, env.proc, env.page, 4096))

/* connect */
ATTACK(try_socket, syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0))
ATTACK(try_socket_inet, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0))
ATTACK(try_socketpair, syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0, 0 }))
ATTACK(try_bind, syscall(SYS_bind, env.control, &nowhere, sizeof(nowhere)))
ATTACK(try_connect, syscall(SYS_connect, env.control, &nowhere, sizeof(nowhere)))
ATTACK(try_listen, syscall(SYS_listen, env.control, 1))
ATTACK(try_accept, syscall(SYS_accept4, env.control, NULL, NULL, 0))
ATTACK(try_send, syscall(SYS_sendto, env.control, bytes, 1, MSG_NOSIGNAL, NULL, 0))
ATTACK(try_sendto, syscall(SYS_sendto, env.control, bytes, 1, 0, &nowhere, sizeof(nowhere)))
ATTACK(try_setsockopt,
    syscall(SYS_setsockopt, env.control, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)))

/* execute, and be more than one */
static char *const no_words[] = { NULL };
static char true_path[] = "/bin/true";
static char *const true_words[] = { true_path, NULL };
ATTACK(try_execve, syscall(SYS_execve, true_path, true_words, no_words))
ATTACK(try_execveat, syscall(SYS_execveat, AT_FDCWD, true_path, true_words, no_words, 0))

static long
parent_of(long pid)
{
	if (pid == 0)
		_exit(0);
	return pid;
}

ATTACK(try_fork, parent_of(syscall(SYS_fork)))
ATTACK(try_clone, parent_of(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)))
ATTACK(try_clone3, parent_of(syscall(SYS_clone3,
		       &(struct clone_args){ .exit_signal = SIGCHLD },
		       sizeof(struct clone_args))))
ATTACK(try_unshare, syscall(SYS_unshare, CLONE_FS))

/* change what is written */
ATTACK(try_pwrite, syscall(SYS_pwrite64, env.segment, bytes, 6, 0))
ATTACK(try_pwritev, syscall(SYS_pwritev, env.segment, &vec, 1, 0, 0))
ATTACK(try_pwritev2, syscall(SYS_pwritev2, env.segment, &vec, 1, 0, 0, 0))
ATTACK(try_pwritev2_noappend, syscall(SYS_pwritev2, env.segment, &vec, 1, 0, 0, 0x20))
ATTACK(try_ftruncate, syscall(SYS_ftruncate, env.segment, 0))
ATTACK(try_truncate, syscall(SYS_truncate, env.path, 0))
ATTACK(try_punch, syscall(SYS_fallocate, env.segment,
		      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8))
ATTACK(try_extend, syscall(SYS_fallocate, env.segment, 0, 0, 4096))
ATTACK(try_lseek, syscall(SYS_lseek, env.segment, 0, SEEK_SET) < 0
		      ? -1
		      : syscall(SYS_write, env.segment, bytes, 6))
ATTACK(try_splice, syscall(SYS_splice, env.plain_file, &(loff_t){ 0 }, env.segment, NULL, 1, 0))
ATTACK(try_sendfile, syscall(SYS_sendfile, env.segment, env.plain_file, &(off_t){ 0 }, 6))
ATTACK(try_copy, syscall(SYS_copy_file_range, env.plain_file, &(loff_t){ 0 }, env.segment,
		     &(loff_t){ 0 }, 6, 0))
ATTACK(try_setflags, syscall(SYS_ioctl, env.segment, FS_IOC_SETFLAGS, &(int){ 0 }))
ATTACK(try_getflags, syscall(SYS_ioctl, env.segment, FS_IOC_GETFLAGS, env.page))
ATTACK(try_clone_range, syscall(SYS_ioctl, env.segment, FICLONE, env.plain_file))
ATTACK(try_setfl, syscall(SYS_fcntl, env.segment, F_SETFL, 0) < 0
		      ? -1
		      : syscall(SYS_pwrite64, env.segment, bytes, 6, 0))
ATTACK(try_dupfd, syscall(SYS_fcntl, env.segment, F_DUPFD, 50))
ATTACK(try_setlk, syscall(SYS_fcntl, env.segment, F_SETLK, &(struct flock){ .l_type = F_WRLCK }))
ATTACK(try_dup, syscall(SYS_dup, env.segment))
ATTACK(try_dup2, syscall(SYS_dup2, env.segment, 51))
ATTACK(try_map_shared, (long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, env.segment, 0))
ATTACK(try_sync_range, syscall(SYS_sync_file_range, env.segment, 0, 8, 0))
ATTACK(try_io_setup, syscall(SYS_io_setup, 1, &(aio_context_t){ 0 }))
ATTACK(try_fchmod, syscall(SYS_fchmod, env.segment, 0666))
ATTACK(try_fchown, syscall(SYS_fchown, env.segment, -1, -1))
ATTACK(try_xattr, syscall(SYS_fsetxattr, env.segment, "user.x", "y", 1, 0))
ATTACK(try_utimes, syscall(SYS_utimensat, env.segment, NULL, NULL, 0))
ATTACK(try_rename, syscall(SYS_rename, env.path, env.other))
ATTACK(try_unlink, syscall(SYS_unlink, env.path))
ATTACK(try_flock, syscall(SYS_flock, env.segment, 2))

static long
try_io_submit(void)
{
	struct iocb write_at_0 = { .aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = (uint32_t)env.segment,
		.aio_buf = (uint64_t)(uintptr_t)bytes,
		.aio_nbytes = 6 };
	struct iocb *list[] = { &write_at_0 };

	if (env.aio_error) {
		errno = env.aio_error;
		return -1;
	}
	return syscall(SYS_io_submit, env.aio, 1, list);
}

/* reach others */
ATTACK(try_vm_write, syscall(SYS_process_vm_writev, env.victim, &vec, 1,
			 &(struct iovec){ bytes, 6 }, 1, 0))
ATTACK(try_vm_read, syscall(SYS_process_vm_readv, env.victim, &vec, 1,
			&(struct iovec){ bytes, 6 }, 1, 0))
ATTACK(try_ptrace, syscall(SYS_ptrace, PTRACE_SEIZE, env.victim, 0, 0))
ATTACK(try_kill, syscall(SYS_kill, env.victim, 0))
ATTACK(try_tkill, syscall(SYS_tkill, env.victim, 0))
ATTACK(try_tgkill, syscall(SYS_tgkill, env.victim, env.victim, 0))
ATTACK(try_sigqueue, syscall(SYS_rt_sigqueueinfo, env.victim, SIGCONT,
			 &(siginfo_t){ .si_code = SI_QUEUE }))
ATTACK(try_setpriority, syscall(SYS_setpriority, PRIO_PROCESS, env.victim, 19))
ATTACK(try_prlimit, syscall(SYS_prlimit64, env.victim, RLIMIT_CORE, NULL, env.page))

/* become something else */
ATTACK(try_prctl, syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0))
ATTACK(try_seccomp, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(uint32_t){ 0 }))
ATTACK(try_personality, syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */))
ATTACK(try_setuid, syscall(SYS_setresuid, -1, -1, -1))
ATTACK(try_sigaction, syscall(SYS_rt_sigaction, SIGUSR1, NULL, env.page, 8))
ATTACK(try_mprotect_exec, syscall(SYS_mprotect, env.page, 4096, PROT_READ | PROT_EXEC))
ATTACK(try_pkey_exec, syscall(SYS_pkey_mprotect, env.page, 4096, PROT_READ | PROT_EXEC, -1))
ATTACK(try_mmap_exec, syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
ATTACK(try_mmap_exec_file,
    syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, env.config, 0))

/* The other thread tries: the filter is everybody's. */
static long
try_from_a_thread(void)
{
	void *result;

	pthread_mutex_unlock(&env.lock);
	pthread_join(env.thread, &result);
	errno = (int)(intptr_t)result;
	return errno ? -1 : 0;
}

static void *
thread_main(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&env.begun);
	pthread_mutex_lock(&env.lock);
	return (void *)(intptr_t)(syscall(SYS_open, env.path, O_WRONLY) < 0 ? errno : 0);
}

/* the allowed neighbours */
ATTACK(may_append, syscall(SYS_write, env.segment, "more\n", 5))
ATTACK(may_appendv, syscall(SYS_writev, env.segment, &(struct iovec){ bytes, 6 }, 1))
ATTACK(may_sync, syscall(SYS_fdatasync, env.segment))
ATTACK(may_getfl, syscall(SYS_fcntl, env.segment, F_GETFL))
ATTACK(may_send, syscall(SYS_write, env.control, bytes, 1))
ATTACK(may_map, syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
ATTACK(may_tgkill_itself, syscall(SYS_tgkill, getpid(), gettid(), 0))

static const struct attack {
	const char *name;
	long (*run)(void);
} attacks[] = {
#define A(name) { #name, name }
	A(try_open), A(try_openat), A(try_openat_path), A(try_openat2), A(try_creat),
	A(try_handle), A(try_reopen), A(try_memfd), A(try_io_uring), A(try_pipe),
	A(try_eventfd), A(try_timerfd), A(try_epoll_create), A(try_inotify), A(try_pidfd_open), A(try_mkdir),
	A(try_stat), A(try_readlink), A(try_socket), A(try_socket_inet), A(try_socketpair),
	A(try_bind), A(try_connect), A(try_listen), A(try_accept), A(try_send), A(try_sendto),
	A(try_setsockopt), A(try_execve), A(try_execveat), A(try_fork), A(try_clone),
	A(try_clone3), A(try_unshare), A(try_pwrite), A(try_pwritev), A(try_pwritev2),
	A(try_pwritev2_noappend), A(try_ftruncate), A(try_truncate), A(try_punch),
	A(try_extend), A(try_lseek), A(try_splice), A(try_sendfile), A(try_copy),
	A(try_setflags), A(try_getflags), A(try_clone_range), A(try_setfl), A(try_dupfd),
	A(try_setlk), A(try_dup), A(try_dup2), A(try_map_shared), A(try_sync_range),
	A(try_io_setup), A(try_io_submit), A(try_fchmod), A(try_fchown), A(try_xattr),
	A(try_utimes), A(try_rename), A(try_unlink), A(try_flock), A(try_vm_write),
	A(try_vm_read), A(try_ptrace), A(try_kill), A(try_tkill), A(try_tgkill),
	A(try_sigqueue), A(try_setpriority), A(try_prlimit), A(try_prctl), A(try_seccomp),
	A(try_personality), A(try_setuid), A(try_sigaction), A(try_mprotect_exec),
	A(try_pkey_exec), A(try_mmap_exec), A(try_mmap_exec_file), A(try_from_a_thread),
	A(may_append), A(may_appendv), A(may_sync), A(may_getfl), A(may_send), A(may_map),
	A(may_tgkill_itself),
#undef A
};

/* ---- one attempt ----------------------------------------------------------------------- */

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

static void
write_base(const char *path)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, BASE, strlen(BASE)) != (ssize_t)strlen(BASE))
		die(path);
}

static void
hold_descriptors(void)
{
	int pair[2];

	env.segment = open(env.path, O_WRONLY | O_APPEND | O_CLOEXEC);
	env.plain_file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	env.config = memfd_create("config", 0);
	if (env.segment < 0 || env.plain_file < 0 || env.config < 0 ||
	    ftruncate(env.config, 4096) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
		die("descriptors");
	env.control = pair[0];
	snprintf(env.proc, sizeof(env.proc), "/proc/self/fd/%d", env.segment);
	env.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	env.mount_fd = open(env.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	env.handle.h.handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, env.path, &env.handle.h, &(int){ 0 }, 0) < 0)
		env.handle_error = errno;
	if (syscall(SYS_io_setup, 1, &env.aio) < 0)
		env.aio_error = errno;
}

/* As the broker does it: a thread begins between the two steps. */
static void
confine(bool filtered)
{
	pthread_mutex_init(&env.lock, NULL);
	pthread_mutex_lock(&env.lock);
	pthread_barrier_init(&env.begun, NULL, 2);
	if (filtered && confine_self(CONFINE_START) < 0)
		_exit(200);
	if (pthread_create(&env.thread, NULL, thread_main, NULL) != 0)
		_exit(201);
	pthread_barrier_wait(&env.begun); /* what a thread does to begin is forbidden then */
	if (filtered && confine_self(CONFINE_READY) < 0)
		_exit(202);
}

static pid_t
start_victim(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void
result_name(int status, char *buf, size_t n)
{
	if (WIFSIGNALED(status))
		snprintf(buf, n, "SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == 0)
		snprintf(buf, n, "done");
	else if (WEXITSTATUS(status) >= 200)
		snprintf(buf, n, "unconfined");
	else
		snprintf(buf, n, "%s", strerrorname_np(WEXITSTATUS(status)));
}

static void
attempt(const struct attack *a, bool filtered, char *buf, size_t n)
{
	int status;
	pid_t pid;

	unlink(env.other);
	rmdir(env.other);
	write_base(env.path);
	env.victim = start_victim();
	pid = fork();
	if (pid < 0 || env.victim < 0)
		die("fork");
	if (pid == 0) {
		long r;

		hold_descriptors();
		confine(filtered);
		errno = 0;
		r = a->run();
		_exit(r == -1 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	kill(env.victim, SIGKILL);
	waitpid(env.victim, NULL, 0);
	result_name(status, buf, n);
}

static const char *
bytes_of_segment(void)
{
	char now[4096];
	size_t base = strlen(BASE);
	cleanup_fd int fd = open(env.path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, now, sizeof(now));

	if (n < (ssize_t)base || memcmp(now, BASE, base) != 0)
		return "changed";
	return n == (ssize_t)base ? "same" : "appended";
}

static int
run_attacks(const char *dir)
{
	char plain[64], under[64];
	const struct attack *a;

	snprintf(env.dir, sizeof(env.dir), "%s", dir);
	snprintf(env.path, sizeof(env.path), "%s/journal.00000001", env.dir);
	snprintf(env.other, sizeof(env.other), "%s/other", env.dir);
	for (a = attacks; a < attacks + countof(attacks); a++) {
		const char *before;

		attempt(a, false, plain, sizeof(plain));
		before = bytes_of_segment();
		attempt(a, true, under, sizeof(under));
		printf("%s %s %s %s %s\n", a->name, plain, before, under, bytes_of_segment());
		fflush(stdout);
	}
	return 0;
}

/* ---- by number ------------------------------------------------------------------------- */

static const char *const allowed[] = {
#define ALLOW(name, why)		      #name,
#define ALLOW_IF(name, arg, mask, value, why) #name,
#define ALLOW_SELF(name, arg, why)	      #name,
#define UNTIL_READY(name, why)
#include "broker/syscalls.def"
};

static bool
is_allowed(int number)
{
	for (size_t i = 0; i < countof(allowed); i++)
		if (seccomp_syscall_resolve_name(allowed[i]) == number)
			return true;
	return false;
}

static long
call_native(int number)
{
	return syscall(number, 0L, 0L, 0L, 0L, 0L, 0L);
}

static long
call_x32(int number)
{
	return syscall((long)number | X32, 0L, 0L, 0L, 0L, 0L, 0L);
}

static long
call_i386(int number)
{
	long ret = number;

#ifdef __x86_64__
	__asm__ volatile("int $0x80"
			 : "+a"(ret)
			 : "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
			 : "memory", "r8", "r9", "r10", "r11");
#endif
	return ret;
}

static void
try_number(const char *way, long (*call)(int), int number)
{
	char how[64];
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		confine(true);
		call(number);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return;
	result_name(status, how, sizeof(how));
	printf("%s %d %s\n", way, number, how);
}

static int
run_numbers(void)
{
	static const struct {
		const char *name;
		long (*call)(int);
		bool native;
	} ways[] = { { "native", call_native, true }, { "x32", call_x32, false },
		{ "i386", call_i386, false } };
	unsigned tried = 0;

	for (size_t w = 0; w < countof(ways); w++)
		for (int n = 0; n < NUMBER_MAX; n++) {
			if (ways[w].native && is_allowed(n))
				continue;
			tried++;
			fflush(stdout);
			try_number(ways[w].name, ways[w].call, n);
		}
	printf("tried %u\n", tried);
	return 0;
}

int
main(int argc, char **argv)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc == 3 && strcmp(argv[1], "attacks") == 0)
		return run_attacks(argv[2]);
	if (argc == 2 && strcmp(argv[1], "numbers") == 0)
		return run_numbers();
	fprintf(stderr, "usage: broker_filter attacks DIR | numbers\n");
	return 2;
}
