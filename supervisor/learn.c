#include "supervisor/learn.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "common/control.h"
#include "common/util.h"
#include "supervisor/profiles.h"
#include "supervisor/profiles_rules.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define ARGUMENT_BITS_MAX 8 /* of a mask: so many combinations are gone through */

struct learn {
	const struct profile *root;
	struct profile *profile;
	struct learn_call calls[LEARN_CALLS];
	bool over;
	struct exit_facts exit;
};

/* All rules of a list about one call. */
struct about {
	const struct profile_rule *rules[PROFILE_RULES_MAX];
	size_t n;
};

static bool
is_core(const char *name)
{
	static const char *const core[] = {
#define CORE(name, reason) #name,
#include "supervisor/learn.def"
	};

	for (size_t i = 0; i < countof(core); i++)
		if (strcmp(core[i], name) == 0)
			return true;
	return false;
}

static int
about_call(const struct profile *p, uint32_t nr, struct about *ret)
{
	const struct profile_rule *rules;
	size_t n;
	int r = profile_rules(p, false, &rules, &n);

	ret->n = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		if (rules[i].nr == (int)nr)
			ret->rules[ret->n++] = &rules[i];
	return r;
}

/* Is there a rule for whatever the arguments are?  They look at a few bits of one, or nobody
 * knows. */
static bool
says_all(const struct about *a)
{
	uint64_t mask = 0, v = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->rules[i]->n != 1 ||
		    a->rules[i]->when[0].argument != a->rules[0]->when[0].argument)
			return false;
		mask |= a->rules[i]->when[0].mask;
	}
	if (__builtin_popcountll(mask) > ARGUMENT_BITS_MAX)
		return false;
	do {
		size_t i = 0;

		while (i < a->n && (v & a->rules[i]->when[0].mask) != a->rules[i]->when[0].value)
			i++;
		if (i == a->n)
			return false;
		v = (v - mask) & mask; /* the next combination of its bits */
	} while (v != 0);
	return true;
}

static enum learn_class
class_of(const struct about *a, const struct learn_call *c, const char *name)
{
	if (a->n == 0)
		return LEARN_NEW;
	/* What fails and could never be proposed need not be asked about. */
	if (is_core(name) || (c->never && a->rules[0]->n == 0 && c->error != 0))
		return LEARN_CORE;
	if (a->rules[0]->n == 0)
		return c->error != 0 ? LEARN_ERROR : LEARN_PLAIN;
	return says_all(a) ? LEARN_PARTLY : LEARN_BEYOND;
}

/* What the filter to learn with says of a call: with nothing on its list it is asked about. */
static size_t
own_rules(enum learn_class class, uint32_t nr, const struct about *a, struct profile_rule *own)
{
	size_t n = 0;

	if (class == LEARN_PLAIN || class == LEARN_ERROR)
		own[n++] = (struct profile_rule){ .nr = (int)nr, .action = PROFILE_END };
	if (class == LEARN_PARTLY)
		for (size_t i = 0; i < a->n; i++)
			if (a->rules[i]->action != PROFILE_ALLOW)
				own[n++] = *a->rules[i];
	return n;
}

static int
add_call(struct learn *l, const struct profile *p, uint32_t nr, struct profile_rule *own,
    size_t *n)
{
	static const struct profile_rule any = { .n = 0 };
	static struct about a; /* large */
	struct learn_call *c = &l->calls[nr];
	const char *name = profile_syscall_name(ARCH, nr);
	int r = about_call(p, nr, &a);
	bool ends = a.n == 0;

	/* What `p` ends and its root does not was not used by the runs before: perhaps by
	 * this. */
	if (r == 0 && ends)
		r = about_call(l->root, nr, &a);
	if (r < 0)
		return r;
	if (a.n > 0 && a.rules[0]->n == 0 && a.rules[0]->action == PROFILE_ERRNO)
		c->error = a.rules[0]->error;
	/* Without a name it could be anything. */
	c->never = strcmp(name, "?") == 0 || profile_never(name, &any) != NULL;
	c->class = (uint8_t)class_of(&a, c, name);
	if (c->class == LEARN_CORE && ends && a.rules[0]->n == 0)
		c->class = LEARN_PLAIN;
	*n += own_rules((enum learn_class)c->class, nr, &a, own + *n);
	return 0;
}

int
learn_create(const struct profile *profile, const struct profile *root, struct learn **ret)
{
	struct profile_rule *own = calloc(PROFILE_RULES_MAX, sizeof(*own));
	struct learn *l = calloc(1, sizeof(*l));
	const char *text;
	size_t n = 0, fault;
	int r = own == NULL || l == NULL ? -ENOMEM : 0;

	if (r == 0)
		l->root = root;
	for (uint32_t nr = 0; nr < LEARN_CALLS && r == 0; nr++)
		r = add_call(l, profile, nr, own, &n);
	if (r == 0)
		r = profile_create("learn", profile, own, n, &l->profile, &fault, &text);
	free(own);
	if (r < 0) {
		learn_destroy(l);
		return r;
	}
	*ret = l;
	return 0;
}

void
learn_destroy(struct learn *l)
{
	if (l == NULL)
		return;
	profile_destroy(l->profile);
	free(l);
}

const struct profile *
learn_profile(const struct learn *l)
{
	return l->profile;
}

const struct profile *
learn_root(const struct learn *l)
{
	return l->root;
}

bool
learn_answer(struct learn *l, uint32_t nr, uint32_t arch, uint32_t *ret_flags,
    int32_t *ret_error)
{
	struct learn_call *c;

	if (arch != ARCH || nr >= LEARN_CALLS)
		return false;
	c = &l->calls[nr];
	c->used = true;
	*ret_flags = 0;
	*ret_error = 0;
	switch ((enum learn_class)c->class) {
	case LEARN_ERROR:
		*ret_error = -c->error;
		return true;
	case LEARN_PLAIN:
	case LEARN_PARTLY:
		break;
	default:
		/* Which of its arguments these are, only a filter could tell. */
		if (c->never)
			return false;
		break;
	}
	*ret_flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	return true;
}

void
learn_on_exit(struct learn *l, const struct exit_facts *exit)
{
	if (l == NULL)
		return;
	l->exit = *exit;
	l->over = true;
}

const struct exit_facts *
learn_exit(const struct learn *l)
{
	return l->over ? &l->exit : NULL;
}

const struct learn_call *
learn_call(const struct learn *l, uint32_t nr)
{
	return &l->calls[nr];
}
