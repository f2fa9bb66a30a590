#include "supervisor/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"

#define ROOTS_MAX 32 /* the one that served longest ago goes first */

/* Which file or directory it is, and what of the host is mounted there. */
struct source {
	uint64_t dev, ino, mount;
};

struct ground_root {
	int fd; /* -1: not made yet */
	uint32_t id; /* of this one among all that there ever were; not 0 */
	size_t n;
	uint8_t *key; /* the steps that are not private, their strings, their sources */
	TAILQ_ENTRY(ground_root) link; /* held.roots */
};

static struct {
	int user_fd, network_fd, time_fd, mounts_fd;
	unsigned nroots;
	TAILQ_HEAD(ground_roots, ground_root) roots; /* the one that served last is first */
} held = { .user_fd = -1, .network_fd = -1, .time_fd = -1, .mounts_fd = -1,
	.roots = TAILQ_HEAD_INITIALIZER(held.roots) };

static void
forget(struct ground_root *r)
{
	TAILQ_REMOVE(&held.roots, r, link);
	held.nroots--;
	ground_root_drop(r);
}

static void
forget_roots(void)
{
	while (!TAILQ_EMPTY(&held.roots))
		forget(TAILQ_FIRST(&held.roots));
}

void
ground_root_drop(struct ground_root *r)
{
	if (r == NULL)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->key);
	free(r);
}

/* ---- the plan, which is ours ---- */

static const struct plan_step *
steps_of(const struct plan_header *h)
{
	return (const void *)((const char *)h + h->steps);
}

static const char *
string_of(const struct plan_header *h, uint32_t offset)
{
	return offset == PLAN_NONE ? NULL : (const char *)h + h->strings + offset;
}

/* ---- keys ---- */

/* The same rules as the launcher's: no link on the way. */
static int
source_look(const char *path, struct source *ret)
{
	cleanup_fd int fd = kernel_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC,
	    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct statx st;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &st) < 0)
		return -errno;
	if ((st.stx_mask & STATX_MNT_ID) == 0)
		return -ENOTSUP;
	ret->dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	ret->ino = st.stx_ino;
	ret->mount = st.stx_mnt_id;
	return 0;
}

struct key {
	uint8_t *bytes;
	size_t n, cap;
};

static int
key_add(struct key *k, const void *bytes, size_t n)
{
	if (k->n + n > k->cap) {
		size_t cap = 2 * (k->cap + n);
		uint8_t *grown = realloc(k->bytes, cap);

		if (grown == NULL)
			return -ENOMEM;
		k->bytes = grown;
		k->cap = cap;
	}
	memcpy(k->bytes + k->n, bytes, n);
	k->n += n;
	return 0;
}

static int
key_add_string(struct key *k, const struct plan_header *h, uint32_t offset)
{
	const char *s = string_of(h, offset);

	return s == NULL ? key_add(k, "\1", 2) : key_add(k, s, strlen(s) + 1);
}

static int
key_add_step(struct key *k, const struct plan_header *h, const struct plan_step *s)
{
	uint32_t head[2] = { s->op, s->access };
	bool private = s->access & PLAN_PRIVATE;
	struct source source;
	int ret = key_add(k, head, sizeof(head));

	if (ret == 0)
		ret = key_add_string(k, h, s->target);
	/* Of what is private, the place is all that the root has. */
	if (ret == 0 && !private)
		ret = key_add_string(k, h, s->source);
	/* A device is what it is, whatever its inode. */
	if (ret == 0 && s->op == PLAN_BIND && (s->access & PLAN_DEVICE) == 0) {
		ret = source_look(string_of(h, s->source), &source);
		if (ret == 0 && private)
			memset(&source, 0, sizeof(source));
		if (ret == 0)
			ret = key_add(k, &source, sizeof(source));
	}
	return ret;
}

/* NULL if there is no memory, or a source that the launcher will refuse. */
static struct ground_root *
root_of(const struct plan_header *h)
{
	static uint32_t last_id;
	struct ground_root *r = calloc(1, sizeof(*r));
	struct key k = { .bytes = malloc(4096), .cap = 4096 };
	int ret = r == NULL || k.bytes == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < h->nsteps && ret == 0; i++)
		if (steps_of(h)[i].op != PLAN_CGROUP && steps_of(h)[i].op != PLAN_CGROUP_INTO)
			ret = key_add_step(&k, h, &steps_of(h)[i]);
	if (ret < 0) {
		free(k.bytes);
		free(r);
		return NULL;
	}
	if (++last_id == 0)
		last_id = 1;
	r->fd = -1;
	r->id = last_id;
	r->key = k.bytes;
	r->n = k.n;
	return r;
}

/* ---- what is held ---- */

/* Has any mount of ours come or gone since the last look?  Where that cannot be told, yes. */
static bool
mounts_changed(void)
{
	struct pollfd p = { .events = POLLPRI };

	if (held.mounts_fd < 0) {
		held.mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		return true;
	}
	p.fd = held.mounts_fd;
	return poll(&p, 1, 0) != 0;
}

static struct ground_root *
held_root(const struct ground_root *like)
{
	struct ground_root *r;

	TAILQ_FOREACH(r, &held.roots, link)
		if (r->n == like->n && memcmp(r->key, like->key, r->n) == 0)
			return r;
	return NULL;
}

