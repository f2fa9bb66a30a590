#include "broker/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <seccomp.h>

#include "common/util.h"

struct rule {
	const char *name;
	bool until_ready;
	bool conditional;
	bool self;
	unsigned arg;
	uint64_t mask, value;
};

static const struct rule rules[] = {
#define ALLOW(name, why)		       { #name, false, false, false, 0, 0, 0 },
#define ALLOW_IF(name, arg, mask, value, why) \
	{ #name, false, true, false, (arg), (mask), (value) },
#define ALLOW_SELF(name, arg, why) \
	{ #name, false, true, true, (arg), UINT32_MAX, 0 },
#define UNTIL_READY(name, why)		       { #name, true, false, false, 0, 0, 0 },
#include "broker/syscalls.def"
};

static int
rule_add(scmp_filter_ctx ctx, const struct rule *r)
{
	int nr = seccomp_syscall_resolve_name(r->name);

	if (nr == __NR_SCMP_ERROR)
		return -EINVAL; /* a name nobody knows is our mistake, never skipped */
	if (!r->conditional)
		return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
	    SCMP_CMP(r->arg, SCMP_CMP_MASKED_EQ, r->mask,
		r->self ? (uint64_t)getpid() : r->value));
}

int
confine_self(enum confine_step step)
{
	scmp_filter_ctx ctx;
	int ret = 0;

#ifdef CAISSON_ASAN
	return 0; /* the sanitizers need far more; the list is tested without them */
#endif
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (ctx == NULL)
		return -ENOMEM;
	ret = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (ret == 0)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (ret == 0)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; ret == 0 && i < countof(rules); i++)
		if (step == CONFINE_START || !rules[i].until_ready)
			ret = rule_add(ctx, &rules[i]);
	if (ret == 0)
		ret = seccomp_load(ctx);
	seccomp_release(ctx);
	return ret;
}
