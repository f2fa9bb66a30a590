/*
 * profiles: the exported filters against an oracle of their own.  The BPF is interpreted,
 * call by call, and compared with what the rows of profiles.def mean by themselves.
 */
#include "supervisor/profiles.h"

#include <stdio.h>
#include <string.h>

#include <check.h>
#include <seccomp.h>

#include "common/util.h"
#include "supervisor/profiles_rules.h"
#include "tests/unit/profiles_oracle.h"

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
		static const uint64_t fixed[] = { 0, 1, UINT64_MAX, 1ULL << 31, 1ULL << 32, 1ULL << 63 };
		uint64_t near[128];
		size_t n = 0;

		if (rows[r].name == NULL || rows[r].argument < 0)
			continue;
		for (int bit = 0; bit < 64; bit++)
			near[n++] = rows[r].value ^ 1ULL << bit;
		near[n++] = rows[r].value;
		near[n++] = rows[r].value + 1;
		near[n++] = rows[r].value - 1;
		near[n++] = rows[r].value | 1ULL << 32;
		near[n++] = rows[r].value | 0xffffffff00000000ULL;
		for (size_t f = 0; f < countof(fixed); f++)
			for (uint64_t beside = 0; beside < 3; beside++)
				near[n++] = fixed[f] + beside - 1;
		for (size_t v = 0; v < n; v++) {
			memset(&d, 0, sizeof(d));
			d.arch = AUDIT_ARCH_X86_64;
			d.nr = rows[r].nr;
			d.args[rows[r].also] = rows[r].also_value;
			d.args[rows[r].argument] = near[v];
			compare(_i, &d);
			if (rows[r].also_mask == 0)
				continue;
			d.args[rows[r].also] ^= 1ULL << v % 64;
			compare(_i, &d);
			d.args[rows[r].argument] = rows[r].value;
			compare(_i, &d);
		}
	}
}
END_TEST

START_TEST(every_row_stands_under_a_reason_and_is_known)
{
	const char *reason = NULL;

	for (size_t r = 0; r < countof(rows); r++) {
		const char *letters;

		if (rows[r].name == NULL) {
			reason = rows[r].reason;
			ck_assert_uint_gt(strlen(reason), 10);
			ck_assert_uint_ne(rows[r].lists, 0);
			continue;
		}
		ck_assert_msg(reason != NULL, "%s stands under no reason", rows[r].name);
		ck_assert_int_eq(seccomp_syscall_resolve_name(rows[r].name), rows[r].nr);
		if (rows[r].argument < 0)
			continue;
		/* An int is compared by what the kernel reads of it, a longer one by all of it. */
		letters = profile_arguments(rows[r].name);
		ck_assert_msg(letters && strlen(letters) > (size_t)rows[r].argument, "%s",
		    rows[r].name);
		if (rows[r].mask == INT)
			ck_assert_msg(letters[rows[r].argument] == 'I', "%s", rows[r].name);
		ck_assert_msg(rows[r].mask <= INT, "%s", rows[r].name);
	}
}
END_TEST

/* ---- what no profile may ---- */

static const struct never {
	const char *name;
	unsigned n;
	struct {
		int argument;
		uint64_t mask, value;
	} when[2];
} nevers[] = {
#define NEEDED(c, why)
#define NEVER(c, why)		     { #c, 0, { { 0, 0, 0 } } },
#define NEVER_IF(c, a, m, v, why)    { #c, 1, { { a, m, v } } },
#define NEVER_IF2(c, a, m, v, b, k, w, why) { #c, 2, { { a, m, v }, { b, k, w } } },
#include "supervisor/profiles_never.def"
};

/* Our own provider names files beneath its root; other providers give up more by themselves. */
static bool
is_excused(const char *name, unsigned list)
{
#ifdef CAISSON_ASAN
	if (strcmp(name, "ptrace") == 0)
		return true;
#endif
	return (strcmp(name, "openat2") == 0 && list == F) ||
	    (strcmp(name, "seccomp") == 0 && (list & (P | W | F)) != 0);
}

START_TEST(no_built_in_profile_allows_what_none_may)
{
	load(_i);
	for (size_t r = 0; r < countof(nevers); r++) {
		struct profile_rule all = { .n = 0 };
		int nr = seccomp_syscall_resolve_name(nevers[r].name);

		ck_assert_ptr_nonnull(profile_never(nevers[r].name, &all));
		/* Newer than this libseccomp it can be named by nobody; the list is for the next. */
		if (nr == __NR_SCMP_ERROR && !strcmp(nevers[r].name, "open_tree_attr"))
			continue;
		ck_assert_msg(nr >= 0, "%s", nevers[r].name);
		/* Whatever stands in the bits that it does not name, and in both halves. */
		for (int v = 0; v < 64; v++) {
			struct seccomp_data d = { .arch = AUDIT_ARCH_X86_64, .nr = nr };

			for (unsigned a = 0; a < 6; a++)
				d.args[a] = v == 0 ? 0 : v == 1 ? UINT64_MAX : 1ULL << v;
			for (unsigned c = 0; c < nevers[r].n; c++) {
				__u64 *arg = &d.args[nevers[r].when[c].argument];

				*arg = (*arg & ~nevers[r].when[c].mask) | nevers[r].when[c].value;
			}
			if (!is_excused(nevers[r].name, filters[_i].list) &&
			    interpret(bpf, bpf_len, &d) == SECCOMP_RET_ALLOW)
				ck_abort_msg("%s: %s (%#llx, %#llx, %#llx)", filters[_i].name,
				    nevers[r].name, (unsigned long long)d.args[0],
				    (unsigned long long)d.args[1], (unsigned long long)d.args[2]);
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

int
main(void)
{
	Suite *s = suite_create("profiles");
	TCase *t = tcase_create("filters");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, every_number_has_the_meaning_of_its_row, 0, countof(filters));
	tcase_add_loop_test(t, every_condition_holds_at_its_edges, 0, countof(filters));
	tcase_add_test(t, every_row_stands_under_a_reason_and_is_known);
	tcase_add_loop_test(t, no_built_in_profile_allows_what_none_may, 0, countof(filters));
	tcase_add_loop_test(t, no_file_is_made_set_uid, 0, countof(filters));
	tcase_add_loop_test(t, what_no_program_needs_is_on_no_list, 0, countof(never));
	tcase_add_loop_test(t, only_a_provider_adds_filters_and_never_a_listener, 0,
	    countof(filters));
	tcase_add_loop_test(t, the_hand_shake_can_be_finished_under_every_list, 0,
	    countof(filters));
	tcase_add_loop_test(t, a_filter_is_built_once, 0, countof(filters));
	tcase_add_test(t, a_profile_that_does_not_exist_has_no_filter);
	tcase_add_test(t, a_call_is_named_in_its_own_architecture);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