/* Without root a private source can only be taken by the launch that makes the root. */
static bool
may_serve_others(const struct plan_header *h)
{
	for (uint32_t i = 0; i < h->nsteps; i++)
		if (steps_of(h)[i].op == PLAN_BIND && steps_of(h)[i].access & PLAN_PRIVATE &&
		    (h->flags & PLAN_ROOT) == 0)
			return false;
	return true;
}

static int
find_root(struct plan_header *h, struct ground_root **ret_new)
{
	struct ground_root *like, *r;

	*ret_new = NULL;
	h->root_id = 0;
	if (mounts_changed())
		forget_roots();
	like = may_serve_others(h) ? root_of(h) : NULL;
	if (like == NULL)
		return -1;
	r = held_root(like);
	if (r == NULL) {
		h->flags |= PLAN_KEEP_ROOT;
		h->root_id = like->id;
		*ret_new = like;
		return -1;
	}
	ground_root_drop(like);
	TAILQ_REMOVE(&held.roots, r, link);
	TAILQ_INSERT_HEAD(&held.roots, r, link);
	h->flags |= PLAN_HAS_ROOT;
	h->root_id = r->id;
	return r->fd;
}

/* All but the root. */
static unsigned
find_namespaces(struct plan_header *h, int ret_fds[GROUND_FDS_MAX])
{
	bool root = h->flags & PLAN_ROOT;
	unsigned n = 0;

	/* What the others belong to comes first; who makes one anew makes them all. */
	if (!root && held.user_fd >= 0) {
		h->flags |= PLAN_HAS_USER;
		ret_fds[n++] = held.user_fd;
	}
	if (h->flags & PLAN_SHARED_NETWORK && held.network_fd >= 0 && (root || n > 0)) {
		h->flags |= PLAN_HAS_NETWORK;
		ret_fds[n++] = held.network_fd;
	}
	if (h->flags & PLAN_TIME && held.time_fd >= 0 && (root || h->flags & PLAN_HAS_USER)) {
		h->flags |= PLAN_HAS_TIME;
		ret_fds[n++] = held.time_fd;
	}
	return n;
}

unsigned
ground_find(struct plan_header *h, int ret_fds[GROUND_FDS_MAX], struct ground_root **ret_root)
{
	unsigned n = find_namespaces(h, ret_fds);
	int fd = find_root(h, ret_root);

	if (fd >= 0)
		ret_fds[n++] = fd;
	return n;
}

static struct ground_root *
root_with(uint32_t id)
{
	struct ground_root *r;

	TAILQ_FOREACH(r, &held.roots, link)
		if (r->id == id)
			return r;
	return NULL;
}

bool
ground_has_root(uint32_t id)
{
	if (mounts_changed())
		forget_roots();
	return root_with(id) != NULL;
}

unsigned
ground_again(struct plan_header *h, uint32_t root_id, int ret_fds[GROUND_FDS_MAX])
{
	unsigned n;

	if (!ground_has_root(root_id))
		return 0;
	n = find_namespaces(h, ret_fds);
	h->flags |= PLAN_HAS_ROOT;
	h->root_id = root_id;
	ret_fds[n++] = root_with(root_id)->fd;
	return n;
}

/* Two first launches at once make two of everything: what belongs to the one whose user
 * namespace was not kept is of no use to the chambers of the other. */
static bool
is_ours(int fd)
{
	cleanup_fd int owner = -1;
	struct stat a, b;

	if (uid_is_root())
		return true;
	if (held.user_fd < 0)
		return false; /* its launch failed before the namespace was kept */
	owner = ioctl(fd, NS_GET_USERNS);
	return owner >= 0 && fstat(owner, &a) == 0 && fstat(held.user_fd, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void
keep_root(int fd, struct ground_root *root)
{
	if (root == NULL || held_root(root) != NULL) {
		close(fd);
		ground_root_drop(root);
		return;
	}
	root->fd = fd;
	TAILQ_INSERT_HEAD(&held.roots, root, link);
	if (++held.nroots > ROOTS_MAX)
		forget(TAILQ_LAST(&held.roots, ground_roots));
}

int
ground_keep(enum launch_stage stage, int fd, struct ground_root **root)
{
	static const int types[STAGE_MAX] = { [STAGE_USER] = CLONE_NEWUSER,
		[STAGE_NETWORK] = CLONE_NEWNET, [STAGE_TIME] = CLONE_NEWTIME,
		[STAGE_ROOT] = CLONE_NEWNS };
	int *place = stage == STAGE_USER ? &held.user_fd :
	    stage == STAGE_NETWORK	 ? &held.network_fd :
					   &held.time_fd;
	int type = ioctl(fd, NS_GET_NSTYPE), error = errno;

	if (type != types[stage]) {
		close(fd);
		return type < 0 && error != ENOTTY ? -error : -EPROTO;
	}
	if (stage == STAGE_ROOT && is_ours(fd)) {
		keep_root(fd, *root);
		*root = NULL;
	} else if (stage != STAGE_ROOT && *place < 0 && (stage == STAGE_USER || is_ours(fd))) {
		*place = fd;
	} else {
		close(fd);
	}
	return 0;
}
