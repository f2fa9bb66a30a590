#include "supervisor/filter.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <linux/seccomp.h>

#include "common/util.h"

#define REACH	    250u /* of a jump, whose offset has 8 bits; some are kept for detours */
#define RETURNS_MAX 256u
#define CHAIN_MAX   4u /* numbers compared one after another, before ranges are halved */
#define TESTS_MAX   (2 * PROFILE_ARGUMENTS)

/*
 * Jumps lead forward only, so the program is written from its end: what an instruction jumps
 * to is there already.  `insns[0]` is the last; a place is an index into it.
 */
struct program {
	struct sock_filter insns[BPF_MAXINSNS];
	size_t n;
	bool full;
	struct {
		uint32_t value;
		size_t place; /* of the nearest such return */
	} returns[RETURNS_MAX];
	size_t nreturns;
};

/* Where a number leads: to a return, or to the rules of its own. */
struct target {
	bool is_return;
	uint32_t value;
	const struct profile_rule *const *rules;
	size_t n;
};

/* The numbers from `from` to the next one's, but for some that lead elsewhere. */
struct range {
	uint32_t from;
	struct target to;
	size_t first, n; /* of exceptions[] */
};

struct exception {
	uint32_t nr;
	struct target to;
};

/* Half of an argument under a mask. */
struct operand {
	uint32_t offset, mask;
};

/* Where a rule begins: with nothing loaded, if that is ever so; and with its first operand. */
struct entry {
	size_t cold, warm;
	bool has_cold, has_warm;
	struct operand loaded;
};

/* ---- instructions ---- */

static size_t
emit(struct program *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->n == BPF_MAXINSNS) {
		p->full = true;
		return 0;
	}
	p->insns[p->n] = (struct sock_filter){ code, jt, jf, k };
	return p->n++;
}

static size_t
distance(const struct program *p, size_t place)
{
	return p->n - 1 - place;
}

/* A return of `value` that a jump written next can reach. */
static size_t
place_of_return(struct program *p, uint32_t value)
{
	size_t i;

	for (i = 0; i < p->nreturns && p->returns[i].value != value; i++)
		;
	if (i < p->nreturns && distance(p, p->returns[i].place) < REACH)
		return p->returns[i].place;
	if (i == RETURNS_MAX) /* then it is known by nobody else */
		return emit(p, BPF_RET | BPF_K, 0, 0, value);
	if (i == p->nreturns)
		p->returns[p->nreturns++].value = value;
	p->returns[i].place = emit(p, BPF_RET | BPF_K, 0, 0, value);
	return p->returns[i].place;
}

static size_t
in_reach(struct program *p, size_t place)
{
	if (p->full || distance(p, place) < REACH)
		return place;
	return emit(p, BPF_JMP | BPF_JA, 0, 0, (uint32_t)distance(p, place));
}

static size_t
jump(struct program *p, uint16_t test, uint32_t k, size_t yes, size_t no)
{
	yes = in_reach(p, yes);
	no = in_reach(p, no);
	return emit(
	    p, BPF_JMP | test | BPF_K, (uint8_t)distance(p, yes), (uint8_t)distance(p, no), k);
}

static size_t
load(struct program *p, size_t offset)
{
	return emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* ---- the rules of one call ---- */

static uint32_t
action_value(const struct profile_rule *r)
{
	switch (r->action) {
	case PROFILE_ALLOW: return SECCOMP_RET_ALLOW;
	case PROFILE_ERRNO: return SECCOMP_RET_ERRNO | ((uint32_t)r->error & SECCOMP_RET_DATA);
	default: return SECCOMP_RET_USER_NOTIF;
	}
}

struct test {
	struct operand operand;
	uint32_t value;
};

/* Both halves of each condition, but for those that nothing is asked of. */
static size_t
tests_of(const struct profile_rule *r, struct test tests[TESTS_MAX])
{
	size_t n = 0;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned high = 0; high < 2; high++) {
			const struct profile_condition *c = &r->when[i];
			bool second = high == (BYTE_ORDER == LITTLE_ENDIAN);
			struct test t = {
				.operand.mask = (uint32_t)(high ? c->mask >> 32 : c->mask),
				.value = (uint32_t)(high ? c->value >> 32 : c->value),
			};

			t.operand.offset = (uint32_t)(offsetof(struct seccomp_data, args) +
						      c->argument * sizeof(uint64_t) +
						      (second ? sizeof(uint32_t) : 0));
			if (t.operand.mask != 0 || t.value != 0)
				tests[n++] = t;
		}
	return n;
}

