/* The directory of a daemon's namespace: one for all its caissonds, one after the other. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/util.h"
#include "supervisor/lockfile.h"
#include "supervisor/state_private.h"

#define LINGER_MS 15000 /* for a broker and a ledger whose supervisor was killed to end */
#define PLACE	  "namespaces"

bool
rundir_may_name(const char *namespace)
{
	const char *s;

	if (*namespace == '\0' || *namespace == '.' || strlen(namespace) > STATE_NAMESPACE_MAX)
		return false;
	for (s = namespace; *s != '\0'; s++)
		if (!isascii((unsigned char)*s) ||
		    (!isalnum((unsigned char)*s) && !strchr("-_.", *s)))
			return false;
	return true;
}

/* Number of the last segment there is; 0: none. */
static int
last_segment(int journal_fd, uint64_t *ret)
{
	struct dirent **names = NULL;
	int i, n = scandirat(journal_fd, ".", &names, NULL, NULL);
	uint64_t number;

	if (n < 0)
		return -errno;
	*ret = 0;
	for (i = 0; i < n; i++) {
		const char *s = names[i]->d_name;

		if (!strncmp(s, "journal.", 8) && strlen(s) == 16 &&
		    options_parse_number(s + 8 + strspn(s + 8, "0"), 99999999, &number) == 0 &&
		    number > *ret)
			*ret = number;
		free(names[i]);
	}
	free(names);
	return 0;
}

/*
 * A caissond that was killed leaves a broker that settles and a ledger that reads to the
 * end: nothing is written here before both are gone.  The ledger holds the index directory as
 * its supervisor opened it, lock included; the broker so holds its segments.
 */
static int
wait_for_the_last(const struct rundir *run)
{
	uint64_t number;
	char name[17];
	int r = lockfile_wait(run->index_fd, LINGER_MS);

	for (number = run->segments; number > 0 && r == 0; number--) {
		cleanup_fd int fd = -1;

		state_segment_name(name, number);
		fd = openat(run->journal_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			r = lockfile_wait(fd, LINGER_MS);
	}
	return r;
}

/* Beside the journal. */
static int
open_workspaces(int run_fd, struct rundir *run)
{
	size_t n = strlen(run->journal) - strlen("journal");

	run->workspaces_fd = state_open_subdir(run_fd, "workspaces");
	if (run->workspaces_fd < 0)
		return run->workspaces_fd;
	return asprintf(&run->workspaces, "%.*sworkspaces", (int)n, run->journal) < 0 ? -ENOMEM
										      : 0;
}

static int
fill_namespace(struct rundir *run, int run_fd, const char *dir, char err[STATE_ERROR_MAX])
{
	int r = state_open_stores(run_fd, run);

	if (r == 0)
		r = state_set_paths(run, dir, PLACE);
	if (r == 0)
		r = open_workspaces(run_fd, run);
	if (r == 0)
		r = last_segment(run->journal_fd, &run->segments);
	if (r < 0)
		return state_fail(err, dir, "open the namespace's directory in it", -r);
	r = wait_for_the_last(run);
	if (r < 0)
		return state_fail(err, dir,
		    "take over: broker or ledger of a caissond that was killed have not ended",
		    -r);
	rundir_seal(run);
	return 0;
}

int
rundir_open(const char *wanted, const char *namespace, unsigned wait_ms, struct rundir *ret,
    char err[STATE_ERROR_MAX])
{
	cleanup_fd int fd = -1, place_fd = -1, run_fd = -1;
	cleanup_free char *dir = NULL;
	char text[LOCKFILE_HOLDER_MAX];

	*ret = RUNDIR_NONE;
	fd = state_open(wanted, &dir, ret->key, err);
	if (fd < 0)
		return fd;
	place_fd = state_open_subdir(fd, PLACE);
	if (place_fd < 0)
		return state_fail(err, dir, "make the directory " PLACE " in it", -place_fd);
	run_fd = state_open_subdir(place_fd, namespace);
	if (run_fd < 0)
		return state_fail(err, dir, "make the namespace's directory in it", -run_fd);
	ret->id = strdup(namespace);
	if (!ret->id)
		return state_fail(err, dir, "open it", ENOMEM);
	ret->lock_fd = lockfile_take(run_fd, "lock", wait_ms, &ret->holder);
	if (ret->lock_fd == -EWOULDBLOCK) {
		snprintf(err, STATE_ERROR_MAX,
		    "--state %.400s: the namespace %s is held by %s, or name another directory",
		    dir, namespace, lockfile_holder(ret->holder, text));
		return -EWOULDBLOCK;
	}
	if (ret->lock_fd < 0)
		return state_fail(err, dir, "lock the namespace in it", -ret->lock_fd);
	return fill_namespace(ret, run_fd, dir, err);
}
