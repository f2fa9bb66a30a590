#include "tests/fault/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/util.h"
#include "supervisor/cgroup_private.h"
#include "supervisor/launch.h"
#include "supervisor/launch_private.h"
#include "supervisor/profiles.h"
#include "supervisor/standby.h"
#include "supervisor/uid.h"

#define FDS_MAX	   64
#define HELD_KINDS 5

static const struct uid_range range = { 3300000, 64 };

/* Of the launch that began last. */
static struct launch_kind first_half;

/* ---- one launch ---- */

static void
on_started(struct launch *l, void *arg)
{
	(void)arg;
	first_half = l->kind;
	standby_renew(0); /* nobody is made for the next one */
}

static void
refuse(struct outcome *o, enum event_kind event, enum layer layer, int error)
{
	o->event = event;
	o->layer = layer;
	o->error = error;
	launch_explain(layer, error, o->why, sizeof(o->why));
}

static void
on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	(void)l;
	(void)exit;
	refuse(arg, EVENT_REFUSED, layer, error);
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	o->event = EVENT_EXIT;
	o->status = exit->kind == EXIT_EXITED ? exit->status : 128 + exit->status;
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

static void
launch(const struct kind *k, struct event_base *base, char *const *argv, struct outcome *o)
{
	char *const env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	static const struct chamber_mount mounts[] = {
		{ .source = "/usr/share", .target = "/app", .idmap = true },
		{ .source = "/var/tmp",
		    .target = "/tmp/work/here",
		    .writable = true,
		    .idmap = true },
		{ .source = "/etc/passwd", .target = "/data/file" },
	};
	struct uid_claim claim = UID_CLAIM_NONE;
	struct chamber c = { .profile = profile_named(k->profile),
		.argv = argv,
		.env = env,
		.cwd = "/",
		.init = k->init,
		.die_with_parent = true,
		.network = k->network };
	enum layer layer = LAYER_UID;
	struct launch *l;
	int r = 0;

	if (!c.profile->minimal) {
		/* The second stands in the way of a root that others can have. */
		c.mounts = mounts;
		c.nmounts = k->warm ? 1 : countof(mounts);
	}
	if (k->rooted) {
		r = uid_claim(&range, &claim);
		c.uid = c.gid = claim.uid;
		if (k->init)
			c.pids = 64; /* a group, wherever there may be one */
	}
	o->event = EVENT_NONE;
	if (r == 0)
		r = launch_start(base, &c, &handler, o, &l, &layer);
	if (r < 0)
		refuse(o, EVENT_UNSTARTED, layer, -r);
	while (o->event == EVENT_NONE)
		if (event_base_loop(base, EVLOOP_ONCE) != 0)
			break;
	if (o->event == EVENT_NONE)
		o->event = EVENT_LOOP;
	uid_release(&claim);
}

/* ---- what is left ---- */

static void
leave(struct outcome *o, const char *what)
{
	size_t n = strlen(o->left);

	if (strstr(o->left, what) == NULL)
		snprintf(o->left + n, sizeof(o->left) - n, "%s%s", n > 0 ? ", " : "", what);
}

/* Descriptors by what they are, for those that were not there before. */
static void
look_at_descriptors(const bool *before, unsigned held[HELD_KINDS], struct outcome *o)
{
	static const char *const kinds[] = { "user:", "net:", "mnt:", "time:", "/proc/" };
	char path[64], name[256];
	ssize_t n;
	size_t i;

	memset(held, 0, HELD_KINDS * sizeof(*held));
	for (int fd = 3; fd < FDS_MAX; fd++) {
		if (before[fd])
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n < 0)
			continue;
		name[n] = '\0';
		for (i = 0; i < countof(kinds); i++)
			if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
				break;
		if (i == countof(kinds))
			leave(o, name);
		else if (++held[i] > 1)
			leave(o, kinds[i]);
	}
}

static void
look_at_memory(struct outcome *o)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strstr(line, "memfd:plan") != NULL)
			leave(o, "plan");
	if (f != NULL)
		fclose(f);
}

static void
look_at_groups(struct outcome *o)
{
	struct cgroup_host *h = cgroup_host();
	char prefix[32];
	struct dirent *e;
	DIR *dir;

	snprintf(prefix, sizeof(prefix), "caisson-%d-", (int)getpid());
	for (size_t i = 0; h != NULL && i < CGROUP_PARTS; i++) {
		dir = h->bases[i] != NULL ? opendir(h->bases[i]) : NULL;
		while (dir != NULL && (e = readdir(dir)) != NULL)
			if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
				leave(o, e->d_name);
		if (dir != NULL)
			closedir(dir);
	}
}

static void
look(const bool *before, struct outcome *o)
{
	unsigned held[HELD_KINDS];

	if (waitpid(-1, NULL, WNOHANG | __WALL) >= 0 || errno != ECHILD)
		leave(o, "process");
	look_at_descriptors(before, held, o);
	look_at_memory(o);
	look_at_groups(o);
}

/* ---- the process ---- */

static char *const target[] = { (char[]){ "/bin/true" }, NULL };

int
subject_prepare(const struct kind *k)
{
	static char *const nothing[] = { NULL };
	struct event_base *base = event_base_new();
	struct outcome o = { 0 };

	if (k->first)
		return 0;
	/* One that is planned, with all that is looked up for it, and not started. */
	launch(k, base, k->warm ? target : nothing, &o);
	event_base_free(base);
	if (o.event == (k->warm ? EVENT_EXIT : EVENT_UNSTARTED))
		return 0;
	fprintf(stderr, "%s: %s\n", k->name, o.why);
	return -1;
}

/* One that has done its half, and waits: of which the tracer has the last word. */
static void
stand_by(struct event_base *base, int wake_fd)
{
	char byte;

	if (standby_open(base, 1) < 0)
		_exit(1);
	standby_note(&first_half);
	standby_fill();
	while (standby_count(true) == 0)
		if (standby_count(false) == 0 || event_base_loop(base, EVLOOP_ONCE) != 0)
			_exit(1);
	if (read(wake_fd, &byte, 1) != 1)
		_exit(1);
}

void
subject_run(const struct kind *k, bool again, int wake_fd, struct outcome *ret)
{
	struct event_base *base = event_base_new();
	struct outcome next = { 0 };
	bool before[FDS_MAX];

	for (int fd = 0; fd < FDS_MAX; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	if (k->stood)
		stand_by(base, wake_fd);
	close(wake_fd);
	ret->begun = true;
	launch(k, base, target, ret);
	ret->told = true;
	if (ret->event == EVENT_LOOP)
		_exit(0);
	standby_close();
	look(before, ret);
	if (!again)
		_exit(0);
	/* What it broke for those to come, it left behind, too. */
	launch(k, base, target, &next);
	if (next.event != EVENT_EXIT || next.status != 0) {
		leave(ret, "the next one fails:");
		leave(ret, next.why);
	}
	look(before, ret);
	_exit(0);
}
