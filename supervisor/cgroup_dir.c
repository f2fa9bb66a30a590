#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/cgroup_private.h"

#define PREFIX	  "caisson-"
#define NAMES_MAX 1000 /* tries */
#define FILE_MAX  4096 /* bytes of a list of words that are looked at */

static int
lock_dir(int at_fd, const char *name)
{
	cleanup_fd int fd =
	    openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* Does `path` still name what `fd` holds?  A sweep may have locked and removed it before we
 * had the lock: -ENOENT.  0, or a negative errno. */
static int
still_named(const char *path, int fd)
{
	struct stat here, held;

	if (stat(path, &here) < 0 || fstat(fd, &held) < 0)
		return -errno;
	return here.st_ino == held.st_ino && here.st_dev == held.st_dev ? 0 : -ENOENT;
}

/*
 * The pid makes the name ours, unless another pid namespace has it, too.  A sweep of another
 * supervisor may come between the making and the lock; then there is a next name.
 */
int
cgroup_dir_make(const char *base, struct cgroup_dir *ret)
{
	static unsigned counter;
	cleanup_free char *path = NULL;
	int fd = -EEXIST, error;

	for (int tries = 0; tries < NAMES_MAX; tries++) {
		free(path);
		path = NULL;
		if (asprintf(&path, "%s/" PREFIX "%d-%u", base, (int)getpid(), ++counter) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (mkdir(path, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			return -errno;
		}
		fd = lock_dir(AT_FDCWD, path);
		error = fd >= 0 ? still_named(path, fd) : 0;
		if (error < 0) {
			close(fd);
			fd = error;
		}
		if (fd >= 0) {
			*ret = (struct cgroup_dir){ .path = path, .fd = fd };
			path = NULL;
			return 0;
		}
		if (fd != -EWOULDBLOCK && fd != -ENOENT) {
			rmdir(path);
			return fd;
		}
	}
	return fd;
}

void
cgroup_dir_forget(struct cgroup_dir *d)
{
	if (d->path == NULL)
		return;
	close(d->fd);
	free(d->path);
	*d = (struct cgroup_dir){ .fd = -1 };
}

int
cgroup_dir_remove(struct cgroup_dir *d)
{
	if (d->path == NULL)
		return 0;
	if (rmdir(d->path) < 0 && errno != ENOENT)
		return -errno;
	cgroup_dir_forget(d);
	return 0;
}

void
cgroup_dir_sweep(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *e;
	int fd;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		fd = lock_dir(dirfd(dir), e->d_name);
		if (fd < 0)
			continue;
		unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR); /* fails while one runs in it */
		close(fd);
	}
	if (dir != NULL)
		closedir(dir);
}

int
cgroup_dir_write(int dir_fd, const char *name, const char *text)
{
	cleanup_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0)
		return -errno;
	errno = EIO;
	return write(fd, text, n) == (ssize_t)n ? 0 : -errno;
}

bool
cgroup_is_writable(const char *dir)
{
	char procs[PATH_MAX];

	/* Who may not move processes within it cannot make one be born in it either. */
	return snprintf(procs, sizeof(procs), "%s/cgroup.procs", dir) < (int)sizeof(procs) &&
	       faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0 &&
	       faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) == 0;
}

bool
cgroup_has_word(const char *dir, const char *name, const char *word)
{
	char path[PATH_MAX], text[FILE_MAX];
	size_t len, wanted = strlen(word);
	cleanup_fd int fd = -1;
	ssize_t n;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	for (const char *w = text; *w != '\0'; w += len + (w[len] != '\0')) {
		len = strcspn(w, " \n");
		if (len == wanted && memcmp(w, word, len) == 0)
			return true;
	}
	return false;
}

/* Is `name` one of "cpu,cpuacct"? */
static bool
is_listed(const char *list, const char *name)
{
	size_t n = strlen(name), len;

	if (n == 0 || *list == '\0')
		return n == 0 && *list == '\0';
	for (; *list != '\0'; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == n && memcmp(list, name, n) == 0)
			return true;
	}
	return false;
}

/* "4:memory:/a/b", "0::/a/b" */
char *
cgroup_path_of(const char *self, const char *controller)
{
	FILE *f = fopen(self, "re");
	char *line = NULL, *found = NULL, *list, *path;
	size_t cap = 0;

	while (f != NULL && found == NULL && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		list = strchr(line, ':');
		path = list != NULL ? strchr(++list, ':') : NULL;
		if (path == NULL)
			continue;
		*path++ = '\0';
		/* A path out of our cgroup namespace names nothing that we see. */
		if (is_listed(list, controller) && strncmp(path, "/..", 3) != 0)
			found = strdup(path);
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return found;
}
