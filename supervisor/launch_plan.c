#include "supervisor/launch_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/launch_host.h"
#include "supervisor/launch_views.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"
#include "worker/plan.h"

#define STEPS_MAX   1024u
#define STRINGS_MAX 4096u
#define SHM_BYTES   (16u << 20)
#define TMP_INODES  16384u

/* A plan in the making. */
struct draft {
	struct plan_header h;
	struct plan_step steps[STEPS_MAX];
	uint32_t offsets[2 * STRINGS_MAX]; /* argv, then env */
	size_t noffsets;
	char *strings;
	size_t len, cap;
	bool failed; /* something did not fit, or there was no memory */
};

/* ---- what is the same everywhere ---- */

static const char *const device_nodes[] = { "/dev/null", "/dev/zero", "/dev/full",
	"/dev/random", "/dev/urandom" };

static const struct {
	const char *path, *content;
} made_files[] = {
	{ "/etc/passwd", "caisson:x:1000:1000::/tmp:/bin/sh\n"
			 "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n" },
	{ "/etc/group", "caisson:x:1000:\nnogroup:x:65534:\n" },
	{ "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n" },
	{ "/etc/hosts", "127.0.0.1 localhost caisson\n" },
};

static const struct {
	const char *path, *to;
} device_links[] = {
	{ "/dev/fd", "/proc/self/fd" },
	{ "/dev/stdin", "/proc/self/fd/0" },
	{ "/dev/stdout", "/proc/self/fd/1" },
	{ "/dev/stderr", "/proc/self/fd/2" },
};

static const struct launch_host *host;

/* ---- the draft ---- */

static uint32_t
add_string(struct draft *d, const char *s)
{
	size_t n = strlen(s) + 1, at = d->len;
	char *grown;

	if (d->len + n > PLAN_MAX) {
		d->failed = true;
		return 0;
	}
	if (d->len + n > d->cap) {
		grown = realloc(d->strings, 2 * (d->len + n));
		if (grown == NULL) {
			d->failed = true;
			return 0;
		}
		d->strings = grown;
		d->cap = 2 * (d->len + n);
	}
	memcpy(d->strings + at, s, n);
	d->len += n;
	return (uint32_t)at;
}

static struct plan_step *
add_step(struct draft *d, enum plan_op op, const char *target, const char *source,
    unsigned access)
{
	struct plan_step *s = &d->steps[d->h.nsteps];

	if (d->h.nsteps + 1 == STEPS_MAX)
		d->failed = true;
	else
		d->h.nsteps++;
	memset(s, 0, sizeof(*s));
	s->op = op;
	s->access = access;
	s->target = target != NULL ? add_string(d, target) : PLAN_NONE;
	s->source = source != NULL ? add_string(d, source) : PLAN_NONE;
	return s;
}

static void
add_tmpfs(struct draft *d, const char *target, uint64_t size_bytes)
{
	struct plan_step *s = add_step(d, PLAN_TMPFS, target, NULL, PLAN_WRITABLE);

	s->access |= PLAN_PRIVATE;
	s->size_bytes = size_bytes;
	s->inodes = TMP_INODES;
}

static uint32_t
add_vector(struct draft *d, char *const *v, uint32_t *ret_count)
{
	uint32_t first = (uint32_t)d->noffsets;

	for (*ret_count = 0; v != NULL && v[*ret_count] != NULL; ++*ret_count) {
		if (*ret_count == STRINGS_MAX || d->failed) {
			d->failed = true;
			break;
		}
		d->offsets[d->noffsets++] = add_string(d, v[*ret_count]);
	}
	return first;
}

/* ---- what a chamber looks like ---- */

static void
add_system(struct draft *d)
{
	add_step(d, PLAN_BIND, "/usr", "/usr", PLAN_EXECUTABLE);
	for (size_t i = 0; i < countof(host->root); i++) {
		const struct launch_host_root *r = &host->root[i];

		if (r->link[0] != '\0')
			add_step(d, PLAN_SYMLINK, r->path, r->link, 0);
		else if (r->is_dir)
			add_step(d, PLAN_BIND, r->path, r->path, PLAN_EXECUTABLE);
	}
}

static void
add_etc(struct draft *d, bool network)
{
	for (size_t i = 0; i < countof(made_files); i++)
		add_step(d, PLAN_FILE, made_files[i].path, made_files[i].content, 0);
	for (size_t i = 0; i < countof(host->file); i++) {
		const struct launch_host_file *f = &host->file[i];

		if (f->real[0] != '\0' && (network || !f->network))
			add_step(d, PLAN_BIND, f->path, f->real, 0);
	}
}