static bool
operands_equal(const struct operand *a, const struct operand *b)
{
	return a->offset == b->offset && a->mask == b->mask;
}

/* Does every way from `before` to `r` come with the first operand of `r`? */
static bool
comes_loaded(const struct profile_rule *before, const struct profile_rule *r)
{
	struct test from[TESTS_MAX], to[TESTS_MAX];
	size_t n = before == NULL ? 0 : tests_of(before, from);

	if (n == 0 || tests_of(r, to) == 0)
		return false;
	while (n-- > 0)
		if (!operands_equal(&from[n].operand, &to[0].operand))
			return false;
	return true;
}

/* `next` is what follows where `r` does not hold. */
static struct entry
emit_rule(
    struct program *p, const struct profile_rule *r, const struct entry *next, bool loaded)
{
	struct test tests[TESTS_MAX];
	size_t n = tests_of(r, tests), ok = place_of_return(p, action_value(r));
	struct entry e = { .cold = ok, .has_cold = true };

	while (n-- > 0) {
		const struct test *t = &tests[n];
		bool warm = next->has_warm && operands_equal(&t->operand, &next->loaded);

		assert(warm || next->has_cold);
		ok = jump(p, BPF_JEQ, t->value, ok, warm ? next->warm : next->cold);
		e = (struct entry){ .warm = ok, .has_warm = true, .loaded = t->operand };
		if (n == 0 && loaded)
			break;
		if (t->operand.mask != UINT32_MAX)
			emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, t->operand.mask);
		ok = e.cold = load(p, t->operand.offset);
		e.has_cold = true;
	}
	return e;
}

static size_t
emit_target(struct program *p, const struct target *t)
{
	struct entry e = { .cold = place_of_return(p, t->value), .has_cold = true };

	for (size_t i = t->n; i-- > 0;)
		e = emit_rule(p, t->rules[i], &e,
		    comes_loaded(i > 0 ? t->rules[i - 1] : NULL, t->rules[i]));
	return e.cold;
}

/* ---- the numbers ---- */

struct numbers {
	struct range *ranges;
	struct exception *exceptions;
	size_t nranges, nexceptions;
};

static size_t
emit_exceptions(struct program *p, const struct exception *e, size_t n, uint32_t otherwise)
{
	size_t place, high;

	if (n > CHAIN_MAX) {
		high = emit_exceptions(p, e + n / 2, n - n / 2, otherwise);
		place = emit_exceptions(p, e, n / 2, otherwise);
		return jump(p, BPF_JGE, e[n / 2].nr, high, place);
	}
	place = place_of_return(p, otherwise);
	while (n-- > 0) {
		high = emit_target(p, &e[n].to);
		place = jump(p, BPF_JEQ, e[n].nr, high, place);
	}
	return place;
}

static size_t
emit_ranges(struct program *p, const struct numbers *all, size_t from, size_t to)
{
	const struct range *r = &all->ranges[from];
	size_t middle = (from + to) / 2, low, high;

	if (to - from > 1) {
		high = emit_ranges(p, all, middle, to);
		low = emit_ranges(p, all, from, middle);
		return jump(p, BPF_JGE, all->ranges[middle].from, high, low);
	}
	if (r->n > 0)
		return emit_exceptions(p, all->exceptions + r->first, r->n, r->to.value);
	return emit_target(p, &r->to);
}

static bool
same_return(const struct target *a, const struct target *b)
{
	return a->is_return && b->is_return && a->value == b->value;
}

