#include "worker/files/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "common/util.h"

#define OPEN_TRIES 16 /* openat2 asks to be called again while a rename is under way */

/* File systems whose files are switches of the kernel. */
static const long kernel_magics[] = {
	PROC_SUPER_MAGIC, SYSFS_MAGIC, DEVPTS_SUPER_MAGIC, CGROUP_SUPER_MAGIC,
	CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC,
	EFIVARFS_MAGIC, NSFS_MAGIC, SELINUX_MAGIC, BINFMTFS_MAGIC,
};

static int
open_beneath(int dir, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd;
	int tries;

	for (tries = 0; tries < OPEN_TRIES; tries++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	return -errno;
}

static int
check_filesystem(int fd)
{
	struct statfs fs;
	size_t i;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	for (i = 0; i < countof(kernel_magics); i++)
		if ((unsigned long)fs.f_type == (unsigned long)kernel_magics[i])
			return -EPERM;
	return 0;
}

int
files_root_open(const char *path, struct files_root *ret)
{
	struct files_root r = { .fd = -1 };
	cleanup_fd int fd = -1, probe = -1;
	struct stat st;

	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	probe = open_beneath(fd, ".", O_PATH | O_DIRECTORY, 0);
	if (probe < 0)
		return probe;
	r.uid = st.st_uid;
	r.gid = st.st_gid;
	/* In a chamber nobody can, and the mount or our uid is the owner's already. */
	r.chown = geteuid() == 0 && st.st_uid != 0 &&
	    prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 1;
	r.fd = steal_fd(&fd);
	*ret = r;
	return 0;
}

void
files_root_close(struct files_root *r)
{
	if (r->fd > 0)
		close(r->fd);
	r->fd = -1;
}

int
files_root_dir(const struct files_root *r, const struct segments *s, size_t n, int flags)
{
	char path[PATH_MAX];
	cleanup_fd int at = -1;
	size_t i = 0, used;
	int fd, ret;

	/* As many names at a time as the kernel takes in one path. */
	do {
		for (used = 0; i < n && used + s->name[i].n + 2 < sizeof(path); i++) {
			memcpy(path + used, s->name[i].p, s->name[i].n);
			used += s->name[i].n;
			path[used++] = '/';
		}
		memcpy(path + used, ".", 2);
		fd = open_beneath(at >= 0 ? at : r->fd, path,
		    O_DIRECTORY | (i < n ? O_PATH : flags), 0);
		util_close(&at);
		at = fd;
		if (fd < 0)
			return fd;
	} while (i < n);
	ret = check_filesystem(at);
	return ret < 0 ? ret : steal_fd(&at);
}

int
files_root_openat(int dir, const char *name, int flags, mode_t mode)
{
	return open_beneath(dir, name, flags, mode);
}

void
files_root_leaf(const struct segments *s, char out[SEGMENT_BYTES_MAX + 1])
{
	struct slice leaf = s->name[s->n - 1];

	memcpy(out, leaf.p, leaf.n);
	out[leaf.n] = '\0';
}

int
files_root_check(const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return 0;
	return S_ISDIR(st->st_mode) ? -EISDIR : S_ISLNK(st->st_mode) ? -ELOOP : -ENXIO;
}

int
files_root_file_at(int dir, const char *leaf, struct stat *ret)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int e;

	if (fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if ((e = files_root_check(&st)) < 0)
		return e;
	/* What stands there now may be another: look again at what was opened. */
	fd = open_beneath(dir, leaf, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((e = files_root_check(&st)) < 0 || (e = check_filesystem(fd)) < 0)
		return e;
	*ret = st;
	return steal_fd(&fd);
}

int
files_root_file(const struct files_root *r, const struct segments *s, struct stat *ret)
{
	char leaf[SEGMENT_BYTES_MAX + 1];
	cleanup_fd int dir = -1;

	if (s->n == 0)
		return -EISDIR;
	dir = files_root_dir(r, s, s->n - 1, O_PATH);
	if (dir < 0)
		return dir;
	files_root_leaf(s, leaf);
	return files_root_file_at(dir, leaf, ret);
}

int
files_root_give(const struct files_root *r, int fd)
{
	/* EINVAL: the owner has no number in this user namespace, and we are its stand-in. */
	if (r->chown && fchown(fd, r->uid, r->gid) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

const char *
files_root_type(mode_t mode)
{
	return S_ISREG(mode)   ? "file"
	    : S_ISDIR(mode) ? "directory"
	    : S_ISLNK(mode) ? "symlink"
			    : "other";
}
