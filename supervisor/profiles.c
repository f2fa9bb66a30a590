#include "supervisor/profiles.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

#include <seccomp.h>

#include "common/control.h"
#include "common/util.h"

#ifndef ARCH_CET_STATUS
#define ARCH_CET_STATUS 0x3001
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define X32_BIT 0x40000000u /* in a number of AUDIT_ARCH_X86_64 */

#define MIB (1ULL << 20)

/* What a distribution's kernel or a user without root lacks is reported, not refused. Whoever
 * starts a chamber bounds its memory and processor time; the rest is bounded here. */
#define USUAL \
	.optional = LAYERS_OPTIONAL, \
	.memory_bytes = UINT64_MAX, .file_bytes = UINT64_MAX, .cpu_percent = UINT64_MAX, \
	.cpu_seconds = UINT64_MAX

static const struct profile profiles[] = {
	{ .name = "native", .filtered = true, .mdwe = true, USUAL, .tmp_bytes = 64 * MIB,
	    .pids = 128, .open_files = 1024 },
	{ .name = "interpreter", .filtered = true, .mdwe = true, USUAL,
	    .tmp_bytes = 64 * MIB, .pids = 128, .open_files = 1024 },
	{ .name = "provider", .filtered = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 16 * MIB, .pids = 64, .open_files = 1024 },
	{ .name = "files", .filtered = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 16 * MIB, .pids = 64, .open_files = 1024 },
	{ .name = "broker", .minimal = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 1 * MIB, .pids = 32, .open_files = 65536 },
	{ .name = "ledger", .minimal = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 1 * MIB, .pids = 32, .open_files = 1024 },
};

/* Which lists a row is on. */
enum { N = 1, I = 2, P = 4, W = 8, F = 16, ALL = N | I | P | W | F };

/* No new namespace, and no process that would be a child of pid 1's parent. */
#define CLONE_FORBIDDEN \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	    CLONE_NEWPID | CLONE_NEWNET | CLONE_PARENT | CLONE_PTRACE)
#define INT 0xffffffffULL
#define NEW_FILE (O_CREAT | 020000000) /* O_TMPFILE without its O_DIRECTORY */

/* The list as rows; a GROUP row (no name) sets the profiles of those after it. */
struct rule {
	const char *name;
	unsigned profiles;
	uint32_t action;
	unsigned conditions, argument;
	uint64_t mask, value;
};

static const struct rule rules[] = {
#define GROUP(lists, reason) { .profiles = (lists) },
#define ALLOW(call)	     { .name = #call, .action = SCMP_ACT_ALLOW },
#define ALLOW_IF(call, arg, bits, want) \
	{ .name = #call, .action = SCMP_ACT_ALLOW, .conditions = 1, .argument = (arg), \
	    .mask = (uint64_t)(bits), .value = (uint64_t)(want) & (uint64_t)(bits) },
#define FAIL(call, error) { .name = #call, .action = SCMP_ACT_ERRNO(error) },
#define FAIL_IF(call, arg, bits, want, error) \
	{ .name = #call, .action = SCMP_ACT_ERRNO(error), .conditions = 1, .argument = (arg), \
	    .mask = (uint64_t)(bits), .value = (uint64_t)(want) & (uint64_t)(bits) },
#include "supervisor/profiles.def"
};

static struct {
	struct sock_filter *insns;
	size_t len;
} cache[countof(profiles)][2];

const struct profile *
profile_named(const char *name)
{
	for (size_t i = 0; i < countof(profiles); i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

static int
rule_add(scmp_filter_ctx ctx, const struct rule *r)
{
	struct scmp_arg_cmp arg = SCMP_CMP(r->argument, SCMP_CMP_MASKED_EQ, r->mask, r->value);
	int nr = seccomp_syscall_resolve_name(r->name);

	if (nr == __NR_SCMP_ERROR || nr < 0)
		return -EINVAL;
	return seccomp_rule_add_array(ctx, r->action, nr, r->conditions, &arg);
}

static int
rules_add(scmp_filter_ctx ctx, unsigned list)
{
	unsigned lists = 0;
	int ret = 0;

	for (size_t i = 0; i < countof(rules) && ret == 0; i++) {
		if (rules[i].name == NULL)
			lists = rules[i].profiles;
		else if (lists & list)
			ret = rule_add(ctx, &rules[i]);
	}
	return ret;
}

/* libseccomp writes to a descriptor only. */
static int
export_bpf(scmp_filter_ctx ctx, struct sock_filter **ret, size_t *ret_len)
{
	cleanup_fd int fd = memfd_create("filter", MFD_CLOEXEC);
	cleanup_free struct sock_filter *insns = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	insns = malloc((size_t)st.st_size);
	if (insns == NULL)
		return -ENOMEM;
	if (pread(fd, insns, (size_t)st.st_size, 0) != st.st_size)
		return -EIO;
	*ret_len = (size_t)st.st_size / sizeof(*insns);
	*ret = insns;
	insns = NULL;
	return 0;
}

/*
 * libseccomp refuses the notification as a default action, so the filter is
 * compiled with a default that nothing else in it returns, and each return of that is
 * turned into the notification here.  A branch that no rule took is the only way to it.
 */
#define DEFAULT_ERRNO 4094u

static int
default_to_notification(struct sock_filter *insns, size_t len)
{
	size_t found = 0;

	for (size_t i = 0; i < len; i++) {
		if (insns[i].code != (BPF_RET | BPF_K) ||
		    insns[i].k != (SECCOMP_RET_ERRNO | DEFAULT_ERRNO))
			continue;
		insns[i].k = SECCOMP_RET_USER_NOTIF;
		found++;
	}
	return found > 0 ? 0 : -EINVAL;
}

static int
filter_build(unsigned list, struct sock_filter **ret, size_t *ret_len)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(DEFAULT_ERRNO));
	int r;

	if (ctx == NULL)
		return -ENOMEM;
	/* The 32-bit entry and x32 have numbers of their own: named, and ended, like the rest. */
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(DEFAULT_ERRNO));
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = rules_add(ctx, list);
	if (r == 0)
		r = export_bpf(ctx, ret, ret_len);
	if (r == 0)
		r = default_to_notification(*ret, *ret_len);
	seccomp_release(ctx);
	return r;
}

static unsigned
list_of(const struct profile *p, bool network)
{
	static const unsigned lists[] = { N, I, P, F };

	return network ? W : lists[p - profiles];
}

int
profile_filter(const struct profile *p, bool network, const struct sock_filter **ret,
    size_t *ret_len)
{
	size_t i = (size_t)(p - profiles);
	int r;

	if (!p->filtered) {
		*ret = NULL;
		*ret_len = 0;
		return 0;
	}
	if (cache[i][network].insns == NULL) {
		r = filter_build(list_of(p, network), &cache[i][network].insns,
		    &cache[i][network].len);
		if (r < 0)
			return r;
	}
	*ret = cache[i][network].insns;
	*ret_len = cache[i][network].len;
	return 0;
}

const char *
profile_syscall_name(uint32_t arch, uint32_t nr)
{
	static char *name;

	free(name);
	name = NULL;
	if (arch != SCMP_ARCH_NATIVE && nr <= INT32_MAX)
		name = seccomp_syscall_resolve_num_arch(
		    arch == AUDIT_ARCH_X86_64 && nr & X32_BIT ? SCMP_ARCH_X32 : arch, (int)nr);
	return name != NULL ? name : "?";
}