static void
add_devices(struct draft *d)
{
	for (size_t i = 0; i < countof(device_nodes); i++)
		add_step(d, PLAN_BIND, device_nodes[i], device_nodes[i], PLAN_DEVICE);
	for (size_t i = 0; i < countof(device_links); i++)
		add_step(d, PLAN_SYMLINK, device_links[i].path, device_links[i].to, 0);
	add_tmpfs(d, "/dev/shm", SHM_BYTES);
}

/* What stands on something private is mounted after it, by the same process. */
static bool
stands_on_private(const struct draft *d, const char *target)
{
	for (uint32_t i = 0; i < d->h.nsteps; i++)
		if (d->steps[i].access & PLAN_PRIVATE &&
		    views_below(target, d->strings + d->steps[i].target) != NULL)
			return true;
	return false;
}

/* All that is shown of the host's directories. */
static int
collect_views(const struct draft *d, const struct chamber *c, struct views *views)
{
	int ret = 0;

	for (uint32_t i = 0; i < d->h.nsteps && ret == 0; i++) {
		const struct plan_step *s = &d->steps[i];

		if (s->op == PLAN_BIND && s->access & PLAN_EXECUTABLE)
			ret = views_add(views,
			    &(struct view){ .source = d->strings + s->source,
				.target = d->strings + s->target,
				.executable = true,
				.standing = true,
				.ours = strcmp(d->strings + s->source,
					    launch_libexec()) == 0 });
	}
	for (size_t i = 0; i < c->nmounts && ret == 0; i++) {
		const struct chamber_mount *m = &c->mounts[i];

		if (m->source == NULL || m->target == NULL || m->target[0] != '/')
			return -EINVAL;
		ret = views_add(views,
		    &(struct view){ .source = m->source,
			.target = m->target,
			.writable = m->writable,
			.executable = m->executable || !m->writable,
			.idmap = m->idmap });
	}
	return ret;
}

/* An id-mapped part of a directory would give away what the directory itself does not. */
static int
check_owner(const struct view *v)
{
	struct stat part, whole;

	if (lstat(v->source, &part) < 0 || lstat(v->whole, &whole) < 0)
		return -errno;
	return part.st_uid == whole.st_uid && part.st_gid == whole.st_gid ? 0 : -EPERM;
}

/* Last, so that they may stand in any of the directories above. */
static int
add_mounts(struct draft *d, const struct chamber *c)
{
	static struct views views; /* large, as the draft is */
	int ret = c->nmounts > 0 ? collect_views(d, c, &views) : 0;

	if (ret == 0)
		ret = views_settle(&views);
	for (size_t i = 0; i < views.n && ret == 0; i++) {
		const struct view *v = &views.v[i];
		unsigned access = (v->writable ? PLAN_WRITABLE : 0) |
		    (v->executable ? PLAN_EXECUTABLE : 0);

		if (v->standing)
			continue;
		if (v->idmap && d->h.flags & PLAN_ROOT) {
			access |= PLAN_IDMAP | PLAN_PRIVATE;
			ret = v->whole != NULL ? check_owner(v) : 0;
		}
		if (stands_on_private(d, v->target))
			access |= PLAN_PRIVATE;
		add_step(d, PLAN_BIND, v->target, v->source, access);
	}
	views_finish(&views);
	return ret;
}

static int
add_root(struct draft *d, const struct chamber *c, const struct profile *profile)
{
	uint64_t tmp = c->tmp_bytes != 0 ? c->tmp_bytes : profile->tmp_bytes;

	add_system(d);
	if (profile->libexec)
		add_step(d, PLAN_BIND, "/libexec", launch_libexec(), PLAN_EXECUTABLE);
	if (profile->minimal)
		/* The loader of a dynamic program reads its cache; nothing else of the host. */
		add_step(d, PLAN_BIND, "/dev/null", "/dev/null", PLAN_DEVICE);
	else {
		add_etc(d, c->network);
		add_devices(d);
		d->h.flags |= PLAN_SHOWS_PROC;
		add_step(d, PLAN_PROC, "/proc", NULL, PLAN_PRIVATE);
		add_tmpfs(d, "/tmp", tmp);
	}
	return add_mounts(d, c);
}

static void
add_limits(
    struct draft *d, const struct chamber *c, const struct profile *p, unsigned bounded)
{
	uint64_t pids = c->pids != 0 ? c->pids : p->pids;

	d->h.address_space = bounded & CGROUP_MEMORY ? UINT64_MAX :
	    c->memory_bytes != 0			 ? c->memory_bytes :
							   p->memory_bytes;
	d->h.file_size = c->file_bytes != 0 ? c->file_bytes : p->file_bytes;
	d->h.open_files = c->open_files != 0 ? c->open_files : p->open_files;
	d->h.cpu_seconds = c->cpu_seconds != 0 ? c->cpu_seconds : p->cpu_seconds;
	d->h.processes = bounded & CGROUP_PIDS ? UINT64_MAX : pids + c->init;
}

