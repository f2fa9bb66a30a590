/*
 * The order is that of a walk which takes each directory's names by their bytes, and what
 * a directory holds right behind its name.  Only names are kept, never descriptors: each
 * directory is looked up again beneath the root when its turn comes, so a link put in
 * somebody's place leads nowhere.
 */
#include "worker/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/util.h"

#define BATCH_NAMES  2048u /* names of one directory held at a time */
#define SCAN_BUDGET  (256u << 10) /* names that one call reads from directories */
#define VISIT_BUDGET (64u << 10) /* what one call's entries may cost */

void
tree_init(struct tree *t, const struct files_root *root, const struct segments *base)
{
	t->root = root;
	t->path = *base;
	t->base = base->n;
	t->depth = 0;
	t->scanned = t->visited = t->unlisted = t->unsearched = 0;
}

/* Takes the names behind `after` of the directory that the first `n` names lead to. */
static int
fill(struct tree *t, size_t n, const char *after, struct tree_level *ret)
{
	cleanup_fd int dir = files_root_dir(t->root, &t->path, n, O_RDONLY);
	struct names names = { 0 };
	int e;

	if (dir < 0)
		return dir;
	e = names_scan(dir, after, BATCH_NAMES, &names);
	if (e < 0)
		return e;
	t->scanned += names.scanned + 1;
	if (after == NULL)
		t->unlisted += names.unlisted;
	names_finish(&ret->names);
	ret->names = names;
	ret->at = 0;
	return 0;
}

/*
 * Goes down into the entry the walk is at.  One that is not (or no more) a directory is
 * no error; one that is closed to us is counted.  Returns 1 if it is in, 0, or the errno
 * of a system that cannot go on.
 */
static int
enter(struct tree *t, const char *after)
{
	struct tree_level *lv = &t->level[t->depth];
	int e;

	*lv = (struct tree_level){ .at = 0 };
	e = fill(t, t->base + t->depth, after, lv);
	switch (e) {
	case 0:
		t->depth++;
		return 1;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return 0;
	case -EACCES:
	case -EPERM:
	case -E2BIG:
		t->unsearched++;
		return 0;
	default:
		return e;
	}
}

static void
leave(struct tree *t)
{
	names_finish(&t->level[--t->depth].names);
}

/* The last name of the cursor's that a level begins behind, NUL-terminated. */
static const char *
name_of(const struct cursor *from, size_t i, char buf[SEGMENT_BYTES_MAX + 1])
{
	if (i >= from->at.n)
		return NULL;
	memcpy(buf, from->at.name[i].p, from->at.name[i].n);
	buf[from->at.name[i].n] = '\0';
	return buf;
}

/* Puts a name into the walk's path as its `i`th. */
static void
set_name(struct tree *t, size_t i, const void *name, size_t len)
{
	memcpy(t->text[i], name, len);
	t->text[i][len] = '\0';
	t->path.name[i] = (struct slice){ (const uint8_t *)t->text[i], len };
}

/* Opens the first level, and those that lead to the cursor's entry as far as they still
 * exist: what is gone is passed over. */
static int
begin(struct tree *t, const struct cursor *from)
{
	char after[SEGMENT_BYTES_MAX + 1];
	size_t i;
	int e;

	t->level[0] = (struct tree_level){ .at = 0 };
	e = fill(t, t->base, name_of(from, 0, after), &t->level[0]);
	if (e < 0)
		return e;
	t->depth = 1;
	for (i = 0; i < from->at.n && t->base + t->depth < PATH_SEGMENTS_MAX; i++) {
		set_name(t, t->base + i, from->at.name[i].p, from->at.name[i].n);
		e = enter(t, name_of(from, i + 1, after));
		if (e <= 0)
			return e;
	}
	return 0;
}

/* Is this call's share done?  Never before it got anywhere. */
static bool
is_spent(const struct tree *t, bool scan)
{
	if (t->visited == 0)
		return false;
	return t->visited >= VISIT_BUDGET || (scan && t->scanned >= SCAN_BUDGET);
}

/* The level's names are used up: takes the next batch, or goes back up. */
static int
refill(struct tree *t, struct tree_level *lv)
{
	char last[SEGMENT_BYTES_MAX + 1];
	int e;

	if (!lv->names.more) {
		leave(t);
		return 0;
	}
	memcpy(last, lv->names.name[lv->names.n - 1].text, sizeof(last));
	e = fill(t, t->base + t->depth - 1, last, lv);
	if (e == -ENOENT || e == -ENOTDIR || e == -ELOOP || e == -EACCES || e == -EPERM) {
		leave(t);
		return 0;
	}
	return e;
}

/* May there be something below this entry? */
static bool
is_below(struct tree *t, const struct name *name)
{
	if (name->type != DT_DIR)
		return false;
	if (t->base + t->depth < PATH_SEGMENTS_MAX)
		return true;
	t->unsearched++;
	return false;
}

/* Returns 1 when the whole walk is done, 0 when this call's share is. */
static int
go_on(struct tree *t, tree_visit_fn visit, void *arg)
{
	const struct name *name;
	struct tree_level *lv;
	bool below;
	int e;

	while (t->depth > 0) {
		lv = &t->level[t->depth - 1];
		if (lv->at == lv->names.n) {
			if (lv->names.more && is_spent(t, true))
				return 0;
			if ((e = refill(t, lv)) < 0)
				return e;
			continue;
		}
		name = &lv->names.name[lv->at++];
		t->path.n = t->base + t->depth;
		set_name(t, t->path.n - 1, name->text, name->len);
		t->visited++;
		below = is_below(t, name);
		e = visit(t, name, arg);
		if (e != 0)
			return e < 0 ? e : 0;
		if (is_spent(t, below))
			return 0;
		if (below && (e = enter(t, NULL)) < 0)
			return e;
	}
	return 1;
}

int
tree_walk(struct tree *t, const struct cursor *from, tree_visit_fn visit, void *arg)
{
	int e = begin(t, from);

	return e < 0 ? e : go_on(t, visit, arg);
}

void
tree_finish(struct tree *t)
{
	while (t->depth > 0)
		leave(t);
}
