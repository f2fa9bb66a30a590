/* Probes of what the machine's owner decides: programs, directories, settings. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/launch_plan.h"
#include "supervisor/quota.h"
#include "supervisor/state.h"
#include "supervisor/uid.h"

/* ---- programs ---- */

static void
look_for(struct doctor_finding *f, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/%s", launch_libexec(), name);

	if (n >= (int)sizeof(path) || stat(path, &st) < 0)
		probe_no(f, errno, "helper missing: %.120s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		probe_no(f, EACCES, "helper missing: %.120s cannot be executed", path);
	else
		probe_yes(f, "%.180s", path);
}

void
probe_helper_worker(struct doctor_finding *f)
{
	look_for(f, "caisson-worker");
}

void
probe_helper_broker(struct doctor_finding *f)
{
	look_for(f, "caisson-broker");
}

void
probe_helper_ledger(struct doctor_finding *f)
{
	look_for(f, "caisson-ledger");
}

void
probe_helper_files(struct doctor_finding *f)
{
	look_for(f, "caisson-files");
}

/* ---- state ---- */

void
probe_run_directory(struct doctor_finding *f)
{
	char at[PATH_MAX];

	if (!uid_is_root()) {
		probe_unasked(f, "needs root, and without it nobody needs it");
		return;
	}
	probe_existing("/run/caisson/uid", at);
	if (access(at, W_OK | X_OK) < 0)
		probe_no(f, errno, "%s: %s", at, strerror(errno));
	else
		probe_yes(f, "%s can be written", at);
}

void
probe_state_directory(struct doctor_finding *f)
{
	const char *dir = probe_state_dir;
	struct statvfs fs;
	struct stat st;
	char at[PATH_MAX];

	if (dir == NULL) {
		probe_no(
		    f, ENOENT, "none is known: neither HOME nor XDG_STATE_HOME says where");
		return;
	}
	probe_existing(dir, at);
	if (access(at, W_OK | X_OK) < 0 || stat(at, &st) < 0 || statvfs(at, &fs) < 0)
		probe_no(f, errno, "%.130s: %s", at, strerror(errno));
	else if (strcmp(at, dir) == 0 && (st.st_uid != geteuid() || st.st_mode & 022))
		probe_no(f, EPERM, "%.130s: others can write there", dir);
	else if (fs.f_bavail * fs.f_frsize < STATE_SEGMENT)
		probe_no(f, ENOSPC, "%.130s: no room for a segment of the record", dir);
	else
		probe_yes(f, "%.130s%s", dir, strcmp(at, dir) == 0 ? "" : " (would be made)");
}

void
probe_append_only(struct doctor_finding *f)
{
	cleanup_fd int fd = -1, again = -1;
	char at[PATH_MAX], path[64];
	int flags = 0;

	if (!uid_is_root()) {
		probe_unasked(f, "needs root");
		return;
	}
	probe_existing(probe_state_dir, at);
	fd = open(at, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0) {
		probe_no(f, errno, "%.130s: %s", at, strerror(errno));
		return;
	}
	flags |= FS_APPEND_FL;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0) {
		probe_no(f, errno, "%.130s: %s", at, strerror(errno));
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_WRONLY | O_CLOEXEC);
	if (again >= 0 || ftruncate(fd, 0) == 0)
		probe_no(f, 0, "%.130s: the flag is taken and not obeyed", at);
	else
		probe_yes(f, "on the file system of %.130s", at);
	flags &= ~FS_APPEND_FL;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

#define BOUND (64u << 10)

/* Whoever has this capability goes beyond what others may. */
static int
drop_resource_capability(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	d[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

void
probe_workspace_quota(struct doctor_finding *f)
{
	static const char block[2 * BOUND];
	cleanup_fd int fd = -1;
	uint32_t project = QUOTA_PROJECT_NONE;
	char at[PATH_MAX];
	ssize_t n = -1;
	int r;

	if (!uid_is_root()) {
		probe_unasked(f, "needs root");
		return;
	}
	probe_existing(probe_state_dir, at);
	fd = open(at, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : quota_probe(fd);
	if (r == 0)
		r = quota_claim(fd, (uint64_t)getpid(), BOUND, &project);
	if (r < 0) {
		probe_no(f, -r, "%.130s: %s", at, strerror(-r));
		snprintf(f->remedy, sizeof(f->remedy), "%s", quota_remedy(r));
		return;
	}
	if (drop_resource_capability() == 0)
		n = pwrite(fd, block, sizeof(block), 0);
	if (n > (ssize_t)BOUND || (n < 0 && errno != EDQUOT && errno != ENOSPC))
		probe_no(f, 0, "%.130s: a bound is taken and not obeyed", at);
	else
		probe_yes(f, "on the file system of %.130s", at);
	(void)quota_bound(fd, project, 0);
}

/* ---- the machine ---- */

void
probe_userns_clone(struct doctor_finding *f)
{
	long n = probe_setting("kernel/unprivileged_userns_clone", -1);

	if (n == 0)
		probe_no(f, EPERM, "kernel.unprivileged_userns_clone = 0");
	else
		probe_yes(
		    f, n < 0 ? "no such switch here" : "kernel.unprivileged_userns_clone = 1");
}

void
probe_max_userns(struct doctor_finding *f)
{
	long n = probe_setting("user/max_user_namespaces", -1);

	if (n == 0)
		probe_no(f, ENOSPC, "user.max_user_namespaces = 0");
	else if (n < 0)
		probe_no(f, ENOENT, "no such switch here");
	else
		probe_yes(f, "%ld", n);
}

void
probe_apparmor(struct doctor_finding *f)
{
	long n = probe_setting("kernel/apparmor_restrict_unprivileged_userns", -1);

	if (n > 0)
		probe_no(f, EPERM, "kernel.apparmor_restrict_unprivileged_userns = %ld", n);
	else
		probe_yes(f, n < 0 ? "no such switch here" : "the switch is 0");
}

void
probe_lsm(struct doctor_finding *f)
{
	char text[160];
	int r = probe_read("/sys/kernel/security/lsm", text, sizeof(text));

	if (r < 0)
		probe_no(f, -r, "/sys/kernel/security/lsm: %s", strerror(-r));
	else
		probe_yes(f, "%s", text);
}

void
probe_yama(struct doctor_finding *f)
{
	long n = probe_setting("kernel/yama/ptrace_scope", -1);

	if (n > 0)
		probe_yes(f, "ptrace_scope %ld", n);
	else
		probe_no(f, 0, n < 0 ? "not there" : "ptrace_scope 0");
}

void
probe_io_uring(struct doctor_finding *f)
{
	/* No parameters: refused for that, if for nothing else. */
	if (syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EFAULT)
		probe_yes(f, "open to programs outside chambers");
	else
		probe_no(f, errno, "off: %s", strerror(errno));
}

/* A child makes the call, which may end it: 7 if it worked. */
static bool
entry(void (*call)(void))
{
	pid_t pid = probe_fork();
	int status;

	if (pid == 0) {
		call();
		_exit(1);
	}
	status = pid < 0 ? -1 : probe_wait(pid);
	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

static void
call_i386(void)
{
#ifdef __x86_64__
	long pid = 20; /* getpid of i386 */

	__asm__ volatile("int $0x80" : "+a"(pid) : : "memory", "r8", "r9", "r10", "r11");
	if (pid == getpid())
		_exit(7);
#endif
}

static void
call_x32(void)
{
#ifdef __x86_64__
	if (syscall(0x40000000L | SYS_getpid) == getpid())
		_exit(7);
#endif
}

void
probe_i386_entry(struct doctor_finding *f)
{
	if (entry(call_i386))
		probe_yes(f, "live");
	else
		probe_no(f, 0, "not there");
}

void
probe_x32_entry(struct doctor_finding *f)
{
	if (entry(call_x32))
		probe_yes(f, "live");
	else
		probe_no(f, 0, "not there");
}

void
probe_tiocsti(struct doctor_finding *f)
{
	long n = probe_setting("dev/tty/legacy_tiocsti", 1);

	if (n != 0)
		probe_yes(f, "live: dev.tty.legacy_tiocsti is not 0");
	else
		probe_no(f, 0, "off: dev.tty.legacy_tiocsti = 0");
}

void
probe_core_pattern(struct doctor_finding *f)
{
	char text[128];
	int r = probe_read("/proc/sys/kernel/core_pattern", text, sizeof(text));

	if (r < 0)
		probe_no(f, -r, "/proc/sys/kernel/core_pattern: %s", strerror(-r));
	else if (text[0] == '|')
		probe_yes(f, "a program of the host's: %s", text);
	else
		probe_no(f, 0, "none, a file: %s", text);
}
