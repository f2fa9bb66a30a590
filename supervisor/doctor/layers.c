/* Probes of identity and of Landlock: what a process takes from itself. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <netinet/in.h>

#include "common/util.h"
#include "supervisor/children.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"

/* Of no use to a chamber yet. */
#define LANDLOCK_FS_RESOLVE_UNIX (1ULL << 16) /* ABI 9 */

/* ---- identity ---- */

void
probe_own_uid(struct doctor_finding *f)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	struct uid_claim claim = UID_CLAIM_NONE;
	int r;

	if (!uid_is_root()) {
		probe_no(f, EPERM,
		    "uid %u outside: a chamber's files and signals are this user's", geteuid());
		return;
	}
	r = uid_claim(&range, &claim);
	if (r < 0) {
		probe_no(
		    f, -r, "no uid of %u and up can be claimed: %s", range.first, strerror(-r));
		snprintf(f->remedy, sizeof(f->remedy), "%s",
		    doctor_rows[DOCTOR_ROW_run_directory].remedy);
		return;
	}
	probe_yes(f, "%u is free, of %u", claim.uid, range.count);
	uid_release(&claim);
}

void
probe_groups(struct doctor_finding *f)
{
	int n = getgroups(0, NULL);

	if (uid_is_root()) {
		if (setgroups(0, NULL) < 0)
			probe_no(f, errno, "setgroups: %s", strerror(errno));
		else
			probe_yes(f, "dropped");
	} else if (n > 1) {
		probe_no(
		    f, EPERM, "%d groups stay: the kernel lets nobody drop them rootless", n);
	} else {
		probe_yes(f, "there are none to drop");
	}
}

static bool
has_none(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	return syscall(SYS_capget, &h, d) == 0 && d[0].effective == 0 && d[1].effective == 0 &&
	       d[0].permitted == 0 && d[1].permitted == 0 && d[0].inheritable == 0 &&
	       d[1].inheritable == 0 && prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 0;
}

static void
in_capabilities(struct doctor_finding *f)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };
	int c = 0;

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) {
		probe_no(f, errno, "ambient set: %s", strerror(errno));
		return;
	}
	while (prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0) {
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) {
			probe_no(f, errno, "bounding set: %s", strerror(errno));
			return;
		}
		c++;
	}
	if (prctl(PR_SET_SECUREBITS, SECURE_ALL_BITS | SECURE_ALL_LOCKS, 0, 0, 0) < 0)
		probe_no(f, errno, "securebits: %s", strerror(errno));
	else if (syscall(SYS_capset, &h, d) < 0)
		probe_no(f, errno, "capset: %s", strerror(errno));
	else if (!has_none())
		probe_no(f, 0, "some are left");
	else
		probe_yes(f, "all %d, in every set; securebits locked", c);
}

void
probe_capabilities(struct doctor_finding *f)
{
	probe_chamber(f, 0, in_capabilities);
}

void
probe_no_new_privs(struct doctor_finding *f)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		probe_no(f, errno, "prctl: %s", strerror(errno));
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ||
		 prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		probe_no(f, 0, "it does not stay set");
	else
		probe_yes(f, "set, and cannot be unset");
}

void
probe_mdwe(struct doctor_finding *f)
{
	void *page;

	if (prctl(KERNEL_PR_SET_MDWE, KERNEL_PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0) {
		probe_no(f, errno, "prctl: %s", strerror(errno));
		return;
	}
	page = mmap(
	    NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED)
		probe_no(f, 0, "memory that is written and executed is still given");
	else
		probe_yes(f, "mmap for writing and executing: %s", strerrorname_np(errno));
}

void
probe_rlimits(struct doctor_finding *f)
{
	static const struct {
		int resource;
		const char *name;
		rlim_t value;
	} table[] = {
		{ RLIMIT_CORE, "core", 1 },
		{ RLIMIT_NOFILE, "nofile", 16 },
		{ RLIMIT_NPROC, "nproc", 64 },
		{ RLIMIT_FSIZE, "fsize", 4096 },
		{ RLIMIT_CPU, "cpu", 10 },
		{ RLIMIT_MEMLOCK, "memlock", 65536 },
		{ RLIMIT_MSGQUEUE, "msgqueue", 0 },
		{ RLIMIT_NICE, "nice", 0 },
		{ RLIMIT_RTPRIO, "rtprio", 0 },
		{ RLIMIT_SIGPENDING, "sigpending", 64 },
	};
	struct rlimit r;
	int fd;

	for (size_t i = 0; i < countof(table); i++) {
		if (getrlimit(table[i].resource, &r) < 0) {
			probe_no(f, errno, "%s: %s", table[i].name, strerror(errno));
			return;
		}
		r.rlim_max = r.rlim_max < table[i].value ? r.rlim_max : table[i].value;
		r.rlim_cur = r.rlim_max;
		if (setrlimit(table[i].resource, &r) < 0) {
			probe_no(f, errno, "%s: %s", table[i].name, strerror(errno));
			return;
		}
	}
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 16);
	if (fd >= 0 || errno != EINVAL)
		probe_no(f, 0, "a limit of 16 descriptors gave a 17th");
	else
		probe_yes(f, "%zu of them set, and held", countof(table));
}

