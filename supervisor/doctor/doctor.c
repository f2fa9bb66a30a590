#include "supervisor/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/state_dir.h"
#include "common/util.h"
#include "supervisor/doctor/launch.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

/* A probe takes about 1 ms; on a machine that takes down many network namespaces, seconds. */
#define PROBE_MS 3000
#define HANGS_MS 6000 /* all that is waited for probes that hang: then each has the least */
#define LEAST_MS 100

#define NEEDED	    DOCTOR_NEEDED
#define WANTED	    DOCTOR_WANTED
#define INFORMATION DOCTOR_INFORMATION

const struct doctor_row doctor_rows[DOCTOR_ROWS] = {
#define GROUP(name)
#define PROBE(row, need, after, title, purpose, remedy)                                        \
	{ #row, title, need, DOCTOR_ROW_##after, purpose, remedy, probe_##row },
#define REMEDY(id, error, remedy)
#include "supervisor/doctor/doctor.def"
};

static const struct {
	const char *name;
	int first;
} groups[] = {
#define GROUP(name) { #name, DOCTOR_GROUP_##name },
#define PROBE(id, need, after, title, purpose, remedy)
#define REMEDY(id, error, remedy)
#include "supervisor/doctor/doctor.def"
};

static const struct {
	int row, error;
	const char *remedy;
} remedies[] = {
#define GROUP(name)
#define PROBE(id, need, after, title, purpose, remedy)
#define REMEDY(id, error, remedy) { DOCTOR_ROW_##id, error, remedy },
#include "supervisor/doctor/doctor.def"
};

const char *
doctor_group(int row)
{
	const char *name = "";

	for (size_t i = 0; i < countof(groups) && groups[i].first <= row; i++)
		name = groups[i].name;
	return name;
}

const char *
doctor_remedy(const struct doctor_report *r, int row)
{
	const struct doctor_finding *f = &r->findings[row];

	if (f->state != DOCTOR_NO)
		return "";
	if (f->remedy[0] != '\0')
		return f->remedy;
	for (size_t i = 0; i < countof(remedies); i++)
		if (remedies[i].row == row && remedies[i].error == f->error)
			return remedies[i].remedy;
	return doctor_rows[row].remedy;
}

/* ---- one probe ---- */

static _Noreturn void
probe_main(int row, struct doctor_finding *f)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (int i = 1; i < _NSIG; i++)
		signal(i, SIG_DFL);
	doctor_rows[row].probe(f);
	_exit(0);
}

