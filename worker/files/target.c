#include "worker/files/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/hex.h"
#include "common/util.h"
#include "worker/files/digest.h"

int
target_open(const struct files_root *root, const struct segments *s, struct target *t)
{
	t->dir = files_root_dir(root, s, s->n - 1, O_RDONLY);
	if (t->dir < 0)
		return t->dir;
	files_root_leaf(s, t->leaf);
	return 0;
}

int
target_look(struct target *t)
{
	int e;

	t->exists = fstatat(t->dir, t->leaf, &t->old, AT_SYMLINK_NOFOLLOW) == 0;
	if (!t->exists)
		return errno == ENOENT ? 0 : -errno;
	e = files_root_check(&t->old);
	return e == -EISDIR ? 0 : e;
}

static bool
is_hex(struct slice s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

enum files_code
target_expect(struct target *t, struct slice expect, struct files_reply *reply)
{
	char hex[DIGEST_TEXT];
	cleanup_fd int fd = -1;
	int e;

	if (!is_hex(expect))
		return files_fail(reply, "expect", FILES_invalid_tool_arguments);
	if (flock(t->dir, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return files_fail(reply, "expect", FILES_busy);
	if (!t->exists)
		return files_fail(reply, "path", FILES_not_found);
	fd = files_root_file_at(t->dir, t->leaf, &t->old);
	e = fd < 0 ? fd : digest_file(fd, hex);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	if (!slice_is(expect, hex))
		return files_fail(reply, "expect", FILES_changed);
	t->expected = true;
	return FILES_OK;
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	    a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool
target_is_changed(const struct target *t)
{
	struct stat st;

	return t->expected && (fstatat(t->dir, t->leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_same(&st, &t->old));
}

/* Where the file system cannot refuse to replace: a file gets a second name, which is
 * refused; a directory could only take the place of an empty one. */
static int
take_free(const struct target *t, const char *from)
{
	struct stat st;

	if (linkat(t->dir, from, t->dir, t->leaf, 0) == 0)
		return unlinkat(t->dir, from, 0) < 0 ? -errno : 0;
	if (errno != EPERM && errno != EISDIR)
		return -errno;
	if (fstatat(t->dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -EPERM;
	if (fstatat(t->dir, t->leaf, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat2(t->dir, from, t->dir, t->leaf, 0) < 0 ? -errno : 0;
}

int
target_take(const struct target *t, const char *from, bool replace)
{
	if (renameat2(t->dir, from, t->dir, t->leaf, replace ? 0 : RENAME_NOREPLACE) == 0)
		return 0;
	if (replace || (errno != EINVAL && errno != ENOSYS))
		return -errno;
	return take_free(t, from);
}

void
target_temp(char name[TARGET_TEMP_MAX])
{
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];

	arc4random_buf(random, sizeof(random));
	hex_encode(random, sizeof(random), hex);
	snprintf(name, TARGET_TEMP_MAX, "%s%s%s", TEMP_PREFIX, hex, TEMP_SUFFIX);
}

int
target_sync(const struct target *t)
{
	return fsync(t->dir) < 0 ? -errno : 0;
}
