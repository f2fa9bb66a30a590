#include "worker/files/empty.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "worker/files/target.h"

#define GETDENTS_BYTES (16u << 10) /* on the stack, twice */

/* One look at all of a directory. */
struct pass {
	size_t found, done; /* entries; those that are gone from it */
	int error; /* of the first that is not */
};

typedef int (*entry_fn)(int dir, const char *name, int up);

static void
look_at(struct pass *p, entry_fn remove, int dir, const char *name, int up)
{
	int e;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	p->found++;
	e = remove(dir, name, up);
	if (e == 0 || e == -ENOENT)
		p->done++;
	else if (p->error == 0)
		p->error = e;
}

static struct pass
pass_over(int dir, entry_fn remove, int up)
{
	char block[GETDENTS_BYTES] __attribute__((aligned(8)));
	struct pass p = { .error = 0 };
	const struct dirent64 *d;
	cleanup_fd int fd = -1;
	ssize_t got, at;

	/* Anew, for its position. */
	fd = files_root_openat(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		p.error = fd;
		return p;
	}
	while ((got = getdents64(fd, block, sizeof(block))) > 0)
		for (at = 0; at < got; at += d->d_reclen) {
			d = (const struct dirent64 *)(const void *)(block + at);
			look_at(&p, remove, dir, d->d_name, up);
		}
	if (got < 0 && p.error == 0)
		p.error = -errno;
	return p;
}

/* As long as that leads further. */
static int
pass_until_empty(int dir, entry_fn remove, int up)
{
	struct pass p;

	do
		p = pass_over(dir, remove, up);
	while (p.done > 0);
	return p.error;
}

/* Whatever can go by itself: 0; -ENOTEMPTY for a directory with something in it. */
static int
remove_leaf(int dir, const char *name)
{
	int e = unlinkat(dir, name, 0) == 0 ? 0 : -errno;

	/* POSIX lets a file system say either of a directory. */
	if (e != -EISDIR && e != -EPERM)
		return e;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	return errno == ENOTDIR ? e : errno == EEXIST ? -ENOTEMPTY : -errno;
}

/* A directory that its owner closed: nobody else is at work here who could put a link in its
 * place, and all that a link could lead to is ours as well. */
static int
unlock(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_mode & 0700) == 0700)
		return 0;
	return fchmodat(dir, name, 0700, 0) < 0 ? -errno : 0;
}

/* Two levels down: what does not go by itself moves up. */
static int
remove_or_raise(int dir, const char *name, int up)
{
	char temp[TARGET_TEMP_MAX];
	int e = remove_leaf(dir, name);

	if (e != -ENOTEMPTY)
		return e;
	e = unlock(dir, name);
	if (e < 0)
		return e;
	target_temp(temp);
	return renameat2(dir, name, up, temp, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int
remove_entry(int dir, const char *name, int up)
{
	int e = remove_leaf(dir, name);
	cleanup_fd int fd = -1;

	(void)up;
	if (e != -ENOTEMPTY)
		return e;
	e = unlock(dir, name);
	if (e < 0)
		return e;
	fd = files_root_openat(dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	e = pass_until_empty(fd, remove_or_raise, dir);
	if (e < 0)
		return e;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int
empty_directory(int dir)
{
	return pass_until_empty(dir, remove_entry, -1);
}
