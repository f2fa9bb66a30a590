#include "gateway/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/landlock.h>
#include <seccomp.h>

#include "common/util.h"

#ifndef CAISSON_ASAN

static const struct {
	const char *name;
	bool conditional, self;
	unsigned arg;
	uint64_t mask, value;
} rules[] = {
#define ALLOW(name, why)		      { #name, false, false, 0, 0, 0 },
#define ALLOW_IF(name, arg, mask, value, why) { #name, true, false, (arg), (mask), (value) },
#define ALLOW_SELF(name, arg, why)	      { #name, true, true, (arg), UINT32_MAX, 0 },
#include "gateway/syscalls.def"
};

/* No rule: nothing beneath any directory, whatever the filter may have let through. */
static int
close_files(void)
{
	struct landlock_ruleset_attr attr = { 0 };
	cleanup_fd int fd = -1;
	long abi;

	abi = syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	/* Each version adds one right at the top: 13 in the first, refer, truncate. */
	attr.handled_access_fs = (1ull << (abi == 1 ? 13 : abi == 2 ? 14 : 15)) - 1;
	fd = (int)syscall(
	    __NR_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	if (fd < 0)
		return -errno;
	return syscall(__NR_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

static int
load_filter(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int ret = ctx != NULL ? 0 : -ENOMEM;

	if (ret == 0)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (ret == 0)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; ret == 0 && i < countof(rules); i++) {
		int nr = seccomp_syscall_resolve_name(rules[i].name);
		struct scmp_arg_cmp cmp = SCMP_CMP(rules[i].arg, SCMP_CMP_MASKED_EQ,
		    rules[i].mask, rules[i].self ? (uint64_t)getpid() : rules[i].value);

		ret = nr == __NR_SCMP_ERROR ?
		    -EINVAL :
		    seccomp_rule_add_array(
			ctx, SCMP_ACT_ALLOW, nr, rules[i].conditional ? 1 : 0, &cmp);
	}
	if (ret == 0)
		ret = seccomp_load(ctx);
	seccomp_release(ctx);
	return ret;
}

#endif

int
gateway_confine(const char **ret_what)
{
	const struct rlimit none = { 0, 0 };

	*ret_what = "no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_what = "limits";
	/* A core would hold keys and tokens. */
	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
#ifndef CAISSON_ASAN /* the sanitizers need far more; the list is tested without them */
	int ret;

	if (setrlimit(RLIMIT_NPROC, &none) < 0)
		return -errno;
	*ret_what = "Landlock";
	ret = close_files();
	if (ret < 0)
		return ret;
	*ret_what = "seccomp";
	return load_filter();
#else
	return 0;
#endif
}
