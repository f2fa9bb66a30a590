/*
 * lockfile: a file that is locked as long as one caissond lives, and says its pid.
 *
 * The lock is of the open file, so the kernel gives it back however the holder ends.  The file
 * is written by caissond alone; one that is not ours alone is none.  Never logs.
 */
#ifndef SUPERVISOR_LOCKFILE_H
#define SUPERVISOR_LOCKFILE_H

#include <sys/types.h>

/*
 * Makes `name` beneath `dir_fd`, mode 0600, locks it and writes our pid.  Waits for one that is
 * held for `wait_ms` at most, 0: not at all.  Returns its descriptor; -EWOULDBLOCK with the
 * holder's pid (0: unknown) in `*ret_holder`; -EPERM: there is a file that is not ours; another
 * negative errno.
 */
int lockfile_take(int dir_fd, const char *name, unsigned wait_ms, pid_t *ret_holder);
/* Who that is, and what to do about it; nobody is told to kill 0, which is everybody here. */
#define LOCKFILE_HOLDER_MAX 80
const char *lockfile_holder(pid_t holder, char text[LOCKFILE_HOLDER_MAX]);
/* Removes the file, if it is still that one, while the lock is still held, then closes `fd`.
 * Accepts -1. */
void lockfile_remove(int dir_fd, const char *name, int fd);

/*
 * The same for a path, whose directory is opened: it stays reachable wherever we go.  Returns 0
 * and `ret`; or as lockfile_take(), or what opening the directory said.
 */
struct lockfile {
	int dir_fd, fd;
	char *name;
};
#define LOCKFILE_NONE ((struct lockfile){ .dir_fd = -1, .fd = -1 })
int lockfile_open(const char *path, struct lockfile *ret, pid_t *ret_holder);
/* Removes it.  Accepts LOCKFILE_NONE. */
void lockfile_close(struct lockfile *l);

/*
 * Waits until nobody holds a lock of the open file `fd`, for `timeout_ms` at most, and takes
 * it.  Blocks: for the start only.  Returns 0; -ETIMEDOUT; another negative errno.
 */
int lockfile_wait(int fd, unsigned timeout_ms);

#endif /* SUPERVISOR_LOCKFILE_H */
