/*
 * filter: what comes out, interpreted, against the rules themselves, taken one after another.
 */
#include "supervisor/filter.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/profiles_oracle.h"

#define NUMBERS 480 /* that lists are about */
#define ARCH	AUDIT_ARCH_X86_64

static uint64_t state;

static uint64_t
draw(uint64_t below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

static uint32_t
meaning(const struct profile_rule *rules, size_t n, const struct seccomp_data *d)
{
	if (d->arch != ARCH)
		return SECCOMP_RET_USER_NOTIF;
	for (size_t i = 0; i < n; i++) {
		const struct profile_rule *r = &rules[i];
		bool holds = r->nr == d->nr;

		for (unsigned c = 0; c < r->n; c++)
			if ((d->args[r->when[c].argument] & r->when[c].mask) !=
			    r->when[c].value)
				holds = false;
		if (holds && r->action == PROFILE_ALLOW)
			return SECCOMP_RET_ALLOW;
		if (holds && r->action == PROFILE_ERRNO)
			return SECCOMP_RET_ERRNO | (uint32_t)r->error;
		if (holds)
			break;
	}
	return SECCOMP_RET_USER_NOTIF;
}

/* Few arguments and masks, so that rules after one another often ask for the same. */
static void
condition_draw(struct profile_rule *r, unsigned argument)
{
	static const uint64_t masks[] = { 0xffffffffULL, UINT64_MAX, 0xf, 0, 1ULL << 40,
		3ULL << 31 };
	struct profile_condition *c = &r->when[r->n++];

	c->argument = argument;
	c->mask = masks[draw(countof(masks))];
	c->value = (draw(4) | draw(4) << 31 | draw(2) << 40) & c->mask;
}

static struct profile_rule
rule_draw(int nr, unsigned plain)
{
	struct profile_rule r = { .nr = nr, .action = (enum profile_action)draw(3) };

	r.error = r.action == PROFILE_ERRNO ? (int)draw(5) : 0;
	if (draw(100) < plain)
		return r;
	for (unsigned a = draw(2) != 0; a < PROFILE_ARGUMENTS && r.n < 3;
	     a += 1 + (unsigned)draw(5))
		condition_draw(&r, a);
	return r;
}

/* Runs of one action with holes of one number and wider, as real lists have them. */
static size_t
list_draw(struct profile_rule *rules, size_t max, unsigned plain, unsigned many)
{
	size_t n = 0;

	for (int nr = 0; nr < NUMBERS && n < max; nr++) {
		if (draw(6) == 0)
			nr += (int)draw(5);
		if (draw(3) != 0)
			rules[n++] = (struct profile_rule){ .nr = nr, .action = PROFILE_ALLOW };
		else
			for (uint64_t k = 1 + draw(many); k > 0 && n < max; k--)
				rules[n++] = rule_draw(nr, plain);
	}
	return n;
}

static void
compare(const struct profile_rule *rules, size_t n, const struct sock_filter *f, size_t len,
    const struct seccomp_data *d)
{
	uint32_t got = interpret(f, len, d), want = meaning(rules, n, d);

	if (got != want)
		ck_abort_msg("call %d (%#llx, %#llx) of %#x: %#x instead of %#x", d->nr,
		    (unsigned long long)d->args[0], (unsigned long long)d->args[1], d->arch,
		    got, want);
}

static void
compare_all(const struct profile_rule *rules, size_t n, const struct sock_filter *f, size_t len)
{
	struct seccomp_data d = { .arch = ARCH };

	for (int nr = -2; nr < NUMBERS + 8; nr++)
		for (int i = 0; i < 12; i++) {
			for (unsigned a = 0; a < PROFILE_ARGUMENTS; a++)
				d.args[a] =
				    draw(4) | draw(4) << 31 | draw(2) << 40 | draw(2) << 63;
			d.nr = nr;
			d.arch = ARCH;
			compare(rules, n, f, len, &d);
			d.nr = nr | 0x40000000;
			compare(rules, n, f, len, &d);
			d.nr = nr;
			d.arch = draw(2) ? AUDIT_ARCH_I386 : AUDIT_ARCH_AARCH64;
			compare(rules, n, f, len, &d);
		}
}

START_TEST(a_filter_means_what_its_rules_say)
{
	static struct profile_rule rules[PROFILE_RULES_MAX];
	struct sock_filter *f;
	size_t n, len;

	state = (uint64_t)_i;
	for (int list = 0; list < 8; list++) {
		n = list_draw(
		    rules, countof(rules), (unsigned)draw(100), 1 + (unsigned)draw(4));
		ck_assert_int_eq(filter_compile(ARCH, rules, n, &f, &len), 0);
		compare_all(rules, n, f, len);
		free(f);
	}
}
END_TEST

/* Pitfall: a jump that its eight bits do not reach. */
START_TEST(a_long_filter_means_it_too_and_the_kernel_takes_it)
{
	static struct profile_rule rules[PROFILE_RULES_MAX];
	struct sock_filter *f;
	struct sock_fprog prog;
	size_t n, len, detours = 0;
	int status;
	pid_t pid;

	state = 1000 + (uint64_t)_i;
	n = list_draw(rules, countof(rules) - 1, 10, 7);
	rules[n++] = (struct profile_rule){ .nr = NUMBERS + 5, .action = PROFILE_ALLOW };
	ck_assert_int_eq(filter_compile(ARCH, rules, n, &f, &len), 0);
	for (size_t i = 0; i < len; i++)
		detours += f[i].code == (BPF_JMP | BPF_JA);
	ck_assert_uint_gt(len, 1000);
	ck_assert_uint_gt(detours, 0);
	compare_all(rules, n, f, len);
	pid = fork();
	if (pid == 0) {
		for (size_t i = 0; i < len; i++) /* so that the child may say how it went */
			if (f[i].code == (BPF_RET | BPF_K))
				f[i].k = SECCOMP_RET_ALLOW;
		prog = (struct sock_fprog){ .len = (unsigned short)len, .filter = f };
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			_exit(1);
		_exit(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	free(f);
}
END_TEST

START_TEST(what_the_kernel_would_refuse_is_too_big)
{
	static struct profile_rule rules[PROFILE_RULES_MAX];
	struct sock_filter *f = NULL;
	size_t len;

	for (size_t i = 0; i < countof(rules); i++) {
		rules[i] =
		    (struct profile_rule){ .nr = (int)i % NUMBERS, .n = PROFILE_ARGUMENTS };
		for (unsigned a = 0; a < PROFILE_ARGUMENTS; a++)
			rules[i].when[a] = (struct profile_condition){ a, UINT64_MAX, i };
	}
	ck_assert_int_eq(filter_compile(ARCH, rules, countof(rules), &f, &len), -E2BIG);
	ck_assert_ptr_null(f);
}
END_TEST

START_TEST(no_rules_let_nothing_through)
{
	struct seccomp_data d = { .arch = ARCH };
	struct sock_filter *f;
	size_t len;

	ck_assert_int_eq(filter_compile(ARCH, NULL, 0, &f, &len), 0);
	for (d.nr = -2; d.nr < 600; d.nr++)
		ck_assert_uint_eq(interpret(f, len, &d), SECCOMP_RET_USER_NOTIF);
	free(f);
}
END_TEST

/* The kernel keeps a bit for each such number, and that only where nothing else is read. */
START_TEST(a_number_allowed_at_all_is_allowed_by_its_number_alone)
{
	static struct profile_rule rules[PROFILE_RULES_MAX];
	struct sock_filter *f;
	size_t n, len;

	state = 77;
	n = list_draw(rules, countof(rules), 30, 3);
	ck_assert_int_eq(filter_compile(ARCH, rules, n, &f, &len), 0);
	for (size_t r = 0; r < n; r++) {
		uint32_t a = 0;
		size_t pc;

		if (rules[r].action != PROFILE_ALLOW || rules[r].n > 0 ||
		    (r > 0 && rules[r - 1].nr == rules[r].nr))
			continue;
		for (pc = 0; f[pc].code != (BPF_RET | BPF_K); pc++) {
			if (f[pc].code == (BPF_LD | BPF_W | BPF_ABS)) {
				ck_assert_uint_lt(f[pc].k, 8); /* number or architecture */
				a = f[pc].k == 0 ? (uint32_t)rules[r].nr : ARCH;
			} else if (f[pc].code == (BPF_JMP | BPF_JA)) {
				pc += f[pc].k;
			} else {
				bool ge = f[pc].code == (BPF_JMP | BPF_JGE | BPF_K);

				ge = ge ? a >= f[pc].k : a == f[pc].k;
				pc += ge ? f[pc].jt : f[pc].jf;
			}
		}
		ck_assert_uint_eq(f[pc].k, SECCOMP_RET_ALLOW);
	}
	free(f);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("filter");
	TCase *t = tcase_create("compile");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_filter_means_what_its_rules_say, 0, 12);
	tcase_add_loop_test(t, a_long_filter_means_it_too_and_the_kernel_takes_it, 0, 4);
	tcase_add_test(t, what_the_kernel_would_refuse_is_too_big);
	tcase_add_test(t, no_rules_let_nothing_through);
	tcase_add_test(t, a_number_allowed_at_all_is_allowed_by_its_number_alone);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
