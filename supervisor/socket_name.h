/*
 * socket_name: the name of a listening AF_UNIX socket in the file system.
 *
 * Owns the directory it lies in, the name as long as it is still ours, and the lock that says
 * whose it is: NAME.pid beside NAME.sock.  A socket that a dead daemon left is taken over;
 * anything else that lies there is not touched.  Never logs.
 */
#ifndef SUPERVISOR_SOCKET_NAME_H
#define SUPERVISOR_SOCKET_NAME_H

#include <stdbool.h>
#include <sys/stat.h>

#define SOCKET_NAME_ERROR_MAX 512

struct socket_name {
	int dir_fd, lock_fd;
	char *name, *lock_name; /* beneath dir_fd */
	struct stat made;	/* the socket, as we made it; st_ino 0: none, or no more */
};

#define SOCKET_NAME_NONE ((struct socket_name){ .dir_fd = -1, .lock_fd = -1 })

/*
 * Makes the directory of `path` (0755 as root, else 0700) if it is not there, takes the lock,
 * removes what a dead daemon left, and binds a socket of `mode` there, close-on-exec and
 * non-blocking, that listens.  `key` is how errors call it, "--socket".  Returns 0 and
 * `*ret_fd`; or a negative errno with one line in `err`: -EWOULDBLOCK if another daemon has the
 * name, -ENAMETOOLONG, -EEXIST if something else than a socket is there, -EPERM if others could
 * replace it.  `n` can be finished either way.
 */
int socket_name_bind(struct socket_name *n, const char *key, const char *path, mode_t mode,
    int *ret_fd, char err[SOCKET_NAME_ERROR_MAX]);

/* Removes it, if it is still the one that was made. */
void socket_name_remove(struct socket_name *n);
/* The same, and gives back the lock. */
void socket_name_finish(struct socket_name *n);

#endif /* SUPERVISOR_SOCKET_NAME_H */
