#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/util.h"
#include "worker/kernel.h"
#include "worker/worker.h"

/* Without root the kernel lets nobody drop a group, lest a denial to it be dodged. */
void
confine_groups(const struct plan *p)
{
	static gid_t groups[65536]; /* the kernel's NGROUPS_MAX */
	int n;

	if (p->h->flags & PLAN_ROOT && setgroups(0, NULL) < 0)
		die(LAYER_GROUPS, errno);
	n = getgroups(countof(groups), groups);
	if (n < 0)
		die(LAYER_GROUPS, errno);
	for (int i = 0; i < n; i++)
		if (groups[i] != p->h->gid) {
			layer_absent(p, LAYER_GROUPS, EPERM);
			return;
		}
	layer_applied(LAYER_GROUPS, 1);
}

void
confine_namespaces(void)
{
	static const char name[] = "caisson";
	cleanup_fd int fd = -1;

	/* Not at birth: its root is then the group that we have been put into since. */
	if (unshare(CLONE_NEWCGROUP) < 0 || sethostname(name, sizeof(name) - 1) < 0)
		die(LAYER_NAMESPACES, errno);
	/* Of the host's /proc, but it speaks of the namespace that we are in.  A process
	 * without capabilities can make no other kind. */
	fd = ground_open_proc("sys/user/max_user_namespaces", O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die(LAYER_USER_NAMESPACE, errno);
	layer_applied(LAYER_USER_NAMESPACE, 1);
	layer_applied(LAYER_NAMESPACES, 1);
}

static void
limit(int resource, uint64_t soft, uint64_t hard)
{
	struct rlimit r = { soft, hard };

	if (soft == UINT64_MAX || setrlimit(resource, &r) == 0)
		return;
	/* A limit that the supervisor itself is under stands. */
	if (errno != EPERM || getrlimit(resource, &r) < 0)
		die(LAYER_RLIMITS, errno);
	if (r.rlim_max > hard)
		r.rlim_max = hard;
	r.rlim_cur = soft < r.rlim_max ? soft : r.rlim_max;
	if (setrlimit(resource, &r) < 0)
		die(LAYER_RLIMITS, errno);
}

struct rlimit_row {
	int resource;
	uint64_t soft, hard;
};

static void
limit_all(const struct rlimit_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		limit(rows[i].resource, rows[i].soft, rows[i].hard);
}

void
confine_rlimits(void)
{
	static const struct rlimit_row rows[] = {
		/* One byte is no core either, and other than 0 it also keeps the kernel from
		 * feeding one to a program of the host (core_pattern with a pipe). */
		{ RLIMIT_CORE, 1, 1 },
		{ RLIMIT_MEMLOCK, 64 << 10, 64 << 10 },
		{ RLIMIT_MSGQUEUE, 0, 0 },
		{ RLIMIT_NICE, 0, 0 },
		{ RLIMIT_RTPRIO, 0, 0 },
		{ RLIMIT_SIGPENDING, 1024, 1024 },
	};

	limit_all(rows, countof(rows));
}

void
confine_sizes(const struct plan *p)
{
	const struct rlimit_row rows[] = {
		{ RLIMIT_NPROC, p->h->processes, p->h->processes },
		{ RLIMIT_FSIZE, p->h->file_size, p->h->file_size },
		{ RLIMIT_AS, p->h->address_space, p->h->address_space },
		/* SIGXCPU first, which names the reason; SIGKILL a second later. */
		{ RLIMIT_CPU, p->h->cpu_seconds, p->h->cpu_seconds + 1 },
	};

	limit_all(rows, countof(rows));
	layer_applied(LAYER_RLIMITS, 1);
}

void
confine_descriptors(const struct plan *p)
{
	limit(RLIMIT_NOFILE, p->h->open_files, p->h->open_files);
}

void
confine_bounding(void)
{
	unsigned long c = 0;

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		die(LAYER_CAPABILITIES, errno);
	/* The kernel's own last one may lie beyond the one that this was built with: it is the
	 * one before the first that the kernel knows nothing of. */
	while (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) == 0)
		c++;
	if (errno != EINVAL || prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0)
		die(LAYER_CAPABILITIES, errno);
}

void
confine_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_SET_SECUREBITS, SECURE_ALL_BITS | SECURE_ALL_LOCKS, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, none) < 0)
		die(LAYER_CAPABILITIES, errno);
	layer_applied(LAYER_CAPABILITIES, 1);
}

#define FS_READ	 (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_FILE	 (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	LANDLOCK_ACCESS_FS_EXECUTE | KERNEL_LANDLOCK_FS_TRUNCATE | KERNEL_LANDLOCK_FS_IOCTL_DEV)
#define FS_WRITE (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | \
	LANDLOCK_ACCESS_FS_REFER | KERNEL_LANDLOCK_FS_TRUNCATE)

/* What the ABI lacks is absent, unless nobody asked for it. */
static void
landlock_ladder(const struct plan *p, int abi)
{
	layer_applied(LAYER_LANDLOCK, abi);
	if (abi >= 6)
		layer_applied(LAYER_SCOPES, 1);
	else
		layer_absent(p, LAYER_SCOPES, EOPNOTSUPP);
	if (p->h->flags & PLAN_NETWORK)
		return;
	if (abi >= 4)
		layer_applied(LAYER_TCP, 1);
	else
		layer_absent(p, LAYER_TCP, EOPNOTSUPP);
}

