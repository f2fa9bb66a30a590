/*
 * soak: many children, warm, cold, refused, dying and killed half-way, and nothing left of them.
 *
 *   soak N [SEED]
 *
 * Orders N spawns as a broker would, through supervisor/children.c, and ends each in one
 * of several ways; then compares what the process and the machine hold with what they held
 * after the first tenth, the files in its working directory among it.  A line of JSON on standard output; the status says whether it is the
 * same.  The memory of the allocator may grow by SLACK_BYTES, what is resident by SLACK_KB.
 */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/children.h"
#include "supervisor/config.h"

#define AT_ONCE	    6
#define SLACK_BYTES 65536
#define SLACK_KB    2048

enum way { SERVES, COLD, DIES, ABSENT, WAYS };
static const char *const way_names[WAYS] = { "serves", "cold", "dies", "absent" };

/* One spawn that was ordered. */
struct session {
	uint64_t id;
	uint32_t runtime;
	int fds[CONTROL_FDS_MAX];
	unsigned nfds;
	bool open, started;
};

static struct event_base *base;
static struct children *children;
static struct conf_namespace config;
static struct session sessions[AT_ONCE];
static unsigned long ordered, wanted, told[CONTROL_EXIT + 1], capped, killed;
static unsigned now_open;
static long groups_most; /* that were seen at once: had they been counted at all? */

/* What must come back to where it was. */
struct holding {
	long fds, mounts, groups, files, locks, bytes, resident_kb;
};

static long
count_dir(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	struct dirent *e;
	long n = 0;

	while (d && (e = readdir(d)))
		n += !strncmp(e->d_name, prefix, strlen(prefix));
	if (d)
		closedir(d);
	return n;
}

static long
count_lines(const char *path, const char *word)
{
	FILE *f = fopen(path, "re");
	char line[4096];
	long n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, word) != NULL;
	if (f)
		fclose(f);
	return n;
}

/* Directories of groups that this process made, in every hierarchy. */
static long
count_groups(void)
{
	char path[512], line[512], mine[32];
	FILE *f = fopen("/proc/self/cgroup", "re");
	long n = 0;

	snprintf(mine, sizeof(mine), "caisson-%d-", (int)getpid());
	while (f && fgets(line, sizeof(line), f)) {
		char *name = strchr(line, ':'), *own = name ? strchr(name + 1, ':') : NULL;

		if (!own)
			continue;
		*own = '\0';
		own[strcspn(own + 1, "\n") + 1] = '\0';
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%.100s%.300s",
		    name[1] ? name + 1 : "unified", own + 1);
		n += count_dir(path, mine);
	}
	if (f)
		fclose(f);
	return n;
}

