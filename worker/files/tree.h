/*
 * tree: a walk over everything below a directory, a bounded share of it at a time.
 *
 * Owns the walk's names.  Each directory's entries come in the order of their bytes, and
 * what a directory holds right behind it.  A share ends at an entry whose names are a
 * cursor, and the next goes on behind it, whatever became of it.
 */
#ifndef WORKER_FILES_TREE_H
#define WORKER_FILES_TREE_H

#include "worker/files/cursor.h"
#include "worker/files/names.h"
#include "worker/files/root.h"

struct tree_level {
	struct names names;
	size_t at; /* the next one */
};

/* 20 KiB, for the stack of a call. */
struct tree {
	struct segments path; /* of the last entry: slices of `text` behind the base */
	size_t base; /* names of the directory where the walk begins */
	uint64_t unlisted; /* names that no path can hold */
	uint64_t unsearched; /* directories that are closed to us, or too deep or too large */
	uint64_t visited; /* what the entries cost: a visitor may add to its own */
	/* The walk's own. */
	const struct files_root *root;
	struct tree_level level[PATH_SEGMENTS_MAX + 1];
	size_t depth; /* levels in use */
	char text[PATH_SEGMENTS_MAX][SEGMENT_BYTES_MAX + 1];
	uint64_t scanned;
};

/*
 * Looks at one entry, of which `t->path` is the whole path.  Returns 0 to go on; 1 to end
 * this share with it; or negative errno.
 */
typedef int (*tree_visit_fn)(struct tree *t, const struct name *name, void *arg);

/* A walk below `base`, which has less than PATH_SEGMENTS_MAX names and outlives it. */
void tree_init(struct tree *t, const struct files_root *root, const struct segments *base);

/*
 * Does a share of the walk, behind the names of `from` (none: from its beginning).  A
 * share gets at least one entry further, or to the end.  Returns 1 when the whole walk is
 * done; 0 when its share is; negative errno: that of the base, or of a system that cannot
 * go on.
 */
int tree_walk(struct tree *t, const struct cursor *from, tree_visit_fn visit, void *arg);

void tree_finish(struct tree *t);

#endif /* WORKER_FILES_TREE_H */
