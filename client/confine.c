#include "client/confine.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>

#include "common/util.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define FOREIGN_ABI 0x40000000u /* x32 on x86-64; no such numbers elsewhere */

/* What an event loop over open descriptors needs, and what ends a process. */
static const uint16_t allowed[] = {
	/* bytes in and out */
	__NR_read,
	__NR_write,
	__NR_writev,
	__NR_recvmsg,
	__NR_recvfrom,
	__NR_sendto,
	/* readiness, signals, time */
	__NR_ppoll,
	__NR_rt_sigaction,
	__NR_rt_sigprocmask,
	__NR_rt_sigreturn,
	__NR_restart_syscall,
	__NR_clock_gettime,
	__NR_gettimeofday,
#ifdef __NR_poll
	__NR_poll,
#endif
	/* descriptors there are: their flags, their end */
	__NR_close,
	__NR_fcntl,
	__NR_fstat,
	__NR_newfstatat,
	__NR_getsockopt,
	/* memory */
	__NR_brk,
	__NR_mmap,
	__NR_munmap,
	__NR_mremap,
	__NR_mprotect,
	__NR_madvise,
	__NR_futex,
	__NR_getrandom,
	/* reaping, and dying of the third Ctrl-C: tgkill is held to this process below */
	__NR_wait4,
	__NR_getpid,
	__NR_gettid,
	__NR_exit,
	__NR_exit_group,
};

#define WORD(member)                                                                           \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int
load_filter(void)
{
#ifdef ARCH
	struct sock_filter code[countof(allowed) * 2 + 16] = {
		WORD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		REFUSE,
		WORD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_ABI, 0, 1),
		REFUSE,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_tgkill, 0, 4),
		WORD(args[0]), /* the low half, on these little-endian machines: a pid */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1),
		ALLOW,
		REFUSE,
	};
	struct sock_fprog program = { .filter = code };
	size_t i, n = 11;

	for (i = 0; i < countof(allowed); i++) {
		code[n++] =
		    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		code[n++] = (struct sock_filter)ALLOW;
	}
	code[n++] = (struct sock_filter)REFUSE;
	program.len = (unsigned short)n;
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
		&program) != 0)
		return errno != 0 ? -errno : -ESRCH;
	return 0;
#else
	return -ENOSYS;
#endif
}

/* No rule: nothing beneath any directory, whatever the filter may have let through. */
static void
close_files(void)
{
	struct landlock_ruleset_attr attr = { 0 };
	long abi =
	    syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	int fd;

	if (abi < 1)
		return;
	/* Each version adds one right at the top: 13 in the first, refer, truncate. */
	attr.handled_access_fs = (1ull << (abi == 1 ? 13 : abi == 2 ? 14 : 15)) - 1;
	fd = (int)syscall(
	    __NR_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	if (fd < 0)
		return;
	(void)!syscall(__NR_landlock_restrict_self, fd, 0);
	close(fd);
}

int
client_confine(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
#ifdef CAISSON_ASAN
	return 0; /* a sanitizer reads /proc and starts a thread when the process ends */
#endif
	close_files();
	return load_filter();
}
