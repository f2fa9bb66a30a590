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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>

#include <seccomp.h>

#include "common/control.h"
#include "common/util.h"
#include "supervisor/profiles_rules.h"

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

/* With and without the internet's sockets. */
struct profile_list {
	unsigned rows[2]; /* of a built-in profile: which rows of profiles.def */
	struct profile_rule *rules[2]; /* NULL: not yet read */
	size_t n[2];
	struct sock_filter *insns[2]; /* NULL: not yet compiled */
	size_t len[2];
};

/* Which lists a row is on. */
enum { N = 1, I = 2, P = 4, W = 8, F = 16, J = 32, X = 64, ALL = N | I | J | P | F | W | X };

static struct profile_list native = { .rows = { N, W } }, interpreter = { .rows = { I, W } },
			   jit = { .rows = { J, X } }, provider = { .rows = { P, W } },
			   files = { .rows = { F, W } };

/* Their lists let nobody make a socket, unless hosts are declared. */
#define FILTERED(of) \
	.name = #of, .filtered = true, .network = NETWORK_SHARED, .list = &of

static const struct profile profiles[] = {
	{ FILTERED(native), .mdwe = true, USUAL, .tmp_bytes = 64 * MIB, .pids = 128,
	    .open_files = 1024 },
	{ FILTERED(interpreter), .mdwe = true, USUAL, .tmp_bytes = 64 * MIB, .pids = 128,
	    .open_files = 1024 },
	/* Code that is made while it runs: V8 aborts where such memory is refused. */
	{ FILTERED(jit), USUAL, .tmp_bytes = 64 * MIB, .pids = 128, .open_files = 1024 },
	{ FILTERED(provider), .mdwe = true, .libexec = true, USUAL, .tmp_bytes = 16 * MIB,
	    .pids = 64, .open_files = 1024 },
	{ FILTERED(files), .mdwe = true, .libexec = true, USUAL, .tmp_bytes = 16 * MIB,
	    .pids = 64, .open_files = 1024 },
	{ .name = "broker", .minimal = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 1 * MIB, .pids = 32, .open_files = 65536 },
	{ .name = "ledger", .minimal = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 1 * MIB, .pids = 32, .open_files = 1024 },
	{ .name = "gateway", .minimal = true, .mdwe = true, .libexec = true, USUAL,
	    .tmp_bytes = 1 * MIB, .pids = 32, .open_files = 65536 },
};

/* No new namespace, and no process that would be a child of pid 1's parent. */
#define CLONE_FORBIDDEN \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	    CLONE_NEWPID | CLONE_NEWNET | CLONE_PARENT | CLONE_PTRACE)
#define INT 0xffffffffULL
#define SOCK_TYPE 0xfu /* the rest of the argument is flags */
#define NEW_FILE (O_CREAT | 020000000) /* O_TMPFILE without its O_DIRECTORY */
#define USUAL_ADDRESS (1ULL << 46) /* a bit that stacks, heaps and libraries have in common */

/* The list as rows; a GROUP row (no name) sets the lists of those after it. */
static const struct row {
	const char *name;
	unsigned lists;
	struct profile_rule rule;
} rows[] = {
#define GROUP(on, reason)    { .lists = (on) },
#define ALLOW(call)	     { .name = #call, .rule = { .action = PROFILE_ALLOW } },
#define IF(arg, bits, want)  \
	.n = 1, .when = { { (arg), (uint64_t)(bits), (uint64_t)(want) & (uint64_t)(bits) } }
#define ALLOW_IF(call, arg, bits, want) \
	{ .name = #call, .rule = { .action = PROFILE_ALLOW, IF(arg, bits, want) } },
#define ALLOW_IF2(call, arg, bits, want, arg2, bits2, want2) \
	{ .name = #call, .rule = { .action = PROFILE_ALLOW, .n = 2, \
				     .when = { { (arg), (bits), (want) }, \
					 { (arg2), (bits2), (want2) } } } },
#define FAIL(call, why) \
	{ .name = #call, .rule = { .action = PROFILE_ERRNO, .error = (why) } },
#define FAIL_IF(call, arg, bits, want, why) \
	{ .name = #call, .rule = { .action = PROFILE_ERRNO, .error = (why), \
				     IF(arg, bits, want) } },
#define FAIL_IF2(call, arg, bits, want, arg2, bits2, want2, why) \
	{ .name = #call, .rule = { .action = PROFILE_ERRNO, .error = (why), .n = 2, \
				     .when = { { (arg), (bits), (want) }, \
					 { (arg2), (bits2), (want2) } } } },
#include "supervisor/profiles.def"
};

const struct profile *
profile_named(const char *name)
{
	for (size_t i = 0; i < countof(profiles); i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

const struct profile *
profile_builtin(size_t i)
{
	return i < countof(profiles) ? &profiles[i] : NULL;
}

int
profile_syscall_number(const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);

	return nr == __NR_SCMP_ERROR ? -ENOENT : nr < 0 ? -ENOSYS : nr;
}

/* ---- from rules to instructions ---- */

static int
rule_add(scmp_filter_ctx ctx, const struct profile_rule *r)
{
	struct scmp_arg_cmp when[PROFILE_ARGUMENTS];

	for (unsigned i = 0; i < r->n; i++) {
		const struct profile_condition *c = &r->when[i];

		when[i] = SCMP_CMP(c->argument, SCMP_CMP_MASKED_EQ, c->mask, c->value);
	}
	return seccomp_rule_add_array(ctx,
	    r->action == PROFILE_ALLOW ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((unsigned)r->error),
	    r->nr, r->n, when);
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
filter_compile(const struct profile_rule *rules, size_t n, struct sock_filter **ret,
    size_t *ret_len)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(DEFAULT_ERRNO));
	struct sock_filter *insns = NULL;
	int r;

	if (ctx == NULL)
		return -ENOMEM;
	/* The 32-bit entry and x32 have numbers of their own: named, and ended, too. */
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(DEFAULT_ERRNO));
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; i < n && r == 0; i++)
		r = rule_add(ctx, &rules[i]);
	if (r == 0)
		r = export_bpf(ctx, &insns, ret_len);
	if (r == 0)
		r = *ret_len > BPF_MAXINSNS ? -E2BIG : default_to_notification(insns, *ret_len);
	seccomp_release(ctx);
	if (r == 0)
		*ret = insns;
	else
		free(insns);
	return r;
}