/* The probe and all that it made hold the other end: end-of-file says that they are gone. */
static bool
wait_for_end(int fd, uint64_t until_ms)
{
	struct pollfd p = { .fd = fd };
	uint64_t now = clock_ms();
	int n;

	do {
		n = poll(&p, 1, now < until_ms ? (int)(until_ms - now) : 0);
		now = clock_ms();
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Why there is no answer. */
static void
say_unknown(struct doctor_finding *f, bool ended, int status)
{
	if (!ended)
		snprintf(f->detail, sizeof(f->detail), "hangs: no answer, and it was killed");
	else if (WIFSIGNALED(status))
		snprintf(f->detail, sizeof(f->detail), "the probe was killed by signal %d (%s)",
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(f->detail, sizeof(f->detail), "the probe ended without an answer");
	f->state = DOCTOR_UNKNOWN;
}

static void
probe_run(int row, struct doctor_finding *f, uint64_t *hangs_ms)
{
	uint64_t now = clock_ms(), left = HANGS_MS - *hangs_ms;
	int gate[2], status = 0;
	bool ended;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		f->error = errno;
		f->state = DOCTOR_UNKNOWN;
		snprintf(f->detail, sizeof(f->detail), "the probe cannot be started");
		return;
	}
	if (pid == 0) {
		close(gate[0]);
		probe_main(row, f);
	}
	setpgid(pid, pid); /* whoever of the two comes first */
	close(gate[1]);
	ended = wait_for_end(gate[0], now + (left < LEAST_MS	  ? LEAST_MS
						: left < PROBE_MS ? left
								  : PROBE_MS));
	if (!ended) {
		*hangs_ms += clock_ms() - now;
		*hangs_ms = *hangs_ms > HANGS_MS ? HANGS_MS : *hangs_ms;
	}
	kill(-pid, SIGKILL);
	/* In the middle of a system call that nothing interrupts it stays, as init's. */
	if (ended || wait_for_end(gate[0], clock_ms() + LEAST_MS))
		waitpid(pid, &status, 0);
	close(gate[0]);
	if (!ended || f->state == DOCTOR_UNTRIED)
		say_unknown(f, ended, status);
}

static void
examine_row(struct doctor_finding *shared, int row, uint64_t *hangs_ms)
{
	int after = doctor_rows[row].after;
	struct doctor_finding *f = &shared[row];

	if (after < 0 || shared[after].state == DOCTOR_YES) {
		probe_run(row, f, hangs_ms);
		return;
	}
	if (shared[after].state == DOCTOR_UNKNOWN)
		f->state = DOCTOR_UNKNOWN;
	snprintf(
	    f->detail, sizeof(f->detail), "not tried: it needs %s", doctor_rows[after].title);
}

/* ---- all of them ---- */

static int
examine(const char *state_dir, struct doctor_report *ret)
{
	cleanup_free char *fallback = state_dir != NULL ? NULL : state_dir_default();
	struct doctor_finding *shared;
	uint64_t hangs_ms = 0;

	memset(ret, 0, sizeof(*ret));
	ret->is_root = uid_is_root();
	probe_state_dir = state_dir != NULL ? state_dir : fallback;
	shared = mmap(NULL, sizeof(ret->findings), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	/* What a probe leaves behind comes to us, and ends with the others below. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (int i = 0; i < DOCTOR_ROWS; i++)
		examine_row(shared, i, &hangs_ms);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	memcpy(ret->findings, shared, sizeof(ret->findings));
	munmap(shared, sizeof(ret->findings));
	probe_state_dir = NULL;
	return doctor_launch_all(ret);
}

/* ---- the verdict ---- */

bool
doctor_is_gap(const struct doctor_report *r, int row, const char *profile)
{
	const struct profile *p = profile_named(profile);

	if (row == DOCTOR_ROW_mdwe && p != NULL && !p->mdwe)
		return false;
	/* What was not tried for want of another row is that row's gap. */
	return doctor_rows[row].need != DOCTOR_INFORMATION &&
	       r->findings[row].state == DOCTOR_NO;
}

bool
doctor_is_enforced(const struct doctor_report *r, const struct doctor_launch *l)
{
	for (int i = 0; i < DOCTOR_ROWS; i++)
		if (doctor_rows[i].need == DOCTOR_NEEDED && doctor_is_gap(r, i, l->profile))
			return false;
	return l->launched;
}

const struct doctor_launch *
doctor_default(const struct doctor_report *r)
{
	for (size_t i = 0; i < r->nlaunches; i++)
		if (strcmp(r->launches[i].profile, PROFILE_DEFAULT) == 0)
			return &r->launches[i];
	return NULL;
}

static bool
wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return (no == NULL || *no == '\0') && isatty(STDOUT_FILENO) &&
	       (term == NULL || strcmp(term, "dumb") != 0);
}

int
doctor_main(const char *state_dir, bool json, bool verbose)
{
	static struct doctor_report report;
	const struct doctor_launch *l;
	int r = examine(state_dir, &report);

	if (r < 0) {
		log_error("doctor: cannot start: %s", strerror(-r));
		return 125;
	}
	if (json)
		doctor_print_json(stdout, &report);
	else
		doctor_print_text(stdout, &report, wants_colour(), verbose);
	if (fflush(stdout) != 0) {
		log_error("doctor: standard output: %s", strerror(errno));
		return 125;
	}
	l = doctor_default(&report);
	return l != NULL && doctor_is_enforced(&report, l) ? 0 : 1;
}
