#include "common/local_socket.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util.h"

/* Does the directory of `path` belong to `uid`? */
static bool
owns_directory(uid_t uid, const char *path)
{
	cleanup_free char *dir = strdup(path);
	struct stat st;

	return dir != NULL && stat(dirname(dir), &st) == 0 && st.st_uid == uid;
}

/* The kernel tells who began to listen, whatever became of them since. */
static bool
may_trust(int fd, const char *path, struct ucred *ret)
{
	socklen_t n = sizeof(*ret);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0)
		return false;
	return ret->uid == geteuid() || ret->uid == 0 ||
	       (geteuid() == 0 && owns_directory(ret->uid, path));
}

int
local_socket_connect(const char *path, unsigned wait_ms, struct ucred *ret_peer)
{
	const struct timeval wait = { wait_ms / 1000, wait_ms % 1000 * 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	cleanup_fd int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || (wait_ms > 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait,
				       sizeof(wait)) < 0))
		return -errno;
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		if (errno != EINTR)
			return -errno;
	return may_trust(fd, path, ret_peer) ? steal_fd(&fd) : -EKEYREJECTED;
}
