#include "supervisor/state_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/state_dir.h"
#include "common/util.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

int
state_fail(char err[STATE_ERROR_MAX], const char *dir, const char *what, int error)
{
	snprintf(
	    err, STATE_ERROR_MAX, "--state %.400s: cannot %s: %s", dir, what, strerror(error));
	return -error;
}

/* ---- the directory ----------------------------------------------------------------- */

/* mkdir -p.  What a mkdir says in the middle does not matter, if only the end is there. */
static int
make_dirs(const char *dir)
{
	cleanup_free char *path = strdup(dir);
	char *slash;

	if (!path)
		return -ENOMEM;
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Opens the directory, which nobody else may be able to change. */
static int
open_dir(const char *dir, int *ret, char err[STATE_ERROR_MAX])
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r = make_dirs(dir);

	if (r < 0)
		return state_fail(err, dir, "create it", -r);
	fd = open(dir, DIR_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return state_fail(err, dir, "open it", errno);
	if (st.st_uid != geteuid() || (st.st_mode & 022)) {
		snprintf(err, STATE_ERROR_MAX,
		    "--state %.400s: others can write there, expected a directory of your own",
		    dir);
		return -EPERM;
	}
	*ret = steal_fd(&fd);
	return 0;
}

int
state_open_subdir(int dir_fd, const char *name)
{
	int fd;

	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, DIR_FLAGS | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

/* ---- the key ----------------------------------------------------------------------- */

static int
read_key(int dir_fd, uint8_t key[STATE_KEY])
{
	cleanup_fd int fd = openat(dir_fd, "key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t more;

	if (fd < 0)
		return -errno;
	if (read(fd, key, STATE_KEY) != STATE_KEY || read(fd, &more, 1) != 0)
		return -EBADMSG;
	return 0;
}

/* Written whole under another name, then linked: whoever is first wins, for everybody. */
static int
make_key(int dir_fd)
{
	char name[32];
	uint8_t key[STATE_KEY];
	cleanup_fd int fd = -1;
	int r = 0;

	arc4random_buf(key, sizeof(key));
	snprintf(name, sizeof(name), ".key-%08x%08x", arc4random(), arc4random());
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	errno = EIO;
	if (write(fd, key, sizeof(key)) != sizeof(key) || fsync(fd) < 0 ||
	    (linkat(dir_fd, name, dir_fd, "key", 0) < 0 && errno != EEXIST))
		r = -errno;
	unlinkat(dir_fd, name, 0);
	return r < 0 ? r : fsync(dir_fd) < 0 ? -errno : 0;
}

/* ---- a run ------------------------------------------------------------------------- */

static int
make_run_dir(int runs_fd, char **ret_id)
{
	char stamp[20], id[32];
	time_t now = time(NULL);
	struct tm tm;
	int fd, tries;

	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
	for (tries = 0; tries < 100; tries++) {
		snprintf(id, sizeof(id), "%s-%06x", stamp, arc4random_uniform(1u << 24));
		if (mkdirat(runs_fd, id, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return -errno;
		}
		fd = openat(runs_fd, id, DIR_FLAGS | O_NOFOLLOW);
		if (fd < 0)
			return -errno;
		*ret_id = strdup(id);
		if (*ret_id)
			return fd;
		close(fd);
		return -ENOMEM;
	}
	return -EEXIST;
}

int
state_set_paths(struct rundir *run, const char *dir, const char *place)
{
	cleanup_free char *real = realpath(dir, NULL);

	if (!real)
		return -errno;
	if (asprintf(&run->journal, "%s/%s/%s/journal", real, place, run->id) < 0 ||
	    asprintf(&run->index, "%s/%s/%s/index", real, place, run->id) < 0)
		return -ENOMEM;
	return 0;
}

int
state_open_stores(int run_fd, struct rundir *run)
{
	run->journal_fd = state_open_subdir(run_fd, "journal");
	if (run->journal_fd < 0)
		return run->journal_fd;
	run->index_fd = state_open_subdir(run_fd, "index");
	if (run->index_fd < 0)
		return run->index_fd;
	return fsync(run_fd) < 0 ? -errno : 0;
}

static int
fill_run(struct rundir *run, int run_fd, const char *dir)
{
	int r;

	run->lock_fd = openat(run_fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (run->lock_fd < 0 || flock(run->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	r = state_open_stores(run_fd, run);
	return r < 0 ? r : state_set_paths(run, dir, "runs");
}

int
state_open(
    const char *wanted, char **ret_dir, uint8_t ret_key[STATE_KEY], char err[STATE_ERROR_MAX])
{
	cleanup_free char *dir = wanted ? strdup(wanted) : state_dir_default();
	cleanup_fd int fd = -1;
	int r;

	if (!dir && wanted)
		return state_fail(err, wanted, "open it", ENOMEM);
	if (!dir) {
		snprintf(err, STATE_ERROR_MAX,
		    "--state DIR: is needed where neither XDG_STATE_HOME nor HOME is set");
		return -ENOENT;
	}
	r = open_dir(dir, &fd, err);
	if (r < 0)
		return r;
	r = read_key(fd, ret_key);
	if (r == -ENOENT && (r = make_key(fd)) == 0)
		r = read_key(fd, ret_key);
	if (r < 0)
		return state_fail(err, dir, "read or make the file key in it", -r);
	*ret_dir = dir;
	dir = NULL;
	return steal_fd(&fd);
}

int
rundir_create(const char *wanted, struct rundir *ret, char err[STATE_ERROR_MAX])
{
	cleanup_fd int fd = -1, runs_fd = -1, run_fd = -1;
	cleanup_free char *dir = NULL;
	int r;

	*ret = RUNDIR_NONE;
	fd = state_open(wanted, &dir, ret->key, err);
	if (fd < 0)
		return fd;
	runs_fd = state_open_subdir(fd, "runs");
	if (runs_fd < 0)
		return state_fail(err, dir, "make the directory runs in it", -runs_fd);
	state_seal_left(fd, runs_fd);
	run_fd = make_run_dir(runs_fd, &ret->id);
	if (run_fd < 0)
		return state_fail(err, dir, "make a run in it", -run_fd);
	r = fill_run(ret, run_fd, dir);
	if (r == 0)
		r = state_mark_unsealed(fd, ret->id);
	if (r == 0)
		ret->state_fd = steal_fd(&fd);
	if (r == 0 && fsync(runs_fd) < 0)
		r = -errno;
	return r < 0 ? state_fail(err, dir, "make a run in it", -r) : 0;
}

void
rundir_finish(struct rundir *run)
{
	int *const fds[] = { &run->journal_fd, &run->index_fd, &run->workspaces_fd,
		&run->lock_fd, &run->state_fd };
	size_t i;

	if (run->state_fd >= 0 && run->sealed == run->segments)
		state_unmark(run->state_fd, run->id);
	for (i = 0; i < countof(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	explicit_bzero(run->key, sizeof(run->key));
	free(run->id);
	free(run->journal);
	free(run->index);
	free(run->workspaces);
	run->id = run->journal = run->index = run->workspaces = NULL;
}

/* ---- segments ---------------------------------------------------------------------- */

/* As journal_name(), whose module is linked with a hash that the supervisor has no use for. */
void
state_segment_name(char name[17], uint64_t number)
{
	snprintf(name, 17, "journal.%08u", (unsigned)(number % 100000000));
}

/* Under this name nobody looks for a segment: whoever finds one may read it, and it stays. */
#define SEGMENT_UNFINISHED "unfinished"

static int
fill_segment(const struct rundir *run, int fd, const char *name, uint64_t bytes, int *ret_fd)
{
	cleanup_fd int append_fd = -1;
	int r;

	/* Some file systems cannot reserve; there a full disk is met later, and as hard. */
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0 && errno != EOPNOTSUPP)
		return -errno;
	append_fd = openat(run->journal_fd, SEGMENT_UNFINISHED,
	    O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (append_fd < 0 || flock(append_fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	if (run->reader_gid != (gid_t)-1 && fchown(fd, (uid_t)-1, run->reader_gid) < 0)
		return -errno;
	if (fchmod(fd, run->reader_gid != (gid_t)-1 ? 0440 : 0400) < 0)
		return -errno;
	if (fsync(fd) < 0 || renameat2(run->journal_fd, SEGMENT_UNFINISHED, run->journal_fd, name,
				 RENAME_NOREPLACE) < 0)
		return -errno;
	if (fsync(run->journal_fd) < 0) {
		r = -errno;
		unlinkat(run->journal_fd, name, 0);
		return r;
	}
	state_set_append_only(fd, true);
	*ret_fd = steal_fd(&append_fd);
	return 0;
}

int
rundir_segment(struct rundir *run, uint64_t bytes, int *ret_fd, uint64_t *ret_number)
{
	cleanup_fd int fd = -1;
	char name[17];
	int r;

	state_segment_name(name, run->segments + 1);
	fd = openat(run->journal_fd, SEGMENT_UNFINISHED, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	    0600);
	if (fd < 0)
		return -errno;
	r = fill_segment(run, fd, name, bytes, ret_fd);
	if (r < 0) {
		unlinkat(run->journal_fd, SEGMENT_UNFINISHED, 0);
		return r;
	}
	*ret_number = ++run->segments;
	return 0;
}

void
rundir_seal(struct rundir *run)
{
	char name[17];

	for (; run->sealed < run->segments; run->sealed++) {
		cleanup_fd int fd = -1;

		state_segment_name(name, run->sealed + 1);
		fd = openat(run->journal_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			state_set_append_only(fd, false);
	}
}

void
rundir_trim(const struct rundir *run, uint64_t after)
{
	uint64_t number;
	char name[17];

	for (number = after + 1; number <= run->segments; number++) {
		cleanup_fd int fd = -1, write_fd = -1;
		struct stat st;

		state_segment_name(name, number);
		fd = openat(run->journal_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
		    fchmod(fd, 0600) < 0)
			continue;
		write_fd = openat(run->journal_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		if (write_fd >= 0)
			(void)!ftruncate(write_fd, st.st_size); /* what is beyond the end */
		fchmod(fd, st.st_mode & 07777);
	}
}

/* ---- the ledger's uid -------------------------------------------------------------- */

/* Segments of the daemons before us; they are sealed, or this could not be done. */
static int
give_segments(struct rundir *run, gid_t gid)
{
	uint64_t number;
	char name[17];

	for (number = 1; number <= run->segments; number++) {
		cleanup_fd int fd = -1;

		state_segment_name(name, number);
		fd = openat(run->journal_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fchown(fd, (uid_t)-1, gid) < 0 || fchmod(fd, 0440) < 0)
			return -errno;
	}
	return 0;
}

/* Index and head: regular files with one name each, whatever a ledger has made there. */
static int
give_index(const struct rundir *run, uid_t uid, gid_t gid)
{
	struct dirent **names = NULL;
	int i, n = scandirat(run->index_fd, ".", &names, NULL, NULL), r = n < 0 ? -errno : 0;

	for (i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		cleanup_fd int fd =
		    openat(run->index_fd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
		struct stat st;

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		    fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
			r = -errno;
	}
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}

int
rundir_give(struct rundir *run, uid_t uid, gid_t gid)
{
	int r;

	if (fchown(run->index_fd, uid, gid) < 0 ||
	    fchown(run->journal_fd, (uid_t)-1, gid) < 0 || fchmod(run->journal_fd, 0750) < 0)
		return -errno;
	r = give_segments(run, gid);
	if (r == 0)
		r = give_index(run, uid, gid);
	if (r == 0)
		run->reader_gid = gid;
	return r;
}
