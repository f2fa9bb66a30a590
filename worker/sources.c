#include <errno.h>
#include <sys/stat.h>

#include "common/util.h"
#include "worker/kernel.h"
#include "worker/worker.h"

/*
 * Add-only flags: what the host locked (nosuid, nodev, read-only) stays, and nothing has
 * to be restated.  Private, so that what is mounted on the host later does not appear.
 */
static void
tree_restrict(const struct plan *p, const struct plan_step *s, int fd, int tree)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID, .propagation = MS_PRIVATE };
	struct stat st;

	/* What can be written is no code, not even to a loader that maps it, unless the plan
	 * wants it to be. */
	if ((s->access & PLAN_WRITABLE) == 0)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if ((s->access & PLAN_EXECUTABLE) == 0)
		attr.attr_set |= MOUNT_ATTR_NOEXEC;
	if ((s->access & PLAN_DEVICE) == 0)
		attr.attr_set |= MOUNT_ATTR_NODEV;
	if (s->access & PLAN_IDMAP && p->h->flags & PLAN_ROOT) {
		if (fstat(fd, &st) < 0)
			die(LAYER_SOURCES, errno);
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)idmap_userns(st.st_uid, st.st_gid, p->h->uid,
		    p->h->gid);
	}
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		die(attr.attr_set & MOUNT_ATTR_IDMAP ? LAYER_UID : LAYER_MOUNTS, errno);
}

/*
 * The source is opened once and everything after acts on the descriptor.  No link is
 * followed on the way: a chamber that may write above a source could otherwise point it
 * elsewhere.  The operator's own links were resolved when the configuration was read.
 */
static int
tree_open(const struct plan *p, const struct plan_step *s)
{
	cleanup_fd int fd = -1;
	int tree;

	fd = kernel_openat2(AT_FDCWD, plan_string(p, s->source), O_PATH | O_CLOEXEC,
	    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		die(LAYER_SOURCES, errno);
	tree = open_tree(fd, "",
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (tree < 0)
		die(LAYER_MOUNTS, errno);
	tree_restrict(p, s, fd, tree);
	return tree;
}

void
sources_open(const struct plan *p, int *trees, bool only_private)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_BIND &&
		    (!only_private || p->steps[i].access & PLAN_PRIVATE))
			trees[i] = tree_open(p, &p->steps[i]);
}