/*
 * Where memory runs out libseccomp may leave out what it had no room for, and tell nobody.  So
 * two are made: what is missing from one for that reason is not missing from the other, too.
 */
static int
filter_build(const struct profile_rule *rules, size_t n, struct sock_filter **ret,
    size_t *ret_len)
{
	cleanup_free struct sock_filter *first = NULL, *second = NULL;
	size_t len, again;
	int r = filter_compile(rules, n, &first, &len);

	if (r == 0)
		r = filter_compile(rules, n, &second, &again);
	if (r < 0)
		return r;
	if (len != again || memcmp(first, second, len * sizeof(*first)) != 0)
		return -ENOMEM;
	*ret = first;
	*ret_len = len;
	first = NULL;
	return 0;
}

/* ---- the lists ---- */

/* The rows of profiles.def that are on `list`. */
static int
rows_read(unsigned list, struct profile_rule **ret, size_t *ret_n)
{
	struct profile_rule *rules = calloc(countof(rows), sizeof(*rules));
	unsigned lists = 0;
	size_t n = 0;

	if (rules == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < countof(rows); i++) {
		if (rows[i].name == NULL)
			lists = rows[i].lists;
		if (rows[i].name == NULL || !(lists & list))
			continue;
		rules[n] = rows[i].rule;
		rules[n].nr = profile_syscall_number(rows[i].name);
		if (rules[n++].nr < 0) {
			free(rules);
			return -EINVAL;
		}
	}
	*ret = rules;
	*ret_n = n;
	return 0;
}

int
profile_rules(const struct profile *p, bool network, const struct profile_rule **ret,
    size_t *ret_n)
{
	struct profile_list *l = p->list;
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (l == NULL)
		return 0;
	if (l->rules[network] == NULL) {
		r = rows_read(l->rows[network], &l->rules[network], &l->n[network]);
		if (r < 0)
			return r;
	}
	*ret = l->rules[network];
	*ret_n = l->n[network];
	return 0;
}

int
profile_filter(const struct profile *p, bool network, const struct sock_filter **ret,
    size_t *ret_len)
{
	struct profile_list *l = p->list;
	const struct profile_rule *rules;
	size_t n;
	int r = profile_rules(p, network, &rules, &n);

	*ret = NULL;
	*ret_len = 0;
	if (r < 0 || l == NULL)
		return r;
	if (l->insns[network] == NULL) {
		r = filter_build(rules, n, &l->insns[network], &l->len[network]);
		if (r < 0)
			return r;
	}
	*ret = l->insns[network];
	*ret_len = l->len[network];
	return 0;
}

/* ---- profiles of the operator's ---- */

static int
list_derive(struct profile_list *l, bool network, const struct profile *base,
    const struct profile_rule *own, size_t n, size_t *ret_fault, const char **ret_text)
{
	struct profile_rule *rules = calloc(PROFILE_RULES_MAX, sizeof(*rules));
	const struct profile_rule *from;
	size_t nfrom;
	int r = rules == NULL ? -ENOMEM : profile_rules(base, network, &from, &nfrom);

	if (r == 0)
		r = profile_rules_derive(from, nfrom, own, n, rules, ret_fault, ret_text);
	if (r < 0) {
		free(rules);
		return r == -ENOSPC ? -E2BIG : r;
	}
	l->rules[network] = rules;
	l->n[network] = (size_t)r;
	return 0;
}

int
profile_create(const char *name, const struct profile *base, const struct profile_rule *own,
    size_t n, struct profile **ret, size_t *ret_fault, const char **ret_text)
{
	struct profile *p = calloc(1, sizeof(*p));
	const struct sock_filter *insns;
	size_t len;
	int r;

	*ret_text = NULL;
	if (p == NULL)
		return -ENOMEM;
	*p = *base;
	p->name = name;
	p->base = base;
	p->mounts = NULL;
	p->nmounts = 0;
	p->env = NULL;
	p->list = calloc(1, sizeof(*p->list));
	r = p->list == NULL ? -ENOMEM : 0;
	for (int network = 0; network < 2 && r == 0; network++) {
		r = list_derive(p->list, network, base, own, n, ret_fault, ret_text);
		/* Now, not when a chamber is wanted: what cannot be compiled is no profile. */
		if (r == 0)
			r = profile_filter(p, network, &insns, &len);
	}
	if (r < 0) {
		profile_destroy(p);
		return r == -EINVAL && *ret_text == NULL ? -E2BIG : r;
	}
	*ret = p;
	return 0;
}

void
profile_destroy(struct profile *p)
{
	if (p == NULL)
		return;
	for (int network = 0; network < 2 && p->list != NULL; network++) {
		free(p->list->rules[network]);
		free(p->list->insns[network]);
	}
	free(p->list);
	free(p);
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
