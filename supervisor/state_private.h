/*
 * state_private: what state*.c share.
 */
#ifndef SUPERVISOR_STATE_PRIVATE_H
#define SUPERVISOR_STATE_PRIVATE_H

#include <stdbool.h>

#include "supervisor/state.h"

/* "--state DIR: cannot WHAT: error" into `err`.  Returns -error. */
int state_fail(char err[STATE_ERROR_MAX], const char *dir, const char *what, int error);

/*
 * Opens the state directory `wanted`, NULL for the default, which is made if it is not there
 * and must be ours, and reads or makes its key.  Returns its descriptor and its path, which is
 * the caller's, in `*ret_dir`; or a negative errno with a line in `err`.
 */
int state_open(
    const char *wanted, char **ret_dir, uint8_t ret_key[STATE_KEY], char err[STATE_ERROR_MAX]);
/* Opens `name` beneath `dir_fd`, making it if it is not there.  -errno if it cannot. */
int state_open_subdir(int dir_fd, const char *name);
/* Opens journal and index beneath `run_fd`, and syncs it. */
int state_open_stores(int run_fd, struct rundir *run);
/* Fills the paths of both; `run_fd` is at DIR/place/run->id.  -errno or 0. */
int state_set_paths(struct rundir *run, const char *dir, const char *place);

/* "journal.NNNNNNNN". */
void state_segment_name(char name[17], uint64_t number);

/* ---- state_seal.c ---- */

/* Best effort: few file systems and only root can. */
void state_set_append_only(int fd, bool on);
/* As root: says that the run `id` has segments that are append-only, or will have; and that it
 * has none.  0 or a negative errno. */
int state_mark_unsealed(int state_fd, const char *id);
void state_unmark(int state_fd, const char *id);
/* As root: takes the flag from what killed caissonds left. */
void state_seal_left(int state_fd, int runs_fd);

#endif /* SUPERVISOR_STATE_PRIVATE_H */