/* All that this kernel can handle is handled, so what no rule allows is refused. */
static struct kernel_landlock_ruleset
landlock_handled(int abi, bool network, size_t *ret_size)
{
	static const uint64_t fs[] = {
		[1] = (1ULL << 13) - 1,
		[2] = (1ULL << 14) - 1,
		[3] = (1ULL << 15) - 1,
		[4] = (1ULL << 15) - 1,
		[5] = (1ULL << 16) - 1,
	};
	struct kernel_landlock_ruleset r = { .fs = fs[abi < 5 ? abi : 5] };

	if (abi >= 4 && !network)
		r.net = KERNEL_LANDLOCK_NET_BIND_TCP | KERNEL_LANDLOCK_NET_CONNECT_TCP;
	if (abi >= 6)
		r.scoped = KERNEL_LANDLOCK_SCOPE_ABSTRACT | KERNEL_LANDLOCK_SCOPE_SIGNAL;
	*ret_size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	return r;
}

static void
landlock_allow(int ruleset, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr a = { .allowed_access = rights };
	int fd = kernel_open_path(path, 0), ret;

	a.parent_fd = fd;
	ret = fd < 0 ? -1 : kernel_landlock_add(ruleset, &a);
	/* The kernel refuses what only a directory can have; asking it first costs more. */
	if (fd >= 0 && ret < 0 && errno == EINVAL && rights & ~FS_FILE) {
		a.allowed_access &= FS_FILE;
		ret = kernel_landlock_add(ruleset, &a);
	}
	if (ret < 0)
		die(LAYER_LANDLOCK, errno);
	close(fd);
}

static void
landlock_step(const struct plan *p, const struct plan_step *s, int ruleset, uint64_t handled)
{
	uint64_t rights = FS_READ;

	if (s->op == PLAN_TMPFS || s->access & PLAN_WRITABLE)
		rights = FS_WRITE;
	if (s->access & PLAN_EXECUTABLE)
		rights |= LANDLOCK_ACCESS_FS_EXECUTE;
	if (s->access & PLAN_DEVICE)
		rights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
	if (rights != FS_READ)
		landlock_allow(ruleset, plan_string(p, s->target), rights & handled);
}

void
confine_landlock(const struct plan *p)
{
	int abi = kernel_landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct kernel_landlock_ruleset r;
	cleanup_fd int ruleset = -1;
	size_t size;

	if (abi < 1)
		die(LAYER_LANDLOCK, abi < 0 ? errno : ENOSYS);
	landlock_ladder(p, abi);
	r = landlock_handled(abi, p->h->flags & PLAN_NETWORK, &size);
	ruleset = kernel_landlock_create(&r, size, 0);
	if (ruleset < 0)
		die(LAYER_LANDLOCK, errno);
	/* Whatever stands in the root was put there to be read. */
	landlock_allow(ruleset, "/", FS_READ & r.fs);
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_BIND || p->steps[i].op == PLAN_TMPFS)
			landlock_step(p, &p->steps[i], ruleset, r.fs);
	if (kernel_landlock_restrict(ruleset, abi >= 7 ? KERNEL_LANDLOCK_LOG_NEW_EXEC : 0) < 0)
		die(LAYER_LANDLOCK, errno);
}

/* Outlives the exec; the loader maps what is executable as such, and never writes it. */
void
confine_mdwe(const struct plan *p)
{
	if ((p->h->flags & PLAN_MDWE) == 0)
		return;
	if (prctl(KERNEL_PR_SET_MDWE, KERNEL_PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0)
		layer_absent(p, LAYER_MDWE, errno);
	else
		layer_applied(LAYER_MDWE, 1);
}

/*
 * Where a listener further up already watches us (Caisson in Caisson) the kernel allows
 * no second one.  The same filter then kills where it would have told.
 */
static int
filter_without_listener(const struct plan *p)
{
	static struct sock_filter copy[BPF_MAXINSNS];
	struct sock_fprog prog = { .len = (unsigned short)p->h->nfilter, .filter = copy };

	memcpy(copy, p->filter, p->h->nfilter * sizeof(*copy));
	for (uint32_t i = 0; i < p->h->nfilter; i++)
		if (copy[i].code == (BPF_RET | BPF_K) && copy[i].k == SECCOMP_RET_USER_NOTIF)
			copy[i].k = SECCOMP_RET_KILL_PROCESS;
	if (kernel_seccomp(SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		die(LAYER_SECCOMP, errno);
	return -1;
}

int
confine_filter(const struct plan *p)
{
	struct sock_fprog prog = {
		.len = (unsigned short)p->h->nfilter,
		.filter = (struct sock_filter *)(uintptr_t)p->filter,
	};
	unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	int fd;

	if (p->h->nfilter == 0)
		return -1;
	if (p->h->flags & PLAN_ANSWERED)
		flags |= SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	fd = kernel_seccomp(SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0 && errno == EINVAL && p->h->flags & PLAN_ANSWERED) /* before Linux 5.19 */
		fd = kernel_seccomp(
		    SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (fd < 0 && errno == EBUSY) {
		layer_absent(p, LAYER_LISTENER, EBUSY);
		fd = filter_without_listener(p);
	} else if (fd < 0) {
		die(LAYER_SECCOMP, errno);
	} else {
		layer_applied(LAYER_LISTENER, 1);
	}
	layer_applied(LAYER_SECCOMP, 1);
	return fd;
}
