/*
 * An interpreter for exported filters, and an oracle that knows only what the rows of
 * profiles.def mean.  Neither shares a line with what they check.
 */
#ifndef TESTS_UNIT_PROFILES_ORACLE_H
#define TESTS_UNIT_PROFILES_ORACLE_H

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>

#include <check.h>
#include "common/util.h"

/* The kernel's classic BPF, as far as seccomp allows it. */
static inline uint32_t
interpret(const struct sock_filter *f, size_t len, const struct seccomp_data *d)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = { 0 };

	for (size_t pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &f[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k + 4 > sizeof(*d))
				ck_abort_msg("reads beyond the data at %zu", pc);
			memcpy(&a, (const char *)d + i->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K: a &= i->k; break;
		case BPF_ST: mem[i->k] = a; break;
		case BPF_LD | BPF_MEM: a = mem[i->k]; break;
		case BPF_MISC | BPF_TAX: x = a; break;
		case BPF_MISC | BPF_TXA: a = x; break;
		case BPF_JMP | BPF_JA: pc += i->k; break;
		case BPF_JMP | BPF_JEQ | BPF_K: pc += a == i->k ? i->jt : i->jf; break;
		case BPF_JMP | BPF_JGT | BPF_K: pc += a > i->k ? i->jt : i->jf; break;
		case BPF_JMP | BPF_JGE | BPF_K: pc += a >= i->k ? i->jt : i->jf; break;
		case BPF_JMP | BPF_JSET | BPF_K: pc += a & i->k ? i->jt : i->jf; break;
		case BPF_RET | BPF_K: return i->k;
		default: ck_abort_msg("instruction %#x at %zu", i->code, pc);
		}
	}
	ck_abort_msg("fell off the end");
	return 0;
}

/* The rows once more, as meanings; the oracle is the loop in expect(). */
enum { N = 1, I = 2, P = 4, W = 8, F = 16, J = 32, X = 64, ALL = N | I | J | P | F | W | X };
#define CLONE_FORBIDDEN \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	    CLONE_NEWPID | CLONE_NEWNET | CLONE_PARENT | CLONE_PTRACE)
#define INT 0xffffffffULL
#define SOCK_TYPE 0xfu
#define TMPFILE	 020000000 /* O_TMPFILE without its O_DIRECTORY */
#define NEW_FILE (O_CREAT | TMPFILE)
#define USUAL_ADDRESS (1ULL << 46)
#ifndef ARCH_CET_STATUS
#define ARCH_CET_STATUS 0x3001
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

static const struct row {
	const char *name; /* NULL: a GROUP */
	const char *reason;
	unsigned lists;
	int nr;
	uint32_t action;
	int argument; /* -1: none */
	uint64_t mask, value;
	int also; /* with also_mask: a second argument */
	uint64_t also_mask, also_value;
} rows[] = {
#define GROUP(l, why)	 { NULL, why, (l), 0, 0, -1, 0, 0, 0, 0, 0 },
#define ALLOW(c)	 { #c, NULL, 0, SYS_##c, SECCOMP_RET_ALLOW, -1, 0, 0, 0, 0, 0 },
#define ALLOW_IF(c, a, m, v) { #c, NULL, 0, SYS_##c, SECCOMP_RET_ALLOW, a, m, v, 0, 0, 0 },
#define ALLOW_IF2(c, a, m, v, b, k, w) \
	{ #c, NULL, 0, SYS_##c, SECCOMP_RET_ALLOW, a, m, v, b, k, w },
#define FAIL(c, e)	 { #c, NULL, 0, SYS_##c, SECCOMP_RET_ERRNO | (e), -1, 0, 0, 0, 0, 0 },
#define FAIL_IF(c, a, m, v, e) { #c, NULL, 0, SYS_##c, SECCOMP_RET_ERRNO | (e), a, m, v, 0, 0, 0 },
#define FAIL_IF2(c, a, m, v, b, k, w, e) \
	{ #c, NULL, 0, SYS_##c, SECCOMP_RET_ERRNO | (e), a, m, v, b, k, w },
#include "supervisor/profiles.def"
};

static inline uint32_t
expect(unsigned list, const struct seccomp_data *d)
{
	unsigned lists = 0;

	if (d->arch != AUDIT_ARCH_X86_64)
		return SECCOMP_RET_USER_NOTIF;
	for (size_t i = 0; i < countof(rows); i++) {
		const struct row *r = &rows[i];

		if (r->name == NULL)
			lists = r->lists;
		else if (lists & list && r->nr == d->nr &&
		    (r->argument < 0 ||
			(d->args[r->argument] & r->mask) == (r->value & r->mask)) &&
		    (d->args[r->also] & r->also_mask) == r->also_value)
			return r->action;
	}
	return SECCOMP_RET_USER_NOTIF;
}

#endif /* TESTS_UNIT_PROFILES_ORACLE_H */
