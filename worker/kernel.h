/*
 * kernel: numbers and calls that Debian 12's headers (Linux 6.1) lack or that a C library
 * does not wrap: musl, which the launcher is linked with, or glibc 2.36.  Nothing of ours.
 */
#ifndef WORKER_KERNEL_H
#define WORKER_KERNEL_H

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#ifndef __GLIBC__
#include <linux/mount.h>
#endif

/* Landlock after ABI 2. */
#define KERNEL_LANDLOCK_FS_TRUNCATE    (1ULL << 14) /* ABI 3 */
#define KERNEL_LANDLOCK_FS_IOCTL_DEV   (1ULL << 15) /* ABI 5 */
#define KERNEL_LANDLOCK_NET_BIND_TCP   (1ULL << 0) /* ABI 4 */
#define KERNEL_LANDLOCK_NET_CONNECT_TCP (1ULL << 1)
#define KERNEL_LANDLOCK_SCOPE_ABSTRACT (1ULL << 0) /* ABI 6 */
#define KERNEL_LANDLOCK_SCOPE_SIGNAL   (1ULL << 1)
#define KERNEL_LANDLOCK_LOG_NEW_EXEC   (1u << 1) /* ABI 7: audit what the program tries */

/* Not in glibc 2.36's <sched.h>. */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* Memory-deny-write-execute (6.3). */
#define KERNEL_PR_SET_MDWE	  65
#define KERNEL_PR_GET_MDWE	  66
#define KERNEL_PR_MDWE_REFUSE_EXEC_GAIN 1ul

struct kernel_landlock_ruleset {
	uint64_t fs, net, scoped;
};

/* The kernel's answer about a process that may be gone (6.13; exit since 6.15). */
struct kernel_pidfd_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* a wait status */
};
#define KERNEL_PIDFD_INFO_EXIT (1ULL << 3)
#define KERNEL_PIDFD_GET_INFO  _IOWR(0xFF, 11, struct kernel_pidfd_info)

static inline int
kernel_clone3(struct clone_args *a)
{
	return (int)syscall(SYS_clone3, a, sizeof(*a));
}

/* The default action; a C library keeps some numbers to itself. */
static inline int
kernel_signal_default(int signo)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { 0 };

	return (int)syscall(SYS_rt_sigaction, signo, &action, NULL, sizeof(action.mask));
}

/* With each of the next four musl makes a second call, or four around it: of use to threads,
 * and to kernels that know no O_CLOEXEC. */
static inline int
kernel_open_path(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_PATH | O_CLOEXEC, 0);
}

static inline int
kernel_dup_above(int fd, int above)
{
	return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, above);
}

static inline int
kernel_setresuid(uid_t uid)
{
	return (int)syscall(SYS_setresuid, uid, uid, uid);
}

static inline int
kernel_setresgid(gid_t gid)
{
	return (int)syscall(SYS_setresgid, gid, gid, gid);
}

static inline int
kernel_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .resolve = resolve };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static inline int
kernel_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int
kernel_seccomp(unsigned op, unsigned flags, void *arg)
{
	return (int)syscall(SYS_seccomp, op, flags, arg);
}

static inline int
kernel_landlock_create(const struct kernel_landlock_ruleset *r, size_t n, uint32_t flags)
{
	return (int)syscall(SYS_landlock_create_ruleset, r, n, flags);
}

static inline int
kernel_landlock_add(int ruleset, const struct landlock_path_beneath_attr *a)
{
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, a, 0);
}

static inline int
kernel_landlock_restrict(int ruleset, uint32_t flags)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset, flags);
}

#ifndef __GLIBC__

static inline int
close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int
fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}

static inline int
fsconfig(int fs, unsigned command, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int
fsmount(int fs, unsigned flags, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fs, flags, attr);
}

static inline int
open_tree(int dir, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int
move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int
mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr, size_t n)
{
	return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, n);
}

#endif /* !__GLIBC__ */

#endif /* WORKER_KERNEL_H */
