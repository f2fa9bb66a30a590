#include "supervisor/profiles_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/util.h"

#define INT	0xffffffffULL
#define TMPFILE 020000000 /* O_TMPFILE without its O_DIRECTORY */

/* ---- facts about calls ---- */

static const struct never {
	const char *name, *reason;
	struct profile_rule rule;
} never[] = {
#define NEEDED(call, why)
#define NEVER(call, why) { #call, why, { .n = 0 } },
#define NEVER_IF(call, arg, bits, want, why)                                                   \
	{ #call, why, { .n = 1, .when = { { arg, bits, want } } } },
#define NEVER_IF2(call, arg, bits, want, arg2, bits2, want2, why)                              \
	{ #call, why, { .n = 2, .when = { { arg, bits, want }, { arg2, bits2, want2 } } } },
#include "supervisor/profiles_never.def"
};

static const struct {
	const char *name, *reason;
} needed[] = {
#define NEEDED(call, why) { #call, why },
#define NEVER(call, why)
#define NEVER_IF(call, arg, bits, want, why)
#define NEVER_IF2(call, arg, bits, want, arg2, bits2, want2, why)
#include "supervisor/profiles_never.def"
};

static const struct {
	const char *name, *letters;
} arguments[] = {
#define ARGUMENTS(call, types) { #call, types },
#include "supervisor/profiles_args.def"
};

/* Is there a call for which both hold? */
static bool
overlap(const struct profile_rule *a, const struct profile_rule *b)
{
	for (unsigned i = 0; i < a->n; i++)
		for (unsigned j = 0; j < b->n; j++)
			if (a->when[i].argument == b->when[j].argument &&
			    ((a->when[i].value ^ b->when[j].value) & a->when[i].mask &
				b->when[j].mask) != 0)
				return false;
	return true;
}

const char *
profile_never(const char *name, const struct profile_rule *rule)
{
	for (size_t i = 0; i < countof(never); i++)
		if (strcmp(never[i].name, name) == 0 && overlap(&never[i].rule, rule))
			return never[i].reason;
	return NULL;
}

const char *
profile_needed(const char *name)
{
	for (size_t i = 0; i < countof(needed); i++)
		if (strcmp(needed[i].name, name) == 0)
			return needed[i].reason;
	return NULL;
}

const char *
profile_arguments(const char *name)
{
	for (size_t i = 0; i < countof(arguments); i++)
		if (strcmp(arguments[i].name, name) == 0)
			return arguments[i].letters;
	return NULL;
}

/* ---- rules beside each other ---- */

/* Does `b` test all that `c` tests, and find the same? */
static bool
implied(const struct profile_condition *c, const struct profile_rule *b)
{
	for (unsigned j = 0; j < b->n; j++)
		if (b->when[j].argument == c->argument && (c->mask & ~b->when[j].mask) == 0 &&
		    (b->when[j].value & c->mask) == c->value)
			return true;
	return false;
}

/* Does `a` hold wherever `b` does? */
static bool
covers(const struct profile_rule *a, const struct profile_rule *b)
{
	for (unsigned i = 0; i < a->n; i++)
		if (!implied(&a->when[i], b))
			return false;
	return true;
}

static bool
same_action(const struct profile_rule *a, const struct profile_rule *b)
{
	return a->action == b->action && (a->action != PROFILE_ERRNO || a->error == b->error);
}

/* Why two rules of one call cannot stand in one list: NULL, or text that continues a sentence
 * about `a`. */
static const char *
clash(const struct profile_rule *a, const struct profile_rule *b)
{
	if (covers(a, b) && covers(b, a))
		return same_action(a, b) ? "stands there twice"
					 : "stands there with another action, too";
	if (a->n == 0 || b->n == 0)
		return "has a rule with and one without conditions";
	if (!same_action(a, b) && overlap(a, b))
		return "has another action for calls that both rules mean";
	return NULL;
}

/* ---- a list over another ---- */

/* What `own` says about call `nr`. */
struct said {
	bool any, base;
};

static struct said
said_about(int nr, const struct profile_rule *own, size_t n)
{
	struct said said = { false, false };

	for (size_t i = 0; i < n; i++)
		if (own[i].nr == nr) {
			said.any = true;
			said.base |= own[i].action == PROFILE_BASE;
		}
	return said;
}

static int
check_own(const struct profile_rule *own, size_t n, size_t *ret_fault, const char **ret_text)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			const char *text = NULL;

			if (own[i].nr != own[j].nr)
				continue;
			if (own[i].action != PROFILE_BASE && own[j].action != PROFILE_BASE)
				text = clash(&own[i], &own[j]);
			else if (own[i].action == own[j].action)
				text = "stands there twice";
			else if (own[i].action != PROFILE_BASE ? own[i].n == 0 : own[j].n == 0)
				text = "leaves nothing to its base";
			if (text != NULL) {
				*ret_fault = i;
				*ret_text = text;
				return -EINVAL;
			}
		}
	return 0;
}

/* Does the base's rule `r` stay?  -EINVAL if one of `own` takes a part of it away. */
static int
stays(const struct profile_rule *r, const struct profile_rule *own, size_t n, size_t *ret_fault,
    const char **ret_text)
{
	for (size_t i = 0; i < n; i++)
		if (own[i].nr == r->nr && own[i].action != PROFILE_BASE && covers(&own[i], r))
			return 0;
	for (size_t i = 0; i < n; i++) {
		if (own[i].nr != r->nr || own[i].action == PROFILE_BASE)
			continue;
		*ret_text = clash(&own[i], r);
		if (*ret_text != NULL) {
			*ret_fault = i;
			*ret_text =
			    r->n == 0 ? "takes a part of what its base says without conditions"
				      : "takes a part of what a rule of its base says";
			return -EINVAL;
		}
	}
	return 1;
}

int
profile_rules_derive(const struct profile_rule *base, size_t nbase,
    const struct profile_rule *own, size_t n, struct profile_rule *ret, size_t *ret_fault,
    const char **ret_text)
{
	size_t out = 0;
	int r = check_own(own, n, ret_fault, ret_text);

	if (r < 0)
		return r;
	for (size_t i = 0; i < nbase; i++) {
		struct said said = said_about(base[i].nr, own, n);

		if (said.any && !said.base)
			continue;
		r = said.any ? stays(&base[i], own, n, ret_fault, ret_text) : 1;
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (out == PROFILE_RULES_MAX)
			return -ENOSPC;
		ret[out++] = base[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (own[i].action == PROFILE_END || own[i].action == PROFILE_BASE)
			continue;
		if (out == PROFILE_RULES_MAX)
			return -ENOSPC;
		ret[out++] = own[i];
	}
	return (int)out;
}
