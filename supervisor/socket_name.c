#include "supervisor/socket_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/lockfile.h"

#define BACKLOG 128

/* Where it is, for errors. */
struct place {
	const char *key, *path;
	char *err;
};

static int
refuse(const struct place *at, const char *what, int error)
{
	snprintf(at->err, SOCKET_NAME_ERROR_MAX, "%.64s %.300s: cannot %s: %s", at->key, at->path,
	    what, strerror(error));
	return -error;
}

/* Opens the directory of the path, made if it is not there; what others could change is
 * none. */
static int
open_dir(struct socket_name *n, const struct place *at)
{
	const char *slash = strrchr(at->path, '/');
	cleanup_free char *dir = slash
	    ? strndup(at->path, slash > at->path ? (size_t)(slash - at->path) : 1)
	    : strdup(".");
	mode_t mode = geteuid() == 0 ? 0755 : 0700, mask;
	struct stat st;

	n->name = strdup(slash ? slash + 1 : at->path);
	if (!dir || !n->name)
		return refuse(at, "use it", ENOMEM);
	if (n->name[0] == '\0')
		return refuse(at, "use it", EISDIR);
	mask = umask(0); /* not chmod(), which may meet another directory by then */
	(void)mkdir(dir, mode);
	umask(mask);
	n->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->dir_fd < 0 || fstat(n->dir_fd, &st) < 0)
		return refuse(at, "open its directory", errno);
	if ((st.st_uid != geteuid() && st.st_uid != 0) ||
	    ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))) {
		snprintf(at->err, SOCKET_NAME_ERROR_MAX,
		    "%.64s %.300s: others could replace it: expected a directory that only its "
		    "owner, you or root, can write",
		    at->key, at->path);
		return -EPERM;
	}
	return 0;
}

/* NAME.sock is locked by NAME.pid. */
static int
take_lock(struct socket_name *n, const struct place *at)
{
	size_t len = strlen(n->name);
	char text[LOCKFILE_HOLDER_MAX];
	pid_t holder;

	if (len > 5 && !strcmp(n->name + len - 5, ".sock"))
		len -= 5;
	if (asprintf(&n->lock_name, "%.*s.pid", (int)len, n->name) < 0) {
		n->lock_name = NULL;
		return refuse(at, "lock it", ENOMEM);
	}
	n->lock_fd = lockfile_take(n->dir_fd, n->lock_name, 0, &holder);
	if (n->lock_fd == -EWOULDBLOCK) {
		snprintf(at->err, SOCKET_NAME_ERROR_MAX,
		    "%.64s %.300s: is served by %s, or name another socket", at->key, at->path,
		    lockfile_holder(holder, text));
		return -EWOULDBLOCK;
	}
	return n->lock_fd < 0 ? refuse(at, "lock it by its pid file", -n->lock_fd) : 0;
}

/* With the lock held: a socket of that name is of a daemon that is dead. */
static int
remove_stale(struct socket_name *n, const struct place *at)
{
	struct stat st;

	if (fstatat(n->dir_fd, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : refuse(at, "look at it", errno);
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(at->err, SOCKET_NAME_ERROR_MAX,
		    "%.64s %.300s: something that is no socket is there: remove it, or name "
		    "another",
		    at->key, at->path);
		return -EEXIST;
	}
	return unlinkat(n->dir_fd, n->name, 0) < 0 ? refuse(at, "remove it", errno) : 0;
}

static int
bind_and_listen(struct socket_name *n, const struct place *at, mode_t mode, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask;
	int r;

	if (fd < 0)
		return refuse(at, "make a socket", errno);
	strlcpy(address.sun_path, at->path, sizeof(address.sun_path));
	mask = umask(0777 & ~mode);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	umask(mask);
	if (r)
		return refuse(at, "bind it", r);
	if (fstatat(n->dir_fd, n->name, &n->made, AT_SYMLINK_NOFOLLOW) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return refuse(at, "listen", errno);
	*ret_fd = steal_fd(&fd);
	return 0;
}

int
socket_name_bind(struct socket_name *n, const char *key, const char *path, mode_t mode,
    int *ret_fd, char err[SOCKET_NAME_ERROR_MAX])
{
	const struct place at = { key, path, err };
	struct sockaddr_un address;
	int r;

	*n = SOCKET_NAME_NONE;
	if (strlen(path) >= sizeof(address.sun_path)) {
		snprintf(err, SOCKET_NAME_ERROR_MAX,
		    "%.64s %.300s: is %zu bytes long, expected %zu at most", key, path,
		    strlen(path), sizeof(address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	if ((r = open_dir(n, &at)) < 0 || (r = take_lock(n, &at)) < 0 ||
	    (r = remove_stale(n, &at)) < 0)
		return r;
	return bind_and_listen(n, &at, mode, ret_fd);
}

void
socket_name_remove(struct socket_name *n)
{
	struct stat there;

	if (n->made.st_ino && fstatat(n->dir_fd, n->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    there.st_ino == n->made.st_ino && there.st_dev == n->made.st_dev)
		unlinkat(n->dir_fd, n->name, 0);
	n->made.st_ino = 0;
}

void
socket_name_finish(struct socket_name *n)
{
	socket_name_remove(n);
	if (n->lock_name)
		lockfile_remove(n->dir_fd, n->lock_name, n->lock_fd);
	util_close(&n->dir_fd);
	free(n->name);
	free(n->lock_name);
	*n = SOCKET_NAME_NONE;
}
