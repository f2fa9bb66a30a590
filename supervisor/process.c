#include "supervisor/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/options.h"
#include "common/util.h"
#include "common/walk.h"
#include "supervisor/cgroup.h"
#include "supervisor/launch.h"
#include "supervisor/profiles.h"

/* Of all processes in one pid namespace: that of one chamber. */
struct tally {
	ino_t ns; /* 0: not known */
	uint32_t processes;
	uint64_t cpu_us, resident_bytes;
	bool has_cpu, has_resident;
};

/* ---- numbers of /proc -------------------------------------------------------------- */

/* The pid namespace of `pid`, by the inode that stands for it; 0 if the kernel does not say. */
static ino_t
namespace_of(int proc_fd, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "%d/ns/pid", (int)pid);
	return fstatat(proc_fd, path, &st, 0) == 0 ? st.st_ino : 0;
}

/* What the kernel charges to all its threads, those that have ended included. */
static bool
read_cpu(pid_t pid, uint64_t *ret_us)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return false;
	*ret_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
	return true;
}

/* "size resident shared ...", in pages. */
static bool
read_resident(int proc_fd, pid_t pid, uint64_t *ret_bytes)
{
	char path[32], text[128], *end;
	cleanup_fd int fd = -1;
	unsigned long pages;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/statm", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	(void)strtoul(text, &end, 10);
	if (*end != ' ')
		return false;
	pages = strtoul(end + 1, NULL, 10);
	*ret_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

static bool
count_descriptors(int proc_fd, pid_t pid, uint64_t *ret)
{
	char path[32];
	struct dirent *e;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%d/fd", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		util_close(&fd);
		return false;
	}
	*ret = 0;
	while ((e = readdir(dir)))
		*ret += e->d_name[0] != '.';
	closedir(dir);
	return true;
}

static void
add_process(struct tally *t, int proc_fd, pid_t pid)
{
	uint64_t cpu_us, bytes;

	t->processes++;
	if (read_cpu(pid, &cpu_us)) {
		t->has_cpu = true;
		t->cpu_us += cpu_us;
	}
	if (read_resident(proc_fd, pid, &bytes)) {
		t->has_resident = true;
		t->resident_bytes += bytes;
	}
}

/* One pass over /proc for all chambers. */
static void
measure(int proc_fd, struct tally *v, size_t n)
{
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint64_t pid;
	ino_t ns;
	size_t i;

	if (!dir) {
		util_close(&fd);
		return;
	}
	while ((e = readdir(dir))) {
		if (options_parse_number(e->d_name, INT32_MAX, &pid) < 0)
			continue;
		ns = namespace_of(proc_fd, (pid_t)pid);
		for (i = 0; ns && i < n; i++)
			if (v[i].ns == ns)
				add_process(&v[i], proc_fd, (pid_t)pid);
	}
	closedir(dir);
}

/* ---- what a child was born with ---------------------------------------------------- */

const char *const *
process_handed(enum child_kind kind, bool with_input)
{
	static const char *const turn[] = { "null", "stdout", "stderr", "link", NULL };
	static const char *const command[] = { "null", "stdout", "stderr", NULL };
	static const char *const input[] = { "stdin", "stdout", "stderr", NULL };
	static const char *const provider[] = { "null", "null", "stderr", "link", NULL };

	return kind == CHILD_PROVIDER || kind == CHILD_WORKSPACE ? provider
	       : kind == CHILD_TURN   ? turn
	       : with_input	      ? input
				      : command;
}

/* ---- rows -------------------------------------------------------------------------- */

static void
pack_handed(struct buf *b, const char *const *kinds)
{
	uint32_t n = 0;

	while (kinds[n])
		n++;
	pack_array(b, n);
	for (n = 0; kinds[n]; n++)
		pack_str(b, kinds[n]);
}

