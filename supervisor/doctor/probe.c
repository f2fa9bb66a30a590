#include "supervisor/doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/children.h"
#include "supervisor/mapping.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"
#include "worker/plan.h"

const char *probe_state_dir;
const char *probe_settings = "/proc/sys";

/* ---- the answer ---- */

static void
answer(
    struct doctor_finding *f, enum doctor_state state, int error, const char *fmt, va_list ap)
{
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	f->error = error;
	f->state = state;
}

void
probe_yes(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	answer(f, DOCTOR_YES, 0, fmt, ap);
	va_end(ap);
}

void
probe_no(struct doctor_finding *f, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	answer(f, DOCTOR_NO, error, fmt, ap);
	va_end(ap);
}

void
probe_unasked(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	answer(f, DOCTOR_UNASKED, 0, fmt, ap);
	va_end(ap);
}

/* ---- files of the kernel's ---- */

int
probe_read(const char *path, char *buf, size_t cap)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

long
probe_setting(const char *name, long none)
{
	char path[PATH_MAX], text[32], *end;
	long n;

	snprintf(path, sizeof(path), "%s/%s", probe_settings, name);
	if (probe_read(path, text, sizeof(text)) < 0)
		return none;
	errno = 0;
	n = strtol(text, &end, 10);
	return errno != 0 || end == text ? none : n;
}

void
probe_advise(struct doctor_finding *f)
{
	const char *text = NULL;

	if (f->error != EPERM && f->error != EACCES)
		return;
	if (probe_setting("kernel/unprivileged_userns_clone", 1) == 0)
		text = doctor_rows[DOCTOR_ROW_userns_clone].remedy;
	else if (probe_setting("kernel/apparmor_restrict_unprivileged_userns", 0) != 0)
		text = doctor_rows[DOCTOR_ROW_apparmor].remedy;
	if (text != NULL)
		snprintf(f->remedy, sizeof(f->remedy), "%s", text);
}

/* ---- children ---- */

pid_t
probe_fork(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

int
probe_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

void
probe_existing(const char *path, char ret[PATH_MAX])
{
	char *slash;

	snprintf(ret, PATH_MAX, "%s", path);
	while (access(ret, F_OK) < 0 && errno == ENOENT) {
		slash = strrchr(ret, '/');
		if (slash == NULL) {
			snprintf(ret, PATH_MAX, ".");
			return;
		}
		slash[slash == ret] = '\0';
		if (slash == ret)
			return;
	}
}

static _Noreturn void
chamber_main(int gate_fd, struct doctor_finding *f, void (*fn)(struct doctor_finding *f))
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (read(gate_fd, &byte, 1) != 1)
		_exit(1);
	if (setresgid(PLAN_INSIDE_GID, PLAN_INSIDE_GID, PLAN_INSIDE_GID) < 0 ||
	    setresuid(PLAN_INSIDE_UID, PLAN_INSIDE_UID, PLAN_INSIDE_UID) < 0) {
		probe_no(f, errno, "the mapped uid cannot be taken");
		_exit(0);
	}
	/* A change of uid has taken it away. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	fn(f);
	_exit(0);
}

void
probe_chamber(struct doctor_finding *f, uint64_t flags, void (*fn)(struct doctor_finding *f))
{
	struct clone_args a = { .flags = CLONE_NEWUSER | flags, .exit_signal = SIGCHLD };
	int gate[2], r, status;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0) {
		probe_no(f, errno, "pipe2");
		return;
	}
	pid = kernel_clone3(&a);
	if (pid == 0) {
		close(gate[1]);
		chamber_main(gate[0], f, fn);
	}
	if (pid < 0) {
		probe_no(f, errno, "clone3 with this namespace: %s", strerror(errno));
		if (!uid_is_root())
			probe_advise(f);
		return;
	}
	close(gate[0]);
	r = mapping_write(pid);
	if (r == 0)
		(void)!write(gate[1], "", 1);
	close(gate[1]);
	status = probe_wait(pid);
	if (r < 0)
		probe_no(f, -r, "uid and gid cannot be mapped: %s", strerror(-r));
	else if (f->state == DOCTOR_UNTRIED && WIFSIGNALED(status))
		probe_no(f, 0, "the process in it was killed by signal %d", WTERMSIG(status));
	if (f->state == DOCTOR_NO && !uid_is_root())
		probe_advise(f);
}