static long
resident_kb(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, pages = 0;

	if (f && fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct holding
hold(void)
{
	char own[32];
	struct holding h = { .mounts = count_lines("/proc/self/mountinfo", ""),
		.groups = count_groups(),
		.files = count_dir(".", "") };

	snprintf(own, sizeof(own), " %d ", (int)getpid());
	h.fds = count_dir("/proc/self/fd", "");
	h.locks = count_lines("/proc/locks", own);
	malloc_trim(0);
	h.bytes = (long)mallinfo2().uordblks;
	h.resident_kb = resident_kb();
	return h;
}

/* ---- what a broker does ------------------------------------------------------------ */

static struct session *
find(uint64_t id)
{
	unsigned i;

	for (i = 0; i < AT_ONCE; i++)
		if (sessions[i].open && sessions[i].id == id)
			return &sessions[i];
	return NULL;
}

static void
let_go(struct session *s)
{
	unsigned i;

	for (i = 0; i < s->nfds; i++)
		close(s->fds[i]);
	s->nfds = 0;
}

static void
kill_it(const struct session *s)
{
	struct control c = { .verb = CONTROL_KILL,
		.kind = CHILD_TURN,
		.session = s->id,
		.index = s->runtime,
		.cause = ENDING_released };

	killed++;
	if (children_kill(children, &c) < 0)
		_exit(2);
}

/* A third is killed as it starts, a third serves one request, a third sees its link close. */
static void
on_started(struct session *s)
{
	char byte = 'x';

	s->started = true;
	if (s->runtime >= DIES)
		return;
	switch (rand() % 3) {
	case 0: kill_it(s); break;
	case 1:
		if (send(s->fds[0], &byte, 1, MSG_NOSIGNAL) != 1)
			_exit(2);
		let_go(s);
		break;
	default: let_go(s);
	}
}

static void
on_tell(const struct control *c, int *fds, unsigned nfds, void *arg)
{
	struct session *s = find(c->session);

	(void)arg;
	if (!s || c->verb > CONTROL_EXIT)
		_exit(2);
	told[c->verb]++;
	switch (c->verb) {
	case CONTROL_LINK:
		memcpy(s->fds, fds, nfds * sizeof(*fds));
		s->nfds = nfds;
		return;
	case CONTROL_STARTED: on_started(s); return;
	default:
		capped += c->verb == CONTROL_REFUSED && c->layer == LAYER_DEATHS;
		let_go(s);
		s->open = false;
		now_open--;
	}
}

static void
on_empty(void *arg)
{
	(void)arg;
}

static const struct children_handler handler = { on_tell, on_empty };

static void
order_one(void)
{
	struct control c = { .verb = CONTROL_SPAWN, .kind = CHILD_TURN };
	struct session *s = sessions;

	while (s->open)
		s++;
	*s = (struct session){ .id = ++ordered, .open = true };
	now_open++;
	s->runtime = (uint32_t)(rand() % 16);
	s->runtime = s->runtime < 6 ? SERVES : s->runtime < 12 ? COLD : s->runtime < 14 ? DIES
											: ABSENT;
	c.session = s->id;
	c.index = s->runtime;
	if (children_spawn(children, &c) < 0)
		_exit(2);
	if (ordered % 16 == 0 && count_groups() > groups_most)
		groups_most = count_groups();
	/* Some before they have started. */
	if (s->open && s->id == ordered && rand() % 8 == 0)
		kill_it(s);
}

static void
go_until(unsigned long n)
{
	while (ordered < n || now_open > 0) {
		if (ordered < n && now_open < AT_ONCE)
			order_one();
		event_base_loop(
		    base, ordered < n && now_open < AT_ONCE ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
	}
	children_drain(children);
	while (!children_empty(children))
		event_base_loop(base, EVLOOP_ONCE);
	/* Groups that were still busy are removed by their timers. */
	while (count_groups() > 0 && event_base_loop(base, EVLOOP_ONCE) == 0)
		;
}

/* ---- all of it --------------------------------------------------------------------- */

static int
serve(const char *way)
{
	char byte;

	if (!strcmp(way, "dies"))
		return 3;
	(void)!read(RUNTIME_FD_LINK, &byte, 1);
	return 0;
}

static int
describe(const char *self)
{
	const struct conf_section *runtime = conf_list_section(&conf_root, "runtimes");
	char dir[4096], program[4200], err[CONF_ERROR_MAX];
	struct conf_runtime *t;
	const char *words[2];
	unsigned i, k;

	snprintf(dir, sizeof(dir), "%s", self);
	*strrchr(dir, '/') = '\0';
	snprintf(program, sizeof(program), "/app/%s", strrchr(self, '/') + 1);
	if (conf_init(&config) < 0)
		return -ENOMEM;
	for (i = 0; i < WAYS; i++) {
		t = conf_add(runtime, (struct conf_list *)&config.runtimes);
		if (!t)
			return -ENOMEM;
		free(t->id);
		free(t->profile);
		t->id = strdup(way_names[i]);
		t->profile = strdup("native");
		t->app = strdup(dir);
		t->warm = i == SERVES ? 3 : 0;
		t->pids = i == COLD ? 16 : 0; /* and a control group, where there can be one */
		words[0] = i == ABSENT ? "/no/such" : program;
		words[1] = way_names[i];
		for (k = 0; k < countof(words); k++)
			if (conf_words_add(&t->command, words[k], strlen(words[k])) < 0)
				return -ENOMEM;
		t->has_command = t->has_id = true;
	}
	if (conf_complete(&config, NULL, err) < 0 || conf_resolve(&config, NULL, err) < 0) {
		fprintf(stderr, "soak: %s\n", err);
		return -EINVAL;
	}
	return 0;
}

static bool
is_same(const struct holding *a, const struct holding *b)
{
	return a->fds == b->fds && a->mounts == b->mounts && a->groups == b->groups &&
	       a->files == b->files && a->locks == b->locks &&
	       b->bytes - a->bytes <= SLACK_BYTES &&
	       b->resident_kb - a->resident_kb <= SLACK_KB &&
	       waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
}

static void
print_holding(const char *name, const struct holding *h)
{
	printf("\"%s\": {\"fds\": %ld, \"mounts\": %ld, \"groups\": %ld, \"files\": %ld, "
	       "\"locks\": %ld, \"bytes\": %ld, \"residentKB\": %ld}, ",
	    name, h->fds, h->mounts, h->groups, h->files, h->locks, h->bytes, h->resident_kb);
}

int
main(int argc, char **argv)
{
	struct holding before, after;
	char self[4096];
	ssize_t n;
	bool same;

	if (argc == 2 && (!strcmp(argv[1], "dies") || !strcmp(argv[1], "serves") ||
			     !strcmp(argv[1], "cold")))
		return serve(argv[1]);
	wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	srand(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (wanted < 20 || n <= 0)
		return 2;
	self[n] = '\0';
	log_init("soak", LOG_ERROR_);
	base = event_base_new();
	if (!base || describe(self) < 0)
		return 2;
	children = children_create(base, &config, operation_kind_turn, NULL, &handler, NULL);
	if (!children)
		return 2;
	children_fill(children);
	go_until(wanted / 10);
	before = hold();
	children_fill(children);
	go_until(wanted);
	after = hold();
	same = is_same(&before, &after);
	putchar('{');
	print_holding("before", &before);
	print_holding("after", &after);
	printf("\"spawns\": %lu, \"started\": %lu, \"refused\": %lu, \"capped\": %lu, "
	       "\"exits\": %lu, \"killed\": %lu, \"groupsMost\": %ld, \"same\": %s}\n",
	    ordered, told[CONTROL_STARTED], told[CONTROL_REFUSED], capped, told[CONTROL_EXIT],
	    killed, groups_most, same ? "true" : "false");
	children_destroy(children);
	cgroup_host_finish();
	event_base_free(base);
	conf_finish(&config);
	return same ? 0 : 1;
}
