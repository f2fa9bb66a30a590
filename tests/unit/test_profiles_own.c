/*
 * Profiles of the operator's: random rules over every base, and rules over these, against an
 * oracle of their own.
 */
#include "supervisor/profiles.h"

#include <string.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/profiles_rules.h"
#include "tests/unit/profiles_oracle.h"

static const struct sock_filter *bpf;
static size_t bpf_len;

/* Rules over a built-in list, and rules over these. */
struct layered {
	unsigned list;
	struct profile_rule own[2][24];
	size_t n[2], depth;
};

/* The first of the topmost rules that holds; then, if nothing was said there about the call or
 * PROFILE_BASE was, what is below; then the end. */
static uint32_t
expect_own(const struct layered *l, size_t depth, const struct seccomp_data *d)
{
	bool said = false, base = false;

	if (d->arch != AUDIT_ARCH_X86_64)
		return SECCOMP_RET_USER_NOTIF;
	if (depth == 0)
		return expect(l->list, d);
	for (size_t i = 0; i < l->n[depth - 1]; i++) {
		const struct profile_rule *r = &l->own[depth - 1][i];
		bool holds = true;

		if (r->nr != d->nr)
			continue;
		said = true;
		base |= r->action == PROFILE_BASE;
		for (unsigned c = 0; c < r->n; c++)
			holds &= (d->args[r->when[c].argument] & r->when[c].mask) ==
			    r->when[c].value;
		if (holds && r->action != PROFILE_BASE)
			return r->action == PROFILE_ALLOW ? SECCOMP_RET_ALLOW :
			    r->action == PROFILE_END	  ? SECCOMP_RET_USER_NOTIF :
						   SECCOMP_RET_ERRNO | (unsigned)r->error;
	}
	return said && !base ? SECCOMP_RET_USER_NOTIF : expect_own(l, depth - 1, d);
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
random_call(struct seccomp_data *d, const struct layered *l)
{
	size_t depth = dice(l->depth);
	const struct profile_rule *r = &l->own[depth][dice(l->n[depth])];

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

/* One rule after the other, those that may stand with what is there; at least one. */
static struct profile *
random_profile(struct layered *l, const struct profile *base)
{
	struct profile_rule *own = l->own[l->depth];
	size_t n = 0, want = 1 + dice(24), fault, nfrom;
	static struct profile_rule merged[PROFILE_RULES_MAX];
	const struct profile_rule *from;
	const char *text;
	struct profile *p;

	ck_assert_int_eq(profile_rules(base, false, &from, &nfrom), 0);
	for (int tries = 0; n < want && (tries < 200 || n == 0); tries++) {
		random_rule(&own[n]);
		if (profile_rules_derive(from, nfrom, own, n + 1, merged, &fault, &text) >= 0)
			n++;
	}
	/* The list with the internet's sockets is another one: there they may clash. */
	if (profile_create("random", base, own, n, &p, &fault, &text) < 0)
		return NULL;
	l->n[l->depth++] = n;
	return p;
}

static void
compare_own(const struct layered *l, const struct seccomp_data *d)
{
	uint32_t got = interpret(bpf, bpf_len, d), want = expect_own(l, l->depth, d);

	if (got != want) /* ck_assert writes to a file each time */
		ck_abort_msg("state %#llx: call %d of %#x: %#x instead of %#x",
		    (unsigned long long)state, d->nr, d->arch, got, want);
}

START_TEST(random_profiles_mean_what_their_rules_say)
{
	static const struct {
		const char *name;
		unsigned list;
	} bases[] = { { "native", N }, { "jit", J }, { "provider", P } };
	size_t accepted = 0;

	for (unsigned round = 0; round < 40; round++) {
		struct layered l = { .list = bases[round % countof(bases)].list };
		struct profile *p[2] = { NULL, NULL };
		struct seccomp_data d = { 0 };

		state = 0x9e3779b97f4a7c15ULL * ((unsigned)_i * 1000 + round + 1);
		p[0] = random_profile(&l, profile_named(bases[round % countof(bases)].name));
		if (p[0] == NULL)
			continue;
		p[1] = random_profile(&l, p[0]);
		accepted++;
		ck_assert_int_eq(profile_filter(p[l.depth - 1], false, &bpf, &bpf_len), 0);
		for (int i = 0; i < 4000; i++) {
			random_call(&d, &l);
			compare_own(&l, &d);
		}
		memset(&d, 0, sizeof(d));
		for (int nr = 0; nr < 1024; nr++)
			for (int x32 = 0; x32 < 2; x32++) {
				d.nr = nr | (x32 ? 0x40000000 : 0);
				d.arch = AUDIT_ARCH_X86_64;
				compare_own(&l, &d);
				d.arch = AUDIT_ARCH_I386;
				compare_own(&l, &d);
			}
		profile_destroy(p[1]);
		profile_destroy(p[0]);
	}
	ck_assert_uint_gt(accepted, 20);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("profiles_own");
	TCase *t = tcase_create("random");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, random_profiles_mean_what_their_rules_say, 0, 6);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