/* One number amid others that all lead to one return is an exception among them. */
static void
fold(struct numbers *all)
{
	struct range *r;

	if (all->nranges < 3)
		return;
	r = &all->ranges[all->nranges - 3];
	if (!same_return(&r[0].to, &r[2].to) || r[2].from != r[1].from + 1 || r[1].n > 0)
		return;
	if (r[0].n == 0)
		r[0].first = all->nexceptions;
	assert(r[0].first + r[0].n == all->nexceptions);
	r[0].n++;
	all->exceptions[all->nexceptions++] = (struct exception){ r[1].from, r[1].to };
	all->nranges -= 2;
}

static void
numbers_add(struct numbers *all, uint32_t from, const struct target *to)
{
	if (all->nranges > 0 && same_return(&all->ranges[all->nranges - 1].to, to))
		return;
	all->ranges[all->nranges++] = (struct range){ .from = from, .to = *to };
	fold(all);
}

/* Sorted by number, those of one number in their order. */
static struct target
target_of(const struct profile_rule *const *rules, size_t n)
{
	struct target t = { .value = SECCOMP_RET_USER_NOTIF, .rules = rules, .n = n };
	struct test tests[TESTS_MAX];

	t.is_return = tests_of(rules[0], tests) == 0;
	if (t.is_return) {
		t.value = action_value(rules[0]);
		t.n = 0;
	}
	return t;
}

static void
numbers_fill(struct numbers *all, const struct profile_rule *const *rules, size_t n)
{
	const struct target unknown = { .is_return = true, .value = SECCOMP_RET_USER_NOTIF };
	uint32_t next = 0;
	size_t i, same;

	for (i = 0; i < n; i += same) {
		uint32_t nr = (uint32_t)rules[i]->nr;
		struct target to;

		for (same = 1; i + same < n && rules[i + same]->nr == rules[i]->nr; same++)
			;
		if (nr > next)
			numbers_add(all, next, &unknown);
		to = target_of(rules + i, same);
		numbers_add(all, nr, &to);
		next = nr + 1;
	}
	numbers_add(all, next, &unknown);
}

/* ---- the whole ---- */

static int
by_number(const void *a, const void *b)
{
	const struct profile_rule *const *x = a, *const *y = b;

	if ((*x)->nr != (*y)->nr)
		return (*x)->nr < (*y)->nr ? -1 : 1;
	return *x < *y ? -1 : *x > *y; /* of one array */
}

static int
write_out(const struct program *p, struct sock_filter **ret, size_t *ret_len)
{
	struct sock_filter *insns;

	if (p->full)
		return -E2BIG;
	insns = malloc(p->n * sizeof(*insns));
	if (insns == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		insns[i] = p->insns[p->n - 1 - i];
	*ret = insns;
	*ret_len = p->n;
	return 0;
}

static void
emit_all(struct program *p, uint32_t arch, const struct numbers *all)
{
	size_t numbers, foreign;

	numbers = emit_ranges(p, all, 0, all->nranges);
	assert(p->full || numbers == p->n - 1); /* what a load goes on with */
	numbers = load(p, offsetof(struct seccomp_data, nr));
	foreign = place_of_return(p, SECCOMP_RET_USER_NOTIF);
	jump(p, BPF_JEQ, arch, numbers, foreign);
	load(p, offsetof(struct seccomp_data, arch));
}

int
filter_compile(uint32_t arch, const struct profile_rule *rules, size_t n,
    struct sock_filter **ret, size_t *ret_len)
{
	cleanup_free struct program *p = calloc(1, sizeof(*p));
	cleanup_free const struct profile_rule **sorted = calloc(n + 1, sizeof(*sorted));
	cleanup_free struct range *ranges = calloc(2 * n + 2, sizeof(*ranges));
	cleanup_free struct exception *exceptions = calloc(2 * n + 2, sizeof(*exceptions));
	struct numbers all = { .ranges = ranges, .exceptions = exceptions };

	if (p == NULL || sorted == NULL || ranges == NULL || exceptions == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &rules[i];
	qsort(sorted, n, sizeof(*sorted), by_number);
	numbers_fill(&all, sorted, n);
	emit_all(p, arch, &all);
	return write_out(p, ret, ret_len);
}
