/*
 * profiles_rules: what a rule of a profile means, and which may stand together.
 *
 * A rule is a system call, an action and conditions of masked equality that must all
 * hold.  In a list no two rules of one call contradict each other, so that their order means
 * nothing; libseccomp keeps none.  Knows neither configuration nor libseccomp.  No I/O.
 */
#ifndef SUPERVISOR_PROFILES_RULES_H
#define SUPERVISOR_PROFILES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_ARGUMENTS 6    /* of a system call */
#define PROFILE_OWN_MAX	  256  /* rules that one profile adds */
#define PROFILE_RULES_MAX 2048 /* of a list, its bases' included */

enum profile_action {
	PROFILE_END, /* named, and the end of the chamber: as if it stood on no list */
	PROFILE_ALLOW,
	PROFILE_ERRNO,
	/* besides the others of this call, those of the base; without conditions */
	PROFILE_BASE,
};

/* (argument & mask) == value; value has no bits outside mask. */
struct profile_condition {
	unsigned argument;
	uint64_t mask, value;
};

struct profile_rule {
	int nr; /* of this architecture; not used by what only compares conditions */
	enum profile_action action;
	int error; /* with PROFILE_ERRNO */
	unsigned n;
	/* At most one for an argument. */
	struct profile_condition when[PROFILE_ARGUMENTS];
};

/* Why nothing may allow `rule` of the call `name`, in whole or part; NULL if it may. */
const char *profile_never(const char *name, const struct profile_rule *rule);
/* Why the call `name` stays as the built-in profiles have it; NULL if it need not. */
const char *profile_needed(const char *name);
/* What the kernel reads of its arguments, a letter for each (profiles_args.def); NULL if
 * it has none, or nobody knows. */
const char *profile_arguments(const char *name);

/*
 * The list of a profile: `own` rules, `n` of them, over those of its base.  What `own` says
 * about a call is all that is said about it, but for PROFILE_BASE; its rules come before
 * the base's, of which those that they cover vanish.  `ret` holds PROFILE_RULES_MAX.
 * Returns how many there are; -ENOSPC; or -EINVAL with the rule of `own` at fault in
 * `*ret_fault` and a sentence about it in `*ret_text`.
 */
int profile_rules_derive(const struct profile_rule *base, size_t nbase,
    const struct profile_rule *own, size_t n, struct profile_rule *ret, size_t *ret_fault,
    const char **ret_text);

#endif /* SUPERVISOR_PROFILES_RULES_H */
