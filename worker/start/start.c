/*
 * start: the launcher's own start, and the C library's functions that it calls.
 *
 * glibc begins a program by asking the processor what it can do, and on a virtual machine
 * each answer is a trap: 0.3 ms, a sixth of a whole spawn, for functions that this program
 * has no use for.  It is single-threaded, allocates nothing and formats two numbers, so
 * what it needs of a library are the bare system calls, under the names and with the
 * meaning of the C library's headers.
 *
 * Linked into caisson-worker only, and only where it is static (Makefile): nothing else may
 * see these names.  x86-64.
 */
/* Its own definitions stand in the headers then. */
#undef _FORTIFY_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <asm/prctl.h>

/* ---- the beginning ---- */

/* What %fs points at: the ABI keeps the stack protector's secret at 40. */
static struct {
	void *self;
	uint64_t pad[4];
	uint64_t canary;
} thread;

static int error_number;

int main(int argc, char **argv);
_Noreturn void start_c(long *stack);

__asm__(".text\n"
	".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	endbr64\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call start_c\n"
	"	hlt\n"
	".size _start, . - _start\n");

static long
call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* The secret is of the kernel's random bytes (AT_RANDOM, 25), and keeps a NUL. */
_Noreturn void __attribute__((no_stack_protector))
start_c(long *stack)
{
	long argc = stack[0], *p = stack + 1 + argc + 1;

	while (*p++ != 0)
		; /* the environment */
	for (; p[0] != 0 && p[0] != 25; p += 2)
		;
	thread.self = &thread;
	if (p[0] == 25)
		thread.canary = *(const uint64_t *)p[1] & ~(uint64_t)0xff;
	call6(SYS_arch_prctl, ARCH_SET_FS, (long)(uintptr_t)&thread, 0, 0, 0, 0);
	_exit(main((int)argc, (char **)(stack + 1)));
}

_Noreturn void __stack_chk_fail(void);
_Noreturn void
__stack_chk_fail(void)
{
	__builtin_trap();
}

/* ---- system calls ---- */

int *
__errno_location(void)
{
	return &error_number;
}

static long
result(long ret)
{
	if (ret < 0 && ret > -4096) {
		error_number = (int)-ret;
		return -1;
	}
	return ret;
}

long
syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return result(call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
}

