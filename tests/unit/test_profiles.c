/*
 * profiles: the exported filters against an oracle of their own.  The BPF is interpreted
 * here, call by call, and compared with what the rows of profiles.def mean by themselves.
 */
#include "supervisor/profiles.h"

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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

#include <check.h>
#include <seccomp.h>

#include "common/util.h"
#include "supervisor/profiles_rules.h"

/* The kernel's classic BPF, as far as seccomp allows it. */
static uint32_t
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
#define NEW_FILE (O_CREAT | 020000000) /* O_TMPFILE without its O_DIRECTORY */
#ifndef ARCH_CET_STATUS
#define ARCH_CET_STATUS 0x3001
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

static const struct row {
	const char *name;
	unsigned lists;
	int nr;
	uint32_t action;
	int argument; /* -1: none */
	uint64_t mask, value;
} rows[] = {
#define GROUP(l, reason) { .name = NULL, .lists = (l) },
#define ALLOW(c)	 { #c, 0, SYS_##c, SECCOMP_RET_ALLOW, -1, 0, 0 },
#define ALLOW_IF(c, a, m, v) { #c, 0, SYS_##c, SECCOMP_RET_ALLOW, a, m, v },
#define FAIL(c, e)	 { #c, 0, SYS_##c, SECCOMP_RET_ERRNO | (e), -1, 0, 0 },
#define FAIL_IF(c, a, m, v, e) { #c, 0, SYS_##c, SECCOMP_RET_ERRNO | (e), a, m, v },
#include "supervisor/profiles.def"
};

static const struct {
	const char *name;
	bool network;
	unsigned list;
} filters[] = {
	{ "native", false, N },
	{ "interpreter", false, I },
	{ "provider", false, P },
	{ "provider", true, W },
	{ "files", false, F },
	{ "jit", false, J },
	{ "jit", true, X },
	{ "native", true, W },
	{ "interpreter", true, W },
};

static uint32_t
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
			(d->args[r->argument] & r->mask) == (r->value & r->mask)))
			return r->action;
	}
	return SECCOMP_RET_USER_NOTIF;
}

static const struct sock_filter *bpf;
static size_t bpf_len;

static void
compare(int i, const struct seccomp_data *d)
{
	uint32_t got = interpret(bpf, bpf_len, d), want = expect(filters[i].list, d);

	if (got != want) /* ck_assert writes to a file each time */
		ck_abort_msg("%s: call %d (%#llx, %#llx) of %#x: %#x instead of %#x",
		    filters[i].name, d->nr, (unsigned long long)d->args[0],
		    (unsigned long long)d->args[1], d->arch, got, want);
}

static void
load(int i)
{
	ck_assert_int_eq(profile_filter(profile_named(filters[i].name), filters[i].network, &bpf,
			     &bpf_len), 0);
	ck_assert_uint_gt(bpf_len, 0);
	ck_assert_uint_lt(bpf_len, 1024);
}

/* Pitfall: a list that misses new calls, or the same numbers by another door. */
START_TEST(every_number_has_the_meaning_of_its_row)
{
	static const uint32_t arches[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0 };
	struct seccomp_data d = { 0 };

	load(_i);
	for (size_t a = 0; a < countof(arches); a++)
		for (int nr = 0; nr < 1024; nr++) {
			d.arch = arches[a];
			d.nr = nr;
			compare(_i, &d);
			d.nr = nr | 0x40000000;
			ck_assert_uint_eq(interpret(bpf, bpf_len, &d), SECCOMP_RET_USER_NOTIF);
		}
}
END_TEST

/* Pitfall: conditions on half of an argument, or on more of it than the kernel reads. */
START_TEST(every_condition_holds_at_its_edges)
{
	struct seccomp_data d;

	load(_i);
	for (size_t r = 0; r < countof(rows); r++) {
		uint64_t near[64];
		size_t n = 0;

		if (rows[r].name == NULL || rows[r].argument < 0)
			continue;
		for (int bit = 0; bit < 32; bit++)
			near[n++] = rows[r].value ^ 1ULL << bit;
		near[n++] = rows[r].value;
		near[n++] = rows[r].value + 1;
		near[n++] = rows[r].value - 1;
		near[n++] = rows[r].value | 1ULL << 32;
		near[n++] = rows[r].value | 0xffffffff00000000ULL;
		near[n++] = 0;
		near[n++] = UINT64_MAX;
		for (size_t v = 0; v < n; v++) {
			memset(&d, 0, sizeof(d));
			d.arch = AUDIT_ARCH_X86_64;
			d.nr = rows[r].nr;
			d.args[rows[r].argument] = near[v];
			compare(_i, &d);
		}
	}
}
END_TEST