static int
add_identity(struct draft *d, const struct chamber *c)
{
	if (!uid_is_root()) {
		d->h.uid = geteuid();
		d->h.gid = getegid();
		return 0;
	}
	if (c->uid == 0 || c->gid == 0)
		return -EINVAL;
	d->h.flags |= PLAN_ROOT;
	d->h.uid = c->uid;
	d->h.gid = c->gid;
	return 0;
}

/* ---- the memfd ---- */

static size_t
align8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static void
lay_out(struct draft *d, uint32_t argv_first, uint32_t env_first, size_t nfilter)
{
	size_t at = align8(sizeof(d->h));

	d->h.steps = (uint32_t)at;
	at += d->h.nsteps * sizeof(d->steps[0]);
	d->h.filter = (uint32_t)at;
	d->h.nfilter = (uint32_t)nfilter;
	at += nfilter * sizeof(struct sock_filter);
	d->h.argv = (uint32_t)(at + argv_first * sizeof(uint32_t));
	d->h.env = (uint32_t)(at + env_first * sizeof(uint32_t));
	at += d->noffsets * sizeof(uint32_t);
	d->h.strings = (uint32_t)at;
	d->h.strings_len = (uint32_t)d->len;
	d->h.size_bytes = (uint32_t)(at + d->len);
}

static int
write_out(const struct draft *d, const struct sock_filter *filter,
    struct plan_header **ret_page)
{
	cleanup_fd int fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *page;

	if (fd < 0 || ftruncate(fd, d->h.size_bytes) < 0)
		return -errno;
	page = mmap(NULL, d->h.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	memcpy(page, &d->h, sizeof(d->h));
	memcpy(page + d->h.steps, d->steps, d->h.nsteps * sizeof(d->steps[0]));
	if (d->h.nfilter > 0)
		memcpy(page + d->h.filter, filter, d->h.nfilter * sizeof(*filter));
	memcpy(page + d->h.strings - d->noffsets * sizeof(uint32_t), d->offsets,
	    d->noffsets * sizeof(uint32_t));
	memcpy(page + d->h.strings, d->strings, d->len);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		munmap(page, d->h.size_bytes);
		return -errno;
	}
	*ret_page = (struct plan_header *)(void *)page;
	return steal_fd(&fd);
}

static void
add_group(struct draft *d, const struct cgroup_entry *group)
{
	const char *const *procs = group->procs;

	for (; procs != NULL && *procs != NULL; procs++)
		add_step(d, PLAN_CGROUP, NULL, *procs, 0);
	if (group->into != NULL)
		add_step(d, PLAN_CGROUP_INTO, NULL, group->into, 0);
}

/* "PROFILE:POINT" is for chambers of that profile only; those that stand by have none. */
static void
add_stop(struct draft *d, const char *profile)
{
	d->h.stop = PLAN_NONE;
#ifdef CAISSON_TEST_STOPS
	const char *stop = getenv("CAISSON_STOP"), *colon = stop ? strchr(stop, ':') : NULL;

	if (colon != NULL && strncmp(stop, profile, (size_t)(colon - stop)) == 0 &&
	    profile[colon - stop] == '\0')
		stop = colon + 1;
	if (stop != NULL)
		d->h.stop = add_string(d, stop);
#else
	(void)profile;
#endif
}

static int
draft_fill(struct draft *d, const struct chamber *c, const struct profile *profile,
    const struct cgroup_entry *group)
{
	uint32_t argv, env;
	int ret;

	add_group(d, group);
	ret = add_root(d, c, profile);
	if (ret < 0)
		return ret;
	add_limits(d, c, profile, group->bounds);
	argv = add_vector(d, c->argv, &d->h.argc);
	env = add_vector(d, c->env, &d->h.envc);
	d->h.cwd = add_string(d, c->cwd != NULL ? c->cwd : "/");
	add_stop(d, profile->name);
	d->h.argv = argv;
	d->h.env = env;
	return d->h.argc == 0 ? -EINVAL : d->failed ? -E2BIG : 0;
}

static int
draft_finish(struct draft *d, const struct sock_filter *filter, size_t nfilter,
    struct plan_header **ret_page)
{
	lay_out(d, d->h.argv, d->h.env, nfilter);
	return d->h.size_bytes > PLAN_MAX ? -E2BIG : write_out(d, filter, ret_page);
}

/* Who shares a namespace shares its abstract sockets: only where Landlock scopes them (ABI
 * 6), besides a list that lets nobody make one. */