#define L(x) ((long)(x))
#define CALL0(type, name) \
	type name(void) { return (type)result(call6(SYS_##name, 0, 0, 0, 0, 0, 0)); }
#define CALL1(type, name, A) \
	type name(A a) { return (type)result(call6(SYS_##name, L(a), 0, 0, 0, 0, 0)); }
#define CALL2(type, name, A, B) \
	type name(A a, B b) { return (type)result(call6(SYS_##name, L(a), L(b), 0, 0, 0, 0)); }
#define CALL3(type, name, A, B, C) \
	type name(A a, B b, C c) \
	{ return (type)result(call6(SYS_##name, L(a), L(b), L(c), 0, 0, 0)); }
#define CALL4(type, name, A, B, C, D) \
	type name(A a, B b, C c, D d) \
	{ return (type)result(call6(SYS_##name, L(a), L(b), L(c), L(d), 0, 0)); }
#define CALL5(type, name, A, B, C, D, E) \
	type name(A a, B b, C c, D d, E e) \
	{ return (type)result(call6(SYS_##name, L(a), L(b), L(c), L(d), L(e), 0)); }

/* clang-format off */
CALL2(int, access, const char *, int)
CALL1(int, chdir, const char *)
CALL2(int, clock_gettime, clockid_t, struct timespec *)
CALL1(int, close, int)
CALL3(int, close_range, unsigned, unsigned, int)
CALL2(int, dup2, int, int)
CALL3(int, dup3, int, int, int)
CALL3(int, execve, const char *, char *const *, char *const *)
CALL1(int, fchdir, int)
CALL3(int, fchown, int, uid_t, gid_t)
CALL5(int, fsconfig, int, unsigned, const char *, const void *, int)
CALL3(int, fsmount, int, unsigned, unsigned)
CALL2(int, fsopen, const char *, unsigned)
CALL2(int, fstat, int, struct stat *)
CALL2(int, getgroups, int, gid_t *)
CALL0(pid_t, getpid)
CALL2(int, kill, pid_t, int)
CALL3(int, mkdirat, int, const char *, mode_t)
CALL4(int, mknodat, int, const char *, mode_t, dev_t)
CALL5(int, mount, const char *, const char *, const char *, unsigned long, const void *)
CALL5(int, mount_setattr, int, const char *, unsigned, struct mount_attr *, size_t)
CALL5(int, move_mount, int, const char *, int, const char *, unsigned)
CALL2(int, munmap, void *, size_t)
CALL3(int, open_tree, int, const char *, unsigned)
CALL3(int, poll, struct pollfd *, nfds_t, int)
CALL3(ssize_t, read, int, void *, size_t)
CALL3(ssize_t, sendmsg, int, const struct msghdr *, int)
CALL2(int, setgroups, size_t, const gid_t *)
CALL2(int, sethostname, const char *, size_t)
CALL2(int, setns, int, int)
CALL3(int, setresgid, gid_t, gid_t, gid_t)
CALL3(int, setresuid, uid_t, uid_t, uid_t)
CALL0(pid_t, setsid)
CALL2(int, stat, const char *, struct stat *)
CALL3(int, symlinkat, const char *, int, const char *)
CALL1(mode_t, umask, mode_t)
CALL2(int, umount2, const char *, int)
CALL1(int, unshare, int)
CALL3(ssize_t, write, int, const void *, size_t)
/* clang-format on */

int
pipe2(int ret[2], int flags)
{
	return (int)result(call6(SYS_pipe2, L(ret), flags, 0, 0, 0, 0));
}

_Noreturn void
_exit(int status)
{
	for (;;)
		call6(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	long mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	return (int)result(call6(SYS_openat, AT_FDCWD, L(path), flags, mode, 0, 0));
}

int
openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	long mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	return (int)result(call6(SYS_openat, dir, L(path), flags, mode, 0, 0));
}

/* What _FORTIFY_SOURCE makes of these where it cannot see that no file is made. */
int __open_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);

int
__open_2(const char *path, int flags)
{
	return __openat_2(AT_FDCWD, path, flags);
}

int
__openat_2(int dir, const char *path, int flags)
{
	if (flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY)
		__builtin_trap();
	return openat(dir, path, flags);
}

int
fcntl(int fd, int command, ...)
{
	va_list ap;
	long arg;

	va_start(ap, command);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)result(call6(SYS_fcntl, fd, command, arg, 0, 0, 0));
}

int
prctl(int option, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	return (int)result(call6(SYS_prctl, option, L(a[0]), L(a[1]), L(a[2]), L(a[3]), 0));
}

void *
mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return (void *)result(call6(SYS_mmap, L(at), L(n), prot, flags, fd, offset));
}

int
getrlimit(__rlimit_resource_t resource, struct rlimit *ret)
{
	return (int)result(call6(SYS_prlimit64, 0, resource, 0, L(ret), 0, 0));
}

int
setrlimit(__rlimit_resource_t resource, const struct rlimit *r)
{
	return (int)result(call6(SYS_prlimit64, 0, resource, L(r), 0, 0, 0));
}

int
waitid(idtype_t type, id_t id, siginfo_t *ret, int options)
{
	return (int)result(call6(SYS_waitid, type, id, L(ret), options, 0, 0));
}

pid_t
waitpid(pid_t pid, int *ret, int options)
{
	return (pid_t)result(call6(SYS_wait4, pid, L(ret), options, 0, 0, 0));
}

/* ---- signals: the default action, or none ---- */

__sighandler_t
signal(int signo, __sighandler_t handler)
{
	struct {
		__sighandler_t handler;
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { .handler = handler };

	return result(call6(SYS_rt_sigaction, signo, L(&action), 0, sizeof(action.mask), 0, 0)) < 0 ?
	    SIG_ERR : SIG_DFL;
}

int
sigemptyset(sigset_t *set)
{
	memset(set, 0, sizeof(*set));
	return 0;
}

int
sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)result(call6(SYS_rt_sigprocmask, how, L(set), L(old), 8, 0, 0));
}

/* ---- strings ---- */

void *
memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *p = to;

	__asm__ volatile("rep movsb" : "+D"(p), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *
memset(void *to, int c, size_t n)
{
	void *p = to;

	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
	return to;
}

/* What _FORTIFY_SOURCE makes of memcpy where it cannot tell. */
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room);
void *
__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
	if (n > room)
		__builtin_trap();
	return memcpy(to, from, n);
}

size_t
strlen(const char *s)
{
	const char *p = s;

	while (*p != '\0')
		p++;
	return (size_t)(p - s);
}

int
strncmp(const char *a, const char *b, size_t n)
{
	for (; n > 0 && *a == *b && *a != '\0'; n--)
		a++, b++;
	return n == 0 ? 0 : (unsigned char)*a - (unsigned char)*b;
}

int
strcmp(const char *a, const char *b)
{
	return strncmp(a, b, PTRDIFF_MAX);
}

char *
strchr(const char *s, int c)
{
	for (; *s != (char)c; s++)
		if (*s == '\0')
			return NULL;
	return (char *)(uintptr_t)s;
}

size_t
strspn(const char *s, const char *set)
{
	const char *p = s;

	while (*p != '\0' && strchr(set, *p) != NULL)
		p++;
	return (size_t)(p - s);
}

size_t
strcspn(const char *s, const char *set)
{
	const char *p = s;

	while (*p != '\0' && strchr(set, *p) == NULL)
		p++;
	return (size_t)(p - s);
}
