#include "supervisor/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "common/options.h"
#include "common/util.h"

#define TEXT_MAX 16 /* "4194304\n" */

static pid_t
read_holder(int fd)
{
	char text[TEXT_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	uint64_t pid;

	if (n <= 1 || text[n - 1] != '\n')
		return 0;
	text[n - 1] = '\0';
	return options_parse_number(text, INT32_MAX, &pid) < 0 ? 0 : (pid_t)pid;
}

static int
write_pid(int fd)
{
	char text[TEXT_MAX];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(fd, 0) < 0)
		return -errno;
	errno = EIO;
	return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -errno;
}

/* In a directory like /tmp others may have made it, to be locked, or written to, by us. */
static bool
is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       st.st_nlink <= 1;
}

/* Is what was opened still what the name says?  Its last holder may have removed it. */
static bool
is_there(int dir_fd, const char *name, int fd)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 &&
	       fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

int
lockfile_take(int dir_fd, const char *name, unsigned wait_ms, pid_t *ret_holder)
{
	int tries, r;

	*ret_holder = 0;
	for (tries = 0; tries < 100; tries++) {
		cleanup_fd int fd =
		    openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return -errno;
		if (!is_ours(fd))
			return -EPERM;
		r = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
		if (r == -EWOULDBLOCK && wait_ms > 0)
			r = lockfile_wait(fd, wait_ms);
		if (r == -EWOULDBLOCK || r == -ETIMEDOUT) {
			*ret_holder = read_holder(fd);
			return -EWOULDBLOCK;
		}
		if (r < 0)
			return r;
		if (!is_there(dir_fd, name, fd))
			continue;
		r = write_pid(fd);
		return r < 0 ? r : steal_fd(&fd);
	}
	return -EAGAIN;
}

const char *
lockfile_holder(pid_t holder, char text[LOCKFILE_HOLDER_MAX])
{
	if (holder <= 0)
		return "a caissond that has not said its pid yet: stop that one";
	snprintf(text, LOCKFILE_HOLDER_MAX, "caissond, pid %d: stop that one (kill %d)",
	    (int)holder, (int)holder);
	return text;
}

void
lockfile_remove(int dir_fd, const char *name, int fd)
{
	if (fd < 0)
		return;
	if (is_there(dir_fd, name, fd))
		unlinkat(dir_fd, name, 0);
	close(fd);
}

int
lockfile_open(const char *path, struct lockfile *ret, pid_t *ret_holder)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir =
	    slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");

	*ret = LOCKFILE_NONE;
	*ret_holder = 0;
	ret->name = strdup(slash ? slash + 1 : path);
	if (!dir || !ret->name)
		return -ENOMEM;
	ret->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return -errno;
	ret->fd = lockfile_take(ret->dir_fd, ret->name, 0, ret_holder);
	return ret->fd < 0 ? ret->fd : 0;
}

void
lockfile_close(struct lockfile *l)
{
	lockfile_remove(l->dir_fd, l->name, l->fd);
	util_close(&l->dir_fd);
	free(l->name);
	*l = LOCKFILE_NONE;
}

static void
on_alarm(int signo)
{
	(void)signo;
}

int
lockfile_wait(int fd, unsigned timeout_ms)
{
	struct sigaction act = { .sa_handler = on_alarm }, old;
	/* Again and again: the first could come before flock() has begun to wait. */
	struct itimerval timer = {
		.it_value = { timeout_ms / 1000, timeout_ms % 1000 * 1000 + 1 },
		.it_interval = { 0, 100000 },
	};
	const struct itimerval none = { 0 };
	int r = 0;

	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK || sigaction(SIGALRM, &act, &old) < 0)
		return -errno;
	setitimer(ITIMER_REAL, &timer, NULL);
	if (flock(fd, LOCK_EX) < 0)
		r = errno == EINTR ? -ETIMEDOUT : -errno;
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &old, NULL);
	return r;
}