static bool
may_share_network(const struct chamber *c)
{
	static int abi = -1;

	if (c->profile->network != NETWORK_SHARED || !c->profile->filtered || c->network)
		return false;
	if (c->learn != NULL) /* what its list lets pass, only a run will tell */
		return false;
	if (abi < 0)
		abi = kernel_landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi >= 6;
}

static void
draft_clear(struct draft *draft)
{
	memset(&draft->h, 0, sizeof(draft->h));
	draft->noffsets = draft->len = 0;
	draft->failed = false;
	draft->h.magic = PLAN_MAGIC;
	draft->h.version = PLAN_VERSION;
}

static struct draft scratch; /* large, and one launch is planned at a time */

int
launch_plan_stand(uint32_t flags, const struct cgroup_entry *group,
    struct plan_header **ret_page, size_t *ret_size)
{
	int ret;

	draft_clear(&scratch);
	scratch.h.flags = flags | PLAN_STAND;
	scratch.h.optional = LAYERS_OPTIONAL; /* looked at again when there is a profile */
	scratch.h.uid = geteuid();
	scratch.h.gid = getegid();
	add_group(&scratch, group);
	if (flags & PLAN_SHOWS_PROC)
		add_step(&scratch, PLAN_PROC, "/proc", NULL, PLAN_PRIVATE);
	scratch.h.cwd = add_string(&scratch, "/");
	add_stop(&scratch, "standby");
	ret = scratch.failed ? -E2BIG : draft_finish(&scratch, NULL, 0, ret_page);
	if (ret >= 0)
		*ret_size = scratch.h.size_bytes;
	return ret;
}

int
launch_plan_create(const struct chamber *c, const struct cgroup_entry *group,
    struct plan_header **ret_page, size_t *ret_size, enum layer *ret_layer)
{
	const struct profile *profile = c->profile;
	const struct sock_filter *filter;
	size_t nfilter;
	int ret;

	*ret_layer = LAYER_PLAN;
	if (profile == NULL || c->nfds > PLAN_FDS_MAX)
		return -EINVAL;
	ret = launch_host_look(&host);
	if (ret < 0) {
		*ret_layer = LAYER_SOURCES;
		return ret;
	}
	draft_clear(&scratch);
	scratch.h.nfds = (uint32_t)(c->nfds < 3 ? 3 : c->nfds);
	scratch.h.flags = (c->init ? PLAN_INIT : 0) | (c->network ? PLAN_NETWORK : 0) |
	    (c->die_with_parent ? PLAN_DIE_WITH_PARENT : 0) | (profile->mdwe ? PLAN_MDWE : 0) |
	    (c->learn != NULL ? PLAN_ANSWERED : 0);
	/* Broker and ledger are ours, and speak of instants with others of ours. */
	if (profile->filtered)
		scratch.h.flags |= PLAN_TIME;
	if (may_share_network(c))
		scratch.h.flags |= PLAN_SHARED_NETWORK;
	scratch.h.optional = profile->optional & LAYERS_OPTIONAL & ~c->required;
	ret = add_identity(&scratch, c);
	if (ret < 0)
		*ret_layer = LAYER_UID;
	if (ret == 0) {
		ret = profile_filter(profile, c->network, &filter, &nfilter);
		if (ret < 0)
			*ret_layer = LAYER_SECCOMP;
	}
	if (ret == 0)
		ret = draft_fill(&scratch, c, profile, group);
	if (ret == 0)
		ret = draft_finish(&scratch, filter, nfilter, ret_page);
	if (ret >= 0)
		*ret_size = scratch.h.size_bytes;
	return ret;
}

int
launch_plan_check(
    const struct profile *profile, const struct chamber_mount *v, size_t n, size_t *ret_which)
{
	static struct views views;
	const struct chamber c = { .mounts = (struct chamber_mount *)(uintptr_t)v, .nmounts = n };
	const char *source = NULL;
	int ret = launch_host_look(&host);

	*ret_which = n;
	if (ret < 0)
		return ret;
	draft_clear(&scratch);
	add_system(&scratch);
	if (profile->libexec)
		add_step(&scratch, PLAN_BIND, "/libexec", launch_libexec(), PLAN_EXECUTABLE);
	ret = collect_views(&scratch, &c, &views);
	if (ret == 0)
		ret = views_settle(&views);
	if (ret < 0 && views.fault < views.n)
		source = views.v[views.fault].whole != NULL ? views.v[views.fault].whole
							    : views.v[views.fault].source;
	for (size_t i = 0; source != NULL && i < n; i++)
		if (v[i].source == source)
			*ret_which = i;
	views_finish(&views);
	return ret;
}