/* Two conditions on different arguments: either lets the call through, neither more. */
START_TEST(no_file_is_made_set_uid)
{
	static const struct {
		int nr, flags, mode; /* arguments; -1: none */
	} calls[] = {
		{ SYS_open, 1, 2 }, { SYS_openat, 2, 3 }, { SYS_creat, -1, 1 }, { SYS_chmod, -1, 1 },
		{ SYS_fchmod, -1, 1 }, { SYS_fchmodat, -1, 2 },
	};
	static const uint64_t flags[] = { O_CREAT, O_CREAT | O_WRONLY | O_EXCL, 020000000,
		O_TMPFILE | O_RDWR, 1ULL << 32 | O_CREAT };
	static const uint64_t bits[] = { 04000, 02000, 06000, 04755, 1ULL << 32 | 04000 };

	load(_i);
	for (size_t c = 0; c < countof(calls); c++)
		for (size_t f = 0; f < countof(flags); f++)
			for (size_t b = 0; b < countof(bits); b++) {
				struct seccomp_data d = { .arch = AUDIT_ARCH_X86_64,
					.nr = calls[c].nr };

				if (calls[c].flags >= 0)
					d.args[calls[c].flags] = flags[f];
				d.args[calls[c].mode] = bits[b];
				compare(_i, &d);
				ck_assert_uint_ne(interpret(bpf, bpf_len, &d), SECCOMP_RET_ALLOW);
				d.args[calls[c].mode] = 01777;
				ck_assert_uint_eq(interpret(bpf, bpf_len, &d), SECCOMP_RET_ALLOW);
				if (calls[c].flags < 0)
					continue;
				/* Without a file to make, the mode is whatever stood in the register. */
				d.args[calls[c].flags] = O_RDWR | O_DIRECTORY;
				d.args[calls[c].mode] = UINT64_MAX;
				ck_assert_uint_eq(interpret(bpf, bpf_len, &d), SECCOMP_RET_ALLOW);
			}
}
END_TEST

static const char *const never[] = { "ptrace", "mount", "umount2", "unshare", "setns", "bpf",
	"keyctl", "add_key", "perf_event_open", "process_vm_readv", "process_vm_writev",
	"pidfd_getfd", "kexec_load", "init_module", "userfaultfd", "open_by_handle_at",
	"pivot_root", "chroot", "iopl", "quotactl", "acct", "swapon", "fsopen",
	"move_mount", "open_tree", "mount_setattr", "kcmp", "move_pages" };

START_TEST(what_no_program_needs_is_on_no_list)
{
	struct seccomp_data d = { .arch = AUDIT_ARCH_X86_64 };

#ifdef CAISSON_ASAN
	if (_i == 0) {
		puts("skip: LeakSanitizer needs ptrace");
		return;
	}
#endif
	d.nr = seccomp_syscall_resolve_name(never[_i]);
	ck_assert_int_ge(d.nr, 0);
	for (size_t i = 0; i < countof(filters); i++) {
		load((int)i);
		ck_assert_uint_eq(interpret(bpf, bpf_len, &d), SECCOMP_RET_USER_NOTIF);
	}
}
END_TEST