/* ---- Landlock ---- */

/* Enters a domain that handles this and allows nothing of it; 0, or -1 after an answer. */
static int
enter(struct doctor_finding *f, struct kernel_landlock_ruleset r, size_t size, unsigned flags)
{
	cleanup_fd int ruleset = kernel_landlock_create(&r, size, 0);

	if (ruleset < 0) {
		probe_no(f, errno, "landlock_create_ruleset: %s", strerror(errno));
		return -1;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, ruleset, flags) < 0) {
		probe_no(f, errno, "landlock_restrict_self: %s", strerror(errno));
		return -1;
	}
	return 0;
}

/* The attack must have failed with this errno. */
static void
judge(struct doctor_finding *f, long result, int wanted, const char *what)
{
	if (result < 0 && errno == wanted)
		probe_yes(f, "%s: %s", what, strerrorname_np(wanted));
	else if (result < 0)
		probe_no(f, 0, "%s: %s, not %s", what, strerrorname_np(errno),
		    strerrorname_np(wanted));
	else
		probe_no(f, 0, "%s is allowed all the same", what);
}

void
probe_landlock(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = LANDLOCK_ACCESS_FS_READ_DIR };
	int abi = kernel_landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 0) {
		probe_no(f, errno, "landlock_create_ruleset: %s", strerror(errno));
		return;
	}
	if (enter(f, r, 8, 0) < 0)
		return;
	judge(f, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EACCES, "reading /");
	if (f->state == DOCTOR_YES)
		probe_yes(f, "ABI %d; reading /: EACCES", abi);
}

void
probe_landlock_refer(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = LANDLOCK_ACCESS_FS_REFER };

	if (enter(f, r, 8, 0) == 0)
		probe_yes(f, "a domain that handles it");
}

void
probe_landlock_truncate(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = KERNEL_LANDLOCK_FS_TRUNCATE };
	cleanup_fd int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (enter(f, r, 8, 0) < 0)
		return;
	if (fd < 0)
		probe_yes(f, "a domain that handles it");
	else
		judge(f, truncate(path, 0), EACCES, "truncating");
}

void
probe_landlock_ioctl(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = KERNEL_LANDLOCK_FS_IOCTL_DEV };
	cleanup_fd int fd = -1;

	if (enter(f, r, 8, 0) < 0)
		return;
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		probe_yes(f, "a domain that handles it");
	else
		judge(f, ioctl(fd, _IO(0, 1)), EACCES, "ioctl of a device");
}

void
probe_landlock_tcp(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .net = KERNEL_LANDLOCK_NET_BIND_TCP |
							  KERNEL_LANDLOCK_NET_CONNECT_TCP };
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (enter(f, r, 16, 0) < 0)
		return;
	if (fd < 0)
		probe_yes(f, "a domain that handles it");
	else
		judge(f, connect(fd, (const struct sockaddr *)&to, sizeof(to)), EACCES,
		    "connecting to port 9");
}

void
probe_landlock_signal(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .scoped = KERNEL_LANDLOCK_SCOPE_SIGNAL };

	/* Signal 0 only asks. */
	if (enter(f, r, 24, 0) == 0)
		judge(f, kill(getppid(), 0), EPERM, "signalling the parent");
}

void
probe_landlock_abstract(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .scoped = KERNEL_LANDLOCK_SCOPE_ABSTRACT };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	cleanup_fd int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_fd int fd = -1;
	socklen_t n = sizeof(a);

	/* The kernel chooses a name that is free. */
	if (listener < 0 ||
	    bind(listener, (const struct sockaddr *)&a, sizeof(a.sun_family)) < 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &n) < 0 || listen(listener, 1) < 0) {
		probe_no(f, errno, "an abstract socket: %s", strerror(errno));
		return;
	}
	if (enter(f, r, 24, 0) < 0)
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	judge(f, connect(fd, (const struct sockaddr *)&a, n), EPERM, "connecting outside");
}

void
probe_landlock_log(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = LANDLOCK_ACCESS_FS_READ_DIR };

	if (enter(f, r, 8, KERNEL_LANDLOCK_LOG_NEW_EXEC) == 0)
		probe_yes(f, "a domain that logs behind an exec, too");
}

void
probe_landlock_unix(struct doctor_finding *f)
{
	const struct kernel_landlock_ruleset r = { .fs = LANDLOCK_FS_RESOLVE_UNIX };

	if (enter(f, r, 8, 0) == 0)
		probe_yes(f, "a domain that handles it");
}