static void
pack_layers(struct buf *applied, struct buf *absent, const struct launch_layers *l)
{
	uint32_t napplied = 0, nabsent = 0;
	unsigned i;

	for (i = LAYER_NONE + 1; i < LAYER_MAX; i++) {
		napplied += l->state[i] > 0;
		nabsent += l->state[i] < 0;
	}
	pack_array(applied, napplied);
	pack_array(absent, nabsent);
	for (i = LAYER_NONE + 1; i < LAYER_MAX; i++) {
		if (l->state[i] > 0)
			pack_str(applied, layer_name(i));
		if (l->state[i] >= 0)
			continue;
		pack_map(absent, 2);
		pack_str(absent, "layer");
		pack_str(absent, layer_name(i));
		pack_str(absent, "errno");
		pack_int(absent, -l->state[i]);
	}
}

/* A group knows more than we could find. */
static void
add_group(struct msg_process_row *m, const struct launch *l)
{
	struct cgroup_usage usage;

	launch_usage(l, &usage);
	m->has_cgroup = true;
	m->cgroup = slice_of(cgroup_backend_name(usage.backend));
	m->has_peakBytes = usage.peak_bytes != CGROUP_UNTOLD;
	m->peakBytes = usage.peak_bytes;
	if (usage.cpu_us != CGROUP_UNTOLD) {
		m->has_cpuUs = true;
		m->cpuUs = usage.cpu_us;
	}
}

static int
pack_row(struct buf *out, const struct process *p, const struct tally *t, int proc_fd)
{
	bool launched = p->launch && p->state != process_state_starting;
	pid_t pid = launched ? launch_program_pid(p->launch) : 0;
	struct buf handed = { 0 }, applied = { 0 }, absent = { 0 };
	struct msg_process_row m = {
		.role = p->role,
		.state = p->state,
		.has_session = p->has_session,
		.session = p->session,
		.has_id = p->id != NULL,
		.pid = (uint32_t)pid,
		.has_uid = !p->uid_comes,
		.uid = p->uid,
		.profile = slice_of(p->profile->name),
		.network = p->profile->network == NETWORK_SHARED ? process_network_shared
								 : process_network_own,
		.has_applied = launched,
		.has_absent = launched,
		.has_processes = t->processes > 0,
		.processes = t->processes,
		.has_cpuUs = t->has_cpu,
		.cpuUs = t->cpu_us,
		.has_residentBytes = t->has_resident,
		.residentBytes = t->resident_bytes,
		.since = p->since_ms,
	};
	int r;

	if (p->id)
		m.id = slice_of(p->id);
	m.has_descriptors = pid > 0 && count_descriptors(proc_fd, pid, &m.descriptors);
	pack_handed(&handed, p->handed);
	m.handed = buf_slice(&handed);
	if (launched) {
		add_group(&m, p->launch);
		pack_layers(&applied, &absent, launch_layers(p->launch));
		m.applied = buf_slice(&applied);
		m.absent = buf_slice(&absent);
	}
	r = handed.failed || applied.failed || absent.failed
		? -ENOMEM
		: protocol_notify(out, MSG_process_row, &m);
	buf_finish(&handed);
	buf_finish(&applied);
	buf_finish(&absent);
	return r;
}

/* Where to look for a chamber's processes. */
static void
start_tally(struct tally *t, int proc_fd, const struct launch *l)
{
	pid_t init = l ? launch_pid(l) : 0;

	if (!init)
		return;
	t->ns = namespace_of(proc_fd, init);
	if (t->ns)
		return;
	/* Rootless, an init that shows nobody its memory shows not even this, but is there. */
	t->ns = namespace_of(proc_fd, launch_program_pid(l));
	if (t->ns)
		add_process(t, proc_fd, init);
}

int
process_pack(struct buf *out, const struct process *v, size_t n)
{
	cleanup_free struct tally *tallies = calloc(n + 1, sizeof(*tallies));
	cleanup_fd int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ino_t ours = namespace_of(proc_fd, getpid());
	int packed = 0, r = tallies ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; tallies && i < n; i++) {
		start_tally(&tallies[i], proc_fd, v[i].launch);
		/* One that is still on its way is where we are, and everybody else. */
		if (tallies[i].ns == ours)
			tallies[i] = (struct tally){ 0 };
	}
	if (tallies)
		measure(proc_fd, tallies, n);
	for (i = 0; i < n && r == 0; i++) {
		if (!v[i].profile)
			continue;
		r = pack_row(out, &v[i], &tallies[i], proc_fd);
		packed += r == 0;
	}
	return r < 0 ? r : packed;
}
