/*
 * Hostile system calls, one for each name: attack_calls NAME.  Prints "errno NAME" where the
 * kernel refused, "done" where it did what was asked; a chamber ends before either where the
 * call is on no list.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"

#define HIGH (1L << 32) /* a bit that the kernel ignores, and a filter may not */

static char page[4096] __attribute__((aligned(4096)));
#define P ((long)page)

static const struct call {
	const char *name;
	long nr, a[6];
} calls[] = {
	/* other processes */
	{ "ptrace-traceme", SYS_ptrace, { 0 } },
	{ "ptrace-seize-init", SYS_ptrace, { 0x4206, 1 } },
	{ "process-vm-readv", SYS_process_vm_readv, { 1, P, 1, P, 1 } },
	{ "process-vm-writev", SYS_process_vm_writev, { 1, P, 1, P, 1 } },
	{ "pidfd-open", SYS_pidfd_open, { 1 } },
	{ "pidfd-getfd", 438, { 3, 0 } },
	{ "pidfd-send-signal", 424, { 3, 9 } },
	{ "process-madvise", 440, { 3 } },
	{ "kcmp", SYS_kcmp, { 1, 1 } },
	{ "prlimit-init", SYS_prlimit64, { 1, 4, 0, P } },
	{ "prlimit-high-half", SYS_prlimit64, { HIGH | 1, 4, 0, P } },
	{ "migrate-pages", SYS_migrate_pages, { 1 } },
	{ "move-pages", SYS_move_pages, { 1 } },
	{ "rt-tgsigqueueinfo", SYS_rt_tgsigqueueinfo, { 1, 1, 9, P } },
	/* namespaces and mounts */
	{ "unshare-user", SYS_unshare, { CLONE_NEWUSER } },
	{ "setns", SYS_setns, { 3, 0 } },
	{ "clone-user", SYS_clone, { CLONE_NEWUSER | 17 } },
	{ "clone-user-high-half", SYS_clone, { HIGH | CLONE_NEWUSER | 17 } },
	{ "clone-net", SYS_clone, { CLONE_NEWNET | 17 } },
	{ "clone-parent", SYS_clone, { CLONE_PARENT | 17 } },
	{ "clone3", SYS_clone3, { P, 64 } },
	{ "mount", SYS_mount, { 0, P, 0, 32 } },
	{ "umount", SYS_umount2, { P, 2 } },
	{ "pivot-root", SYS_pivot_root, { P, P } },
	{ "chroot", SYS_chroot, { P } },
	{ "open-tree", 428, { -100, P, 1 } },
	{ "move-mount", 429, { 3, P, -100, P } },
	{ "fsopen", 430, { P } },
	{ "mount-setattr", 442, { -100, P, 0, P, 32 } },
	{ "statmount", 457, { P, P } },
	{ "listmount", 458, { P, P } },
	{ "open-tree-attr", 467, { -100, P } },
	/* the kernel's own parts */
	{ "bpf", SYS_bpf, { 0, P, 8 } },
	{ "perf-event-open", SYS_perf_event_open, { P, 0, -1, -1 } },
	{ "userfaultfd", SYS_userfaultfd, { 0 } },
	{ "io-uring-setup", 425, { 1, P } },
	{ "io-uring-register", 427, { 3 } },
	{ "keyctl", SYS_keyctl, { 0, -3 } },
	{ "add-key", SYS_add_key, { P, P, P, 1, -3 } },
	{ "request-key", SYS_request_key, { P, P, P, -3 } },
	{ "fanotify-init", SYS_fanotify_init, { 0 } },
	{ "inotify-init", SYS_inotify_init1, { 0 } },
	{ "open-by-handle-at", SYS_open_by_handle_at, { 3, P, 0 } },
	{ "name-to-handle-at", SYS_name_to_handle_at, { -100, P, P, P } },
	{ "init-module", SYS_init_module, { P, 1, P } },
	{ "kexec-load", SYS_kexec_load, { 0 } },
	{ "iopl", SYS_iopl, { 3 } },
	{ "modify-ldt", SYS_modify_ldt, { 0, P, 16 } },
	{ "reboot", SYS_reboot, { 0 } },
	{ "syslog", SYS_syslog, { 3, P, 16 } },
	{ "settimeofday", SYS_settimeofday, { P } },
	{ "sethostname", SYS_sethostname, { P, 1 } },
	{ "quotactl", SYS_quotactl, { 0 } },
	{ "vhangup", SYS_vhangup, { 0 } },
	{ "memfd-create", SYS_memfd_create, { P, 0 } },
	{ "memfd-secret", 447, { 0 } },
	{ "execveat", SYS_execveat, { -100, P, P, P, 0 } },
	{ "shmget", SYS_shmget, { 1, 4096, 0600 | 01000 } },
	{ "msgget", SYS_msgget, { 1, 0600 | 01000 } },
	{ "mq-open", SYS_mq_open, { P, 0102, 0600, 0 } },
	{ "sched-fifo", SYS_sched_setscheduler, { 0, 1, P } },
	{ "sched-setattr", SYS_sched_setattr, { 0, P, 0 } },
	{ "number-of-nothing", 999, { 0 } },
	{ "number-below-zero", -7, { 0 } },
	{ "x32-getpid", 0x40000000 | SYS_getpid, { 0 } },
	{ "x32-ptrace", 0x40000000 | 521, { 0 } },
	/* one command of a call that has many */
	{ "seccomp-listener", SYS_seccomp, { 1, 8, P } },
	{ "seccomp-prctl", SYS_prctl, { PR_SET_SECCOMP, 2, P } },
	{ "prctl-set-mm", SYS_prctl, { PR_SET_MM, 1, P } },
	{ "prctl-ambient", SYS_prctl, { PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21 } },
	{ "prctl-high-half", SYS_prctl, { HIGH | PR_SET_MM, 1, P } },
	{ "prctl-subreaper", SYS_prctl, { PR_SET_CHILD_SUBREAPER, 1 } },
	{ "personality-no-aslr", SYS_personality, { ADDR_NO_RANDOMIZE } },
	{ "personality-high-half", SYS_personality, { HIGH | ADDR_NO_RANDOMIZE } },
	{ "arch-set-gs", SYS_arch_prctl, { 0x1001, 0 } },
	{ "tiocsti", SYS_ioctl, { 0, TIOCSTI, P } },
	{ "tiocsti-high-half", SYS_ioctl, { 0, HIGH | TIOCSTI, P } },
	{ "tioclinux", SYS_ioctl, { 0, 0x541c, P } },
	{ "pidfd-get-namespace", SYS_ioctl, { 0, 0xff01 } },
	{ "rndaddentropy", SYS_ioctl, { 0, 0x40085203, P } },
	{ "fs-set-flags", SYS_ioctl, { 0, 0x40086602, P } },
	{ "fcntl-lease", SYS_fcntl, { 0, 1024, 0 } },
	{ "fcntl-notify", SYS_fcntl, { 0, 1026, 1 } },
	{ "fcntl-owner", SYS_fcntl, { 0, F_SETOWN, 1 } },
	{ "fcntl-pipe-size", SYS_fcntl, { 0, 1031, 1 << 20 } },
	{ "socket-unix", SYS_socket, { AF_UNIX, SOCK_STREAM } },
	{ "socket-inet", SYS_socket, { AF_INET, SOCK_DGRAM } },
	{ "socket-netlink", SYS_socket, { AF_NETLINK, SOCK_RAW } },
	{ "socket-packet", SYS_socket, { AF_PACKET, SOCK_RAW } },
	{ "socket-alg", SYS_socket, { AF_ALG, SOCK_SEQPACKET } },
	{ "socket-vsock", SYS_socket, { 40, SOCK_STREAM } },
	{ "socket-high-half", SYS_socket, { HIGH | AF_PACKET, SOCK_RAW } },
	{ "socketpair-inet", SYS_socketpair, { AF_INET, SOCK_STREAM, 0, P } },
	{ "send-oob", SYS_sendto, { 0, P, 1, MSG_OOB } },
	{ "send-oob-high-half", SYS_sendto, { 0, P, 1, HIGH | MSG_OOB } },
	{ "recv-oob", SYS_recvfrom, { 0, P, 1, MSG_OOB } },
	{ "setsockopt", SYS_setsockopt, { 0, SOL_SOCKET, SO_RCVBUFFORCE, P, 4 } },
	{ "setuid", SYS_setuid, { 0 } },
	{ "setgroups", SYS_setgroups, { 0, 0 } },
	{ "capset", SYS_capset, { P, P } },
	{ "mknod-device", SYS_mknodat, { -100, P, 020600, 0x103 } },
	{ "openat2-hides-its-mode", 437, { -100, P, P, 24 } },
	/* the neighbours, which work */
	{ "neighbour-getpid", SYS_getpid, { 0 } },
	{ "neighbour-prctl", SYS_prctl, { PR_GET_DUMPABLE } },
	{ "neighbour-prlimit", SYS_prlimit64, { 0, 4, 0, P } },
	{ "neighbour-clone", SYS_clone, { 17 } },
};

/* The other door: the same kernel by the numbers of i386. */
static long
i386(long nr)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(0L), "c"(0L), "d"(0L) : "memory");
	return ret;
}

int
main(int argc, char **argv)
{
	const struct call *c;
	long ret;

	memcpy(page, "/tmp", 5);
	if (argc == 2 && strcmp(argv[1], "i386-getpid") == 0) {
		ret = i386(20);
		printf(ret < 0 ? "errno %ld\n" : "done %ld\n", ret);
		return 0;
	}
	for (c = calls; c < calls + countof(calls); c++)
		if (argc == 2 && strcmp(argv[1], c->name) == 0)
			break;
	if (c == calls + countof(calls))
		return 2;
	ret = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
	if (ret == 0 && c->nr == SYS_clone && getpid() != 1 && c->a[0] == 17 && getppid() > 1 &&
	    waitpid(-1, NULL, 0) < 0)
		_exit(0); /* the child */
	if (ret < 0)
		printf("errno %s\n", strerrorname_np(errno));
	else
		printf("done\n");
	return 0;
}
