#include "worker/files/confine.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <seccomp.h>

#include "common/util.h"

/* Rules that are EQ or MASKED_EQ only, one per call: libseccomp compiles these rightly. */
static const struct {
	int call;
	uint32_t action;
	unsigned arg;
	scmp_datum_t mask; /* 0: any arguments */
} rules[] = {
#define ALLOW(name)		      { SCMP_SYS(name), SCMP_ACT_ALLOW, 0, 0 },
#define ALLOW_MASKED(name, arg, mask) { SCMP_SYS(name), SCMP_ACT_ALLOW, arg, mask },
#define REFUSE(name, error)	      { SCMP_SYS(name), SCMP_ACT_ERRNO(error), 0, 0 },
#include "worker/files/syscalls.def"
};

static int
add_rules(scmp_filter_ctx ctx)
{
	struct scmp_arg_cmp cmp;
	size_t i;
	int e;

	for (i = 0; i < countof(rules); i++) {
		cmp = SCMP_CMP(rules[i].arg, SCMP_CMP_MASKED_EQ, rules[i].mask, 0);
		e = seccomp_rule_add_array(ctx, rules[i].action, rules[i].call,
		    rules[i].mask != 0 ? 1 : 0, &cmp);
		if (e < 0)
			return e;
	}
	return 0;
}

int
files_confine(void)
{
	scmp_filter_ctx ctx;
	int e;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (ctx == NULL)
		return -ENOMEM;
	e = add_rules(ctx);
	if (e == 0)
		e = seccomp_load(ctx);
	seccomp_release(ctx);
	return e;
}
