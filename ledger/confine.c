#include "ledger/confine.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp.h>

#include "common/util.h"

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define ACCESS_V1   ((1ULL << 13) - 1) /* everything that the first version knows */
#define ACCESS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_INDEX                                                                           \
	(ACCESS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |           \
	    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

static int
allow_beneath(int ruleset, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		   ? -errno
		   : 0;
}

static int
confine_files(int journal_fd, int index_fd, bool readonly)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = ACCESS_V1 };
	cleanup_fd int ruleset = -1;
	long version;
	int ret;

	version =
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	if (version >= 2)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (version >= 3)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return -errno;
	ret = allow_beneath(ruleset, journal_fd, ACCESS_READ);
	if (ret == 0 && index_fd >= 0)
		ret = allow_beneath(ruleset, index_fd,
		    (readonly ? ACCESS_READ : ACCESS_INDEX) & attr.handled_access_fs);
	if (ret == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		ret = -errno;
	return ret;
}

static const int allowed[] = {
#define ALLOW(call, why) SCMP_SYS(call),
#include "ledger/syscalls.def"
};

static int
confine_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int ret = filter ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; ret == 0 && i < countof(allowed); i++)
		ret = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	/* Memory for data, never for code. */
	if (ret == 0)
		ret = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
		    SCMP_A2(SCMP_CMP_MASKED_EQ, 4 /* PROT_EXEC */, 0));
	if (ret == 0)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

int
confine_ledger(int journal_fd, int index_fd, bool readonly, const char **ret_what)
{
	int ret;

	*ret_what = "no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_what = "Landlock";
	ret = confine_files(journal_fd, index_fd, readonly);
	if (ret < 0)
		return ret;
	*ret_what = "seccomp";
	return confine_calls();
}
