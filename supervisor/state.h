/*
 * rundir: the state directory, and in it the directory of one run (D-16, D-17).
 *
 *     STATE/key                                  32 random bytes, 0600: the installation's key
 *     STATE/runs/YYYYMMDDTHHMMSS-xxxxxx/lock     locked as long as its caissond lives
 *                                       journal/ journal.NNNNNNNN, the segments
 *                                       index/   the ledger's
 *     STATE/namespaces/NAME/lock ...             the same for a daemon's namespace, for good
 *                           workspaces/          of its sessions (workspace.h)
 *     STATE/unsealed/YYYYMMDDTHHMMSS-xxxxxx      as root: its segments may be append-only
 *
 * Two of them share the key and nothing else.  Owns the descriptors of its run.  Nothing here
 * reads or changes what stands in a segment or in the index.  Never logs.
 */
#ifndef SUPERVISOR_STATE_H
#define SUPERVISOR_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STATE_KEY	  32
#define STATE_ERROR_MAX	  1024
#define STATE_SEGMENT_MIN (1u << 20)  /* bytes; holds a full turn's endings */
#define STATE_SEGMENT	  (4u << 20)  /* bytes: what a private run's segment reserves */
#define STATE_SEGMENT_MAX (64u << 20) /* bytes a broker may ask for at once */

struct rundir {
	char *id;	       /* YYYYMMDDTHHMMSS-xxxxxx, or the namespace */
	char *journal, *index; /* absolute paths, for the ledger's chamber */
	char *workspaces;      /* of a namespace, likewise for its sessions'; NULL: none */
	int lock_fd, journal_fd, index_fd, workspaces_fd;
	int state_fd; /* of a private run: the state directory; -1: none */
	uint8_t key[STATE_KEY];
	uint64_t segments; /* number of the last one made, 0: none */
	uint64_t sealed;   /* all up to this number are no longer append-only */
	pid_t holder;	   /* with -EWOULDBLOCK: who holds the lock; 0: unknown */
	gid_t reader_gid;  /* the group that may read segments; (gid_t)-1: the owner alone */
};

#define RUNDIR_NONE                                                                            \
	((struct rundir){ .lock_fd = -1,                                                       \
	    .journal_fd = -1,                                                                  \
	    .index_fd = -1,                                                                    \
	    .workspaces_fd = -1,                                                               \
	    .state_fd = -1,                                                                    \
	    .reader_gid = (gid_t)-1 })

/*
 * Makes a run in the state directory `dir`; NULL: /var/lib/caisson as root, else
 * $XDG_STATE_HOME/caisson or ~/.local/state/caisson.  What is missing is made, 0700.
 * As root first takes the append-only flag from the segments of runs whose caissond was
 * killed.  Returns 0; or a negative errno with one line in `err`, which names --state.  `ret`
 * can be finished either way.
 */
int rundir_create(const char *dir, struct rundir *ret, char err[STATE_ERROR_MAX]);

#define STATE_NAMESPACE_MAX 64 /* bytes of a namespace that has a directory */

/* May this namespace be a directory's name?  Letters, digits, - _ and ., which is not first. */
bool rundir_may_name(const char *namespace);

/*
 * Opens the directory of a daemon's namespace, made if it is not there, and locks it.  Numbers
 * of segments go on.  Waits, for seconds at most, until broker and ledger of a caissond that
 * was killed have ended.  As root takes the append-only flag from what they left.  Returns 0;
 * or a negative errno with one line in `err`: -EWOULDBLOCK if another caissond holds it, and
 * still does after `wait_ms`, whose pid is named.  `ret` can be finished either way.
 */
int rundir_open(const char *dir, const char *namespace, unsigned wait_ms, struct rundir *ret,
    char err[STATE_ERROR_MAX]);

/* Closes everything, the lock last.  The directory stays: it is the record. */
void rundir_finish(struct rundir *run);

/*
 * As root: lets the ledger, which runs as `uid` and `gid` as long as we live, read the
 * segments and own the index, also those that there are.  Before the first segment of ours.
 * 0 or a negative errno.
 */
int rundir_give(struct rundir *run, uid_t uid, gid_t gid);

/*
 * Makes the next segment: new, with `bytes` reserved on the disk, itself and its directory
 * synced, locked, as root append-only in the file system too.  Whoever sees its name finds it
 * finished.  `*ret_fd` is write-only and append-only.  Returns 0; -ENOSPC and its kin when the reservation cannot be had (nothing
 * is left then); another negative errno.
 */
int rundir_segment(struct rundir *run, uint64_t bytes, int *ret_fd, uint64_t *ret_number);

/* The brokers that could write are reaped: takes the file system's append-only flag from
 * all segments, so that the owner can move or delete the record. */
void rundir_seal(struct rundir *run);

/* For a short visit: gives back what the segments made behind number `after` have reserved and
 * not used.  One that somebody may still write to is left alone.  Best effort. */
void rundir_trim(const struct rundir *run, uint64_t after);

#endif /* SUPERVISOR_STATE_H */
