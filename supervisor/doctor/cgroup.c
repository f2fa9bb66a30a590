/* Probes of control groups, through the one module that makes them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/doctor/probe.h"
#include "worker/kernel.h"

#define LIMIT_BYTES   (64u << 20)
#define LIMIT_PIDS    64
#define LIMIT_PERCENT 50

/* What the module says about more than there is; the row's own remedy where it says nothing. */
static void
advise(struct doctor_finding *f, const struct cgroup_status *status)
{
	if (status->advice[0] != '\0')
		snprintf(f->remedy, sizeof(f->remedy), "%s", status->advice);
}

/* Makes a group with these limits, and takes it away again. */
static void
try_limits(struct doctor_finding *f, const struct cgroup_limits *limits, const char *otherwise)
{
	struct cgroup_host *host = cgroup_host();
	struct cgroup *g = NULL;
	struct cgroup_entry e;
	int r = host == NULL ? -ENOMEM : cgroup_create(host, NULL, limits, &g);

	e = cgroup_entry(g);
	if (r < 0 && r != -ENOTSUP) {
		probe_no(f, -r, "a group cannot be made: %s", strerror(-r));
	} else if ((e.bounds & limits->asked) == 0) {
		probe_no(f, EPERM, "no group can be made: %s", otherwise);
		advise(f, cgroup_host_status(host));
	} else {
		probe_yes(f, "%s, %.150s",
		    cgroup_backend_name(cgroup_host_status(host)->backend),
		    e.procs != NULL ? e.procs[0] : e.into);
	}
	cgroup_destroy(g);
	cgroup_host_finish();
}

void
probe_cgroup_memory(struct doctor_finding *f)
{
	static const struct cgroup_limits limits = { .memory_bytes = LIMIT_BYTES,
		.asked = CGROUP_MEMORY };

	try_limits(f, &limits, "bounded per process, by rlimit");
}

void
probe_cgroup_pids(struct doctor_finding *f)
{
	static const struct cgroup_limits limits = { .pids = LIMIT_PIDS, .asked = CGROUP_PIDS };

	try_limits(f, &limits, "bounded per uid, by rlimit");
}

void
probe_cgroup_cpu(struct doctor_finding *f)
{
	static const struct cgroup_limits limits = { .cpu_percent = LIMIT_PERCENT,
		.asked = CGROUP_CPU };

	try_limits(f, &limits, "--cpu is refused");
}

static void
ask(struct doctor_finding *f, unsigned ability, const char *otherwise)
{
	struct cgroup_host *host = cgroup_host();
	const struct cgroup_status *status;

	if (host == NULL) {
		probe_no(f, ENOMEM, "out of memory");
		return;
	}
	status = cgroup_host_status(host);
	if (status->abilities & ability) {
		probe_yes(f, "%s", cgroup_backend_name(status->backend));
	} else {
		probe_no(f, 0, "%s: %s", cgroup_backend_name(status->backend), otherwise);
		advise(f, status);
	}
	cgroup_host_finish();
}

void
probe_cgroup_io(struct doctor_finding *f)
{
	ask(f, CGROUP_IO, "what is read and written is not counted");
}

void
probe_cgroup_kill(struct doctor_finding *f)
{
	ask(f, CGROUP_KILL, "the pid namespace alone ends a tree");
}

/* Born where a chamber would be: in a group that the module made. */
static void
try_birth(struct doctor_finding *f, const char *dir)
{
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	if (fd < 0) {
		probe_no(f, errno, "%.150s: %s", dir, strerror(errno));
		return;
	}
	a.cgroup = (uint64_t)(unsigned)fd;
	pid = kernel_clone3(&a);
	if (pid == 0)
		_exit(0);
	if (pid < 0) {
		probe_no(f, errno, "clone3: %s", strerror(errno));
		return;
	}
	probe_wait(pid);
	probe_yes(f, "in %.150s", dir);
}

void
probe_into_cgroup(struct doctor_finding *f)
{
	static const struct cgroup_limits limits = { .memory_bytes = LIMIT_BYTES,
		.pids = LIMIT_PIDS,
		.asked = CGROUP_MEMORY | CGROUP_PIDS };
	struct cgroup_host *host = cgroup_host();
	struct cgroup *g = NULL;
	const char *into = NULL;

	if (host != NULL && cgroup_create(host, NULL, &limits, &g) == 0)
		into = cgroup_entry(g).into;
	if (into != NULL)
		try_birth(f, into);
	else
		probe_no(f, ENOENT, "no cgroup v2 to be born in");
	cgroup_destroy(g);
	cgroup_host_finish();
}