/* A listener of its own could answer in the supervisor's place. */
START_TEST(only_a_provider_adds_filters_and_never_a_listener)
{
	struct seccomp_data d = { .arch = AUDIT_ARCH_X86_64, .nr = SYS_seccomp };
	bool provider = (filters[_i].list & (P | W | F)) != 0;

	load(_i);
	d.args[0] = SECCOMP_SET_MODE_FILTER;
	ck_assert_uint_eq(interpret(bpf, bpf_len, &d),
	    provider ? SECCOMP_RET_ALLOW : SECCOMP_RET_USER_NOTIF);
	for (d.args[1] = 1; d.args[1] < 64; d.args[1]++)
		ck_assert_uint_ne(interpret(bpf, bpf_len, &d), SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(the_hand_shake_can_be_finished_under_every_list)
{
	static const int needed[] = { SYS_read, SYS_write, SYS_execve, SYS_exit_group };
	struct seccomp_data d = { .arch = AUDIT_ARCH_X86_64 };

	load(_i);
	for (size_t i = 0; i < countof(needed); i++) {
		d.nr = needed[i];
		ck_assert_uint_eq(interpret(bpf, bpf_len, &d), SECCOMP_RET_ALLOW);
	}
}
END_TEST

START_TEST(a_filter_is_built_once)
{
	const struct sock_filter *again;
	size_t n;

	load(_i);
	ck_assert_int_eq(profile_filter(profile_named(filters[_i].name), filters[_i].network,
			     &again, &n), 0);
	ck_assert_ptr_eq(again, bpf);
}
END_TEST

START_TEST(a_profile_that_does_not_exist_has_no_filter)
{
	size_t n = 1;

	ck_assert_ptr_null(profile_named("none"));
	ck_assert_int_eq(profile_filter(profile_named("broker"), false, &bpf, &n), 0);
	ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(a_call_is_named_in_its_own_architecture)
{
	ck_assert_str_eq(profile_syscall_name(AUDIT_ARCH_X86_64, SYS_ptrace), "ptrace");
	ck_assert_str_eq(profile_syscall_name(AUDIT_ARCH_I386, 26), "ptrace");
	ck_assert_str_eq(profile_syscall_name(AUDIT_ARCH_X86_64, 99999), "?");
	ck_assert_str_eq(profile_syscall_name(AUDIT_ARCH_X86_64, UINT32_MAX), "?");
	ck_assert_str_eq(profile_syscall_name(0, 0), "?");
}
END_TEST

/* ---- profiles of the operator's ---- */

/* What own rules over a built-in list mean: the first of `own` that holds, then, if nothing was
 * said about the call or PROFILE_BASE was, the base's row, then the end. */
static uint32_t
expect_own(unsigned list, const struct profile_rule *own, size_t n,
    const struct seccomp_data *d)
{
	bool said = false, base = false;

	if (d->arch != AUDIT_ARCH_X86_64)
		return SECCOMP_RET_USER_NOTIF;
	for (size_t i = 0; i < n; i++) {
		bool holds = own[i].nr == d->nr;

		if (own[i].nr != d->nr)
			continue;
		said = true;
		if (own[i].action == PROFILE_BASE) {
			base = true;
			continue;
		}
		for (unsigned c = 0; c < own[i].n; c++)
			holds &= (d->args[own[i].when[c].argument] & own[i].when[c].mask) ==
			    own[i].when[c].value;
		if (!holds)
			continue;
		return own[i].action == PROFILE_ALLOW ? SECCOMP_RET_ALLOW :
		    own[i].action == PROFILE_ERRNO    ? SECCOMP_RET_ERRNO | (unsigned)own[i].error :
							SECCOMP_RET_USER_NOTIF;
	}
	return said && !base ? SECCOMP_RET_USER_NOTIF : expect(list, d);
}

/* xorshift: the same rules on every machine. */
static uint64_t state;
static uint64_t
dice(uint64_t sides)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state * 0x2545f4914f6cdd1dULL >> 11) % sides;
}

static uint64_t
edge(void)
{
	static const uint64_t edges[] = { 0, 1, 2, 3, 0x7f, 0x7fffffff, 0x80000000, 0xffffffff,
		0x100000000, 0x100000001, 0x1ffffffff, 0x7fffffffffffffff, 0x8000000000000000,
		UINT64_MAX, 0xffffffff00000000, 0x5401, 0x7e020000 };
	uint64_t v = edges[dice(countof(edges))];

	switch (dice(4)) {
	case 0: return v + dice(3) - 1;
	case 1: return v ^ 1ULL << dice(64);
	default: return v;
	}
}

/* Calls with few, many and no rules in their base, and one that is on no list. */
static const int pool[] = { SYS_ioctl, SYS_fcntl, SYS_clone, SYS_socket, SYS_kill, SYS_mmap,
	SYS_openat, SYS_memfd_create, SYS_getuid, SYS_io_setup, SYS_chmod };

static void
random_rule(struct profile_rule *r)
{
	static const enum profile_action actions[] = { PROFILE_ALLOW, PROFILE_ALLOW, PROFILE_ALLOW,
		PROFILE_ERRNO, PROFILE_ERRNO, PROFILE_END, PROFILE_BASE };

	memset(r, 0, sizeof(*r));
	r->nr = pool[dice(countof(pool))];
	r->action = actions[dice(countof(actions))];
	if (r->action == PROFILE_ERRNO)
		r->error = dice(2) ? EPERM : ENOSYS;
	if (r->action == PROFILE_BASE)
		return;
	for (unsigned a = 0; a < PROFILE_ARGUMENTS && r->n < 3; a++) {
		struct profile_condition *c = &r->when[r->n];

		if (dice(3) == 0)
			continue;
		c->argument = a;
		c->mask = dice(2) ? UINT64_MAX : edge();
		if (c->mask == 0)
			c->mask = 0xffffffff;
		c->value = edge() & c->mask;
		r->n++;
	}
}

/* A call near what the rules look at: each argument one of their values, or a bit beside. */
static void
random_call(struct seccomp_data *d, const struct profile_rule *own, size_t n)
{
	const struct profile_rule *r = &own[dice(n)];

	memset(d, 0, sizeof(*d));
	d->arch = dice(16) ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_I386;
	d->nr = dice(8) ? r->nr : pool[dice(countof(pool))];
	for (unsigned a = 0; a < PROFILE_ARGUMENTS; a++)
		d->args[a] = edge();
	for (unsigned c = 0; c < r->n; c++) {
		uint64_t other = edge();

		d->args[r->when[c].argument] = r->when[c].value | (other & ~r->when[c].mask);
		if (dice(6) == 0)
			d->args[r->when[c].argument] ^= 1ULL << dice(64);
	}
}

START_TEST(random_profiles_mean_what_their_rules_say)
{
	static const struct {
		const char *name;
		unsigned list;
	} bases[] = { { "native", N }, { "jit", J }, { "provider", P } };
	struct profile_rule own[24];
	size_t accepted = 0;

	for (int round = 0; round < 60; round++) {
		size_t b = (size_t)round % countof(bases), n = 0, fault, tries = 0;
		struct profile *p = NULL;
		const char *text;

		state = 0x9e3779b97f4a7c15ULL * (unsigned)(_i * 1000 + round + 1);
		/* One rule after the other, as long as they may stand together. */
		for (size_t want = 1 + dice(countof(own)); n < want && tries < 200; tries++) {
			struct profile_rule merged[PROFILE_RULES_MAX];
			const struct profile_rule *from;
			size_t nfrom;

			random_rule(&own[n]);
			ck_assert_int_eq(profile_rules(profile_named(bases[b].name), false, &from,
					     &nfrom), 0);
			if (profile_rules_derive(from, nfrom, own, n + 1, merged, &fault, &text) >= 0)
				n++;
		}
		if (n == 0)
			continue;
		if (profile_create("random", profile_named(bases[b].name), own, n, &p, &fault,
			&text) < 0)
			continue;
		accepted++;
		ck_assert_int_eq(profile_filter(p, false, &bpf, &bpf_len), 0);
		for (int i = 0; i < 4000; i++) {
			struct seccomp_data d;
			uint32_t got, want;

			random_call(&d, own, n);
			got = interpret(bpf, bpf_len, &d);
			want = expect_own(bases[b].list, own, n, &d);
			if (got != want) /* ck_assert writes to a file each time */
				ck_abort_msg("seed %d/%d: call %d: %#x instead of %#x", _i,
				    round, d.nr, got, want);
		}
		profile_destroy(p);
	}
	ck_assert_uint_gt(accepted, 30);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("profiles");
	TCase *t = tcase_create("filters");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, every_number_has_the_meaning_of_its_row, 0, countof(filters));
	tcase_add_loop_test(t, every_condition_holds_at_its_edges, 0, countof(filters));
	tcase_add_loop_test(t, no_file_is_made_set_uid, 0, countof(filters));
	tcase_add_loop_test(t, what_no_program_needs_is_on_no_list, 0, countof(never));
	tcase_add_loop_test(t, only_a_provider_adds_filters_and_never_a_listener, 0,
	    countof(filters));
	tcase_add_loop_test(t, the_hand_shake_can_be_finished_under_every_list, 0,
	    countof(filters));
	tcase_add_loop_test(t, a_filter_is_built_once, 0, countof(filters));
	tcase_add_loop_test(t, random_profiles_mean_what_their_rules_say, 0, 8);
	tcase_add_test(t, a_profile_that_does_not_exist_has_no_filter);
	tcase_add_test(t, a_call_is_named_in_its_own_architecture);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
