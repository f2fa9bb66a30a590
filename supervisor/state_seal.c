/*
 * What a private run whose caissond was killed leaves behind as root: segments that nobody can
 * move or delete.  STATE/unsealed/ID stands from before the first flag until the last one is
 * taken, so that the next run need not look at all that there ever were.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/state_private.h"

#define PLACE	  "unsealed"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void
state_set_append_only(int fd, bool on)
{
	int flags;

	if (geteuid() != 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags = on ? flags | FS_APPEND_FL : flags & ~FS_APPEND_FL;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

int
state_mark_unsealed(int state_fd, const char *id)
{
	cleanup_fd int place_fd = -1, fd = -1;

	if (geteuid() != 0)
		return 0;
	place_fd = state_open_subdir(state_fd, PLACE);
	if (place_fd < 0)
		return place_fd;
	fd = openat(place_fd, id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : 0;
}

void
state_unmark(int state_fd, const char *id)
{
	cleanup_fd int place_fd = openat(state_fd, PLACE, DIR_FLAGS);

	if (place_fd >= 0)
		unlinkat(place_fd, id, 0);
}

/* Takes the flag from all segments; false if somebody writes to one yet. */
static bool
seal_journal(int run_fd)
{
	cleanup_fd int journal_fd = openat(run_fd, "journal", DIR_FLAGS);
	struct dirent **names = NULL;
	int i, n = journal_fd < 0 ? 0 : scandirat(journal_fd, ".", &names, NULL, NULL);
	bool all = n >= 0;

	for (i = 0; i < n; i++) {
		cleanup_fd int fd = -1;

		if (strncmp(names[i]->d_name, "journal.", 8) == 0)
			fd = openat(
			    journal_fd, names[i]->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		/* A broker that settles without its supervisor has its segment locked. */
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0)
			all = false;
		else if (fd >= 0)
			state_set_append_only(fd, false);
		free(names[i]);
	}
	free(names);
	return all;
}

/* True if nothing is left to do for it. */
static bool
seal_run(int runs_fd, const char *id)
{
	cleanup_fd int run_fd = openat(runs_fd, id, DIR_FLAGS), lock_fd = -1;

	if (run_fd < 0)
		return errno == ENOENT;
	lock_fd = openat(run_fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	return seal_journal(run_fd);
}

void
state_seal_left(int state_fd, int runs_fd)
{
	cleanup_fd int place_fd = geteuid() == 0 ? openat(state_fd, PLACE, DIR_FLAGS) : -1;
	struct dirent **names = NULL;
	int i, n = place_fd < 0 ? 0 : scandirat(place_fd, ".", &names, NULL, NULL);

	for (i = 0; i < n; i++) {
		const char *id = names[i]->d_name;

		if (id[0] != '.' && seal_run(runs_fd, id))
			unlinkat(place_fd, id, 0);
		free(names[i]);
	}
	free(names);
}
